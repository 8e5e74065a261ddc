"""Leave out of a trained policy all numbers that it can do without.

python scripts/shrink.py logs/CartPole-v1/TwoTimescaleAC_0_1/model.npz
python scripts/shrink.py ppo_lunarlander.zip --env-id LunarLander-v3 --tolerance 0.05
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from common.arguments import Count, Positive
from common.ending import run_and_exit
from common.pictures import save
from common.teachers import load_teacher
from oda_rl.agents.distill import Front, shrink
from oda_rl.agents.distill.formulas import draw_page, formula_table
from oda_rl.agents.distill.play import Judge
from oda_rl.storage import written_whole


@dataclass
class Args:
    """Shrink a policy to ever smaller tables while its return holds, by playing."""

    model: Annotated[Path, tyro.conf.Positional]
    """The policy: .npz of this package, .zip of SB3 (which unpickles it: use files that you trust)."""
    env_id: str | None = None
    """Environment; by default the one that a model of this package was trained on."""
    algorithm: str | None = None
    """Class of an SB3 model, such as PPO; by default what the name of the file tells."""
    tolerance: float = 0.02
    """Part of the return that may be lost."""
    max_cells: Positive = 10
    """Cells of the largest table that is tried."""
    rounds: Positive = 8
    """Tables of that size that are fitted; the best one is shrunk."""
    steps_per_round: Positive = 5000
    """Steps that are watched for each table."""
    eval_episodes: Positive = 50
    """Episodes that each table is judged by."""
    episodes: Positive = 100
    """Episodes that it is compared by at the end."""
    seed: Count = 0
    """Same seed, same result."""
    to: Path | None = None
    """The file to write, beside which table and pictures go; by default shrunk.npz beside the model."""


def write(args: Args, path: Path, front: Front) -> list[Path]:
    """Model, front and page; returns the files of table and pictures."""
    student = front.smallest(args.tolerance)
    student.save(path)
    table, picture, page = (path.with_suffix(end) for end in (".md", ".png", ".page.png"))
    with written_whole(table) as temporary:
        parts = front.table(), formula_table(student)
        temporary.write_text("\n\n".join(f"{one.title}\n\n{one.to_markdown()}" for one in parts) + "\n")
    save(front.plot().figure, picture)
    save(draw_page(student), page)
    return [table, picture, page]


def main(args: Args) -> int:
    """Load, shrink, write, print."""
    path = args.to or args.model.with_name("shrunk.npz")
    try:
        model = load_teacher(args.model, args.algorithm)
        front = shrink(
            model,
            args.env_id,
            tolerance=args.tolerance,
            seed=args.seed,
            max_cells=args.max_cells,
            rounds=args.rounds,
            steps_per_round=args.steps_per_round,
            eval_episodes=args.eval_episodes,
        )
    except (FileNotFoundError, TypeError, ValueError) as error:
        print(f"Cannot shrink the model: {error}")
        return 1
    files = write(args, path, front)
    student = front.student
    judge = Judge(str(student.env_id), args.episodes, args.seed + 1)
    print(front.table(), formula_table(student), sep="\n\n", end="\n\n")
    print(
        f"Return over {args.episodes} other episodes: {judge(model):.1f} before, {judge(student):.1f} "
        f"with {student.n_cells} cells and {student.n_parameters} numbers."
    )
    print(f"The model is in {path}, tables and pictures in {', '.join(map(str, files))}.")
    print(
        f"To carry it away, and to see why it decides:\n  python scripts/export.py {path} --to policy.c"
    )
    print(f"  python scripts/explain.py {path}")
    return 0


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
