"""Distill a policy into a table of a few cells that does what it does.

python scripts/distill.py ppo_lunarlander.zip --env-id LunarLander-v3 --max-cells 10
python scripts/distill.py logs/CartPole-v1/TwoTimescaleAC_0_1/model.npz --max-cells 1
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from common.arguments import Count, Positive
from common.ending import run_and_exit
from common.teachers import load_teacher
from oda_rl.agents.distill import distill
from oda_rl.agents.distill.formulas import formula_table
from oda_rl.agents.distill.play import Judge


@dataclass
class Args:
    """Distill a model of this package or of SB3 into a table: DAgger with the weights of VIPER."""

    model: Annotated[Path, tyro.conf.Positional]
    """The teacher: .npz of this package, .zip of SB3 (which unpickles it: use files that you trust)."""
    env_id: str | None = None
    """Environment; by default the one that a model of this package was trained on."""
    algorithm: str | None = None
    """Class of an SB3 model, such as PPO; by default what the name of the file tells."""
    max_cells: Positive = 10
    """Cells at most."""
    local_model: Literal["linear", "constant"] = "linear"
    """Whether preferences change within a cell."""
    rounds: Positive = 8
    """Tables that are fitted; the best one is kept."""
    steps_per_round: Positive = 5000
    """Steps that are watched for each."""
    episodes: Positive = 100
    """Episodes that teacher and student are compared by at the end."""
    seed: Count = 0
    """Same seed, same result."""
    to: Path | None = None
    """The file to write; by default distilled.npz beside the teacher."""
    log_dir: Path | None = None
    """Folder for TensorBoard."""


def main(args: Args) -> int:
    """Load, distill, compare, print."""
    path = args.to or args.model.with_name("distilled.npz")
    try:
        teacher = load_teacher(args.model, args.algorithm)
        env_id = args.env_id or getattr(teacher, "env_id", None)
        if env_id is None:
            raise ValueError("say which environment it is for: --env-id.")
        student = distill(
            teacher,
            env_id,
            seed=args.seed,
            tensorboard_log=str(args.log_dir) if args.log_dir else None,
            max_cells=args.max_cells,
            local_model=args.local_model,
            rounds=args.rounds,
            steps_per_round=args.steps_per_round,
        )
    except (FileNotFoundError, TypeError, ValueError) as error:
        print(f"Cannot distill the model: {error}")
        return 1
    student.save(path)
    judge = Judge(env_id, args.episodes, args.seed + 1)
    print(formula_table(student), end="\n\n")
    print(
        f"Return over {args.episodes} episodes: teacher {judge(teacher):.1f}, student "
        f"{judge(student):.1f}, with {student.n_cells} cells and {student.n_parameters} numbers."
    )
    print(f"The student is in {path}. To make it smaller, to see why it decides, to carry it away:")
    print(f"  python scripts/shrink.py {path}")
    print(f"  python scripts/explain.py {path}")
    print(f"  python scripts/export.py {path} --to policy.c")
    return 0


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
