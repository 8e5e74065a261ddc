"""Policies as source files that need no package: Python, C and ONNX."""

from oda_rl.agents.export.program import policy_program
from oda_rl.agents.export.writers import FORMATS, export_policy
from oda_rl.agents.policy_program import PolicyProgram

__all__ = ["FORMATS", "PolicyProgram", "export_policy", "policy_program"]
