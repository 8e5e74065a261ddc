"""Shrink a trained policy to as few numbers as possible while its return holds.

python scripts/shrink.py logs/CartPole-v1/TwoTimescaleAC_0_1/model.npz
python scripts/shrink.py ppo_lunarlander.zip --env-id LunarLander-v3 --tolerance 0.05
"""

from common.ending import run_and_exit

from dataclasses import dataclass
from pathlib import Path

import tyro

from common.evaluation import refused_in_a_line
from common.pictures import save
from common.teachers import StudentOptions, what_next
from oda_rl.agents import DistilledPolicy
from oda_rl.agents.distill import Front, shrink
from oda_rl.agents.distill.formulas import draw_page, formula_table
from oda_rl.storage import written_whole


@dataclass
class Args(StudentOptions):
    """Distill a policy into ever smaller tables while their return holds."""

    tolerance: float = 0.02
    """Fraction of the return that may be lost."""


def write(path: Path, front: Front, student: DistilledPolicy) -> list[Path]:
    """Write the tables and pictures of the front and the student; returns their paths."""
    table, picture, page = (path.with_suffix(end) for end in (".md", ".png", ".page.png"))
    with written_whole(table) as temporary:
        parts = front.table(), formula_table(student)
        temporary.write_text(
            "\n\n".join(f"{one.title}\n\n{one.to_markdown()}" for one in parts) + "\n", encoding="utf-8"
        )
    save(front.plot().figure, picture)
    save(draw_page(student), page)
    return [table, picture, page]


def main(args: Args) -> int:
    """Load, shrink, write, print."""
    with refused_in_a_line("Cannot shrink the model", TypeError):
        path = args.file("shrunk.npz")
        teacher, env_id = args.load()
        front = shrink(teacher, env_id, tolerance=args.tolerance, **args.passed_on)
    student = front.smallest(args.tolerance)
    args.finish(student, path)
    files = write(path, front, student)
    parts = front.table(), formula_table(student), args.compare(teacher, student)
    print(*parts, sep="\n\n")
    print(f"The model is in {path}, tables and pictures in {', '.join(map(str, files))}.")
    print(f"To explain or export it:\n{what_next(path, 'explain', 'export')}")
    return 0


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
