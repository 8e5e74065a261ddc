"""Inspection of models: cells as tables, trees as text and rules, contributions and counterfactuals.

The public names are in `oda_rl.explain`.
"""
