"""Explanations of policies: what they do cell by cell, and why in a given state."""

from oda_rl.agents.explain.decision import PolicyExplanation, explain_observation
from oda_rl.agents.explain.reports import (
    explanation_sheets,
    explanation_summary,
    plot_explanation,
    policy_sheet,
    policy_summary,
    to_markdown,
)
from oda_rl.agents.explain.table import PolicyCell, PolicyTable, explain_policy
from oda_rl.inspect.contributions import Contribution, Counterfactual, Explanation

__all__ = [
    "Contribution",
    "Counterfactual",
    "Explanation",
    "PolicyCell",
    "PolicyExplanation",
    "PolicyTable",
    "explain_observation",
    "explain_policy",
    "explanation_sheets",
    "explanation_summary",
    "plot_explanation",
    "policy_sheet",
    "policy_summary",
    "to_markdown",
]
