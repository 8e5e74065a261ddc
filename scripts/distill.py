"""Distill a policy into a table of a few cells that imitates it.

python scripts/distill.py ppo_lunarlander.zip --env-id LunarLander-v3 --max-cells 10
python scripts/distill.py logs/CartPole-v1/TwoTimescaleAC_0_1/model.npz --max-cells 1
python scripts/distill.py MODEL --max-cells 2 --polish-steps 3000000
"""

from common.ending import run_and_exit

from dataclasses import dataclass
from pathlib import Path

import tyro

from common.evaluation import refused_in_a_line
from common.teachers import StudentOptions, what_next
from oda_rl.agents.distill import distill
from oda_rl.agents.distill.formulas import formula_table


@dataclass
class Args(StudentOptions):
    """Distill a model of this package or of SB3 into a table: DAgger with the weights of VIPER."""

    log_dir: Path | None = None
    """Folder for TensorBoard logs."""


def main(args: Args) -> int:
    """Load, distill, compare, print."""
    log = str(args.log_dir) if args.log_dir else None
    with refused_in_a_line("Cannot distill the model", TypeError):
        path = args.file("distilled.npz")
        teacher, env_id = args.load()
        student = distill(teacher, env_id, tensorboard_log=log, **args.passed_on)
    args.finish(student, path)
    print(formula_table(student), args.compare(teacher, student), sep="\n\n")
    print(f"The student is in {path}. To shrink, explain or export it:")
    print(what_next(path, "shrink", "explain", "export"))
    return 0


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
