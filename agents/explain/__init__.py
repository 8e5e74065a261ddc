"""Explanations of policies: cells, contributions, counterfactuals."""
