"""The hyperparameters of distillation."""

from dataclasses import dataclass
from typing import Literal

from oda_rl.agents.hyperparameters import Config, documented, setting


@documented
@dataclass(frozen=True)
class DistilledConfig(Config):
    """Hyperparameters of distillation; each is a keyword argument of `distill` and `shrink`."""

    max_cells: int = setting(10, "Cells at most.", "[1, 1000]", group="The table")
    local_model: Literal["linear", "constant"] = setting(
        "linear", "Whether preferences change along the coordinates within a cell, or not."
    )
    cells_of: Literal["codebook", "tree"] = setting(
        "codebook",
        "Where cells lie: those of one codebook that is annealed as a whole, or the leaves of a tree, "
        "which is divided where the teacher is told worst.",
    )
    softness: float = setting(
        1.0,
        "How far cells overlap, in mean squared distances of states from the nearest codevector; with 0 "
        "the nearest cell decides alone.",
        "[0, 100]",
    )
    rounds: int = setting(
        8,
        "Tables that are fitted one after the other, the first to what the teacher did where it went "
        "itself, the others to what it would have done where their predecessors went, too.",
        "[1, 1000]",
        group="Learning from the teacher",
    )
    steps_per_round: int = setting(5000, "Steps of each.", "[100, inf)")
    n_copies: int = setting(5, "Copies of the environment that are watched together.", "[1, 1000]")
    judge: Literal["return", "states"] = setting(
        "return",
        "What tables are judged by, the best of which is kept: the return of episodes, or, without any "
        "more of these, what they lose by the teacher's own Q values in `steps_per_round` states.",
    )
    eval_episodes: int = setting(
        50, "Episodes by which the return of each table is judged.", "[1, 100000]"
    )
