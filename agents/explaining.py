"""Former path of `oda_rl.agents.explain`."""

from oda_rl.agents.explain import explain_observation, explain_policy

__all__ = ["explain_observation", "explain_policy"]
