"""Models to be read: cells as tables, trees as text and rules, contributions and counterfactuals.

The public names are those of `oda_rl.explain`.
"""
