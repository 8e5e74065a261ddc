"""Export a trained policy as a file that does not need this package: Python, C or ONNX.

python scripts/export.py logs/CartPole-v1/TwoTimescaleAC_0_1/model.npz
python scripts/export.py MODEL --to policy.c --digits 5
"""

from common.ending import run_and_exit

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np
import tyro
from gymnasium import spaces

from common.exported_policy import run_compiled, run_exported
from oda_rl._types import Array
from oda_rl.agents import DistilledPolicy
from oda_rl.agents.export import PolicyProgram, export_policy
from oda_rl.agents.models import load_model
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

STATES = 10_000
# How to use an exported file, by its suffix
NEXT = {
    ".py": "cd {folder} && python -i {name}   # then decide([...])",
    ".c": "cc -std=c99 -O2 -c {path}   # int policy_decide(const double *observation)",
    ".onnx": "onnxruntime.InferenceSession({text!r}).run(None, {{'observation': observations}})",
}


@dataclass
class Args:
    """Export the greedy policy of an agent with a table of cells."""

    model: Annotated[Path, tyro.conf.Positional]
    """The model file."""
    to: Path | None = None
    """File to write: .py (standard library), .c (C99) or .onnx; by default policy.py next to it."""
    digits: int | None = None
    """Significant digits of the numbers, 1 to 17; by default all of them."""


def draw_states(model: OnlineAlgorithm, program: PolicyProgram) -> Array:
    """Draw states in the environment's dtype: near the cells for a Box, otherwise from the space."""
    rng, codec = np.random.default_rng(0), model.observations
    if not isinstance(codec.space, spaces.Box):
        codec.space.seed(0)
        drawn = (codec.encode(codec.space.sample()) for _ in range(STATES))
        return np.array(list(drawn), dtype=np.float64)
    if isinstance(model, DistilledPolicy):  # its cells may ignore some coordinates
        states = rng.uniform(*model.learner.ranges, (STATES, len(program.scale)))
    else:
        about = program.codevectors[rng.integers(len(program.codevectors), size=STATES)]
        states = about + 0.5 * program.scale * rng.standard_normal(about.shape)
    return codec.nearest(states)


def agreement(model: OnlineAlgorithm, states: Array, found: Any) -> float:
    """The share of states in which the actions `found` equal those of the agent."""
    decided = model.actions.decode_many(model.learner.act(states, deterministic=True))
    same = np.isclose(found.reshape(STATES, -1), decided.reshape(STATES, -1), rtol=1e-5, atol=1e-6)
    return float(same.all(axis=1).mean())


def main(args: Args) -> int:
    """Load, write, compare, print."""
    path = args.to or args.model.with_name("policy.py")
    try:
        model = load_model(args.model)
        program = export_policy(model, path, args.digits)
    except (FileNotFoundError, ImportError, ValueError) as error:
        print(f"Cannot export the model: {error}")
        return 1
    states = draw_states(model, program)
    found, how = run_exported(path, program, states)
    size = path.stat().st_size / 1000
    print(f"{path}: {len(program.values)} cells, {program.n_numbers:,} numbers, {size:.1f} kB; {how}.")
    if found is not None:
        same = agreement(model, states, found)
        print(f"The file's action is the agent's in {same:.2%} of {STATES:,} states.")
    if found is not None and path.suffix == ".c":
        same = agreement(model, states, run_compiled(path, program, states, "float")[0])
        print(f"In single precision (-DREAL=float) it is in {same:.2%}.")
    typed = {"path": path, "folder": path.parent, "name": path.name}
    told = {name: quote(str(part)) for name, part in typed.items()}
    command = NEXT[path.suffix].format(**told, text=str(path))
    print(f"To decide with it:\n  {command}")
    return 0


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
