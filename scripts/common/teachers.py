"""Policies of files, whoever has trained them, and how they are made smaller."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import gymnasium as gym
import tyro

from common.arguments import Count, Positive
from oda_rl import storage
from oda_rl.agents import DistilledPolicy
from oda_rl.agents.distill import polish
from oda_rl.agents.distill.play import Judge
from oda_rl.agents.models import load_model
from oda_rl.inspect.table import counted
from sb3_zoo import SB3_CLASSES, find_class

# What `oda_rl.agents.distill.distill` and `shrink` take as it is
PASSED_ON = (
    *("seed", "max_cells", "local_model", "cells_of", "rounds", "steps_per_round"),
    *("judge", "eval_episodes"),
)


# What is said in a line: a file, a teacher, an environment or an option that is not accepted
REFUSED = (FileNotFoundError, TypeError, ValueError, gym.error.Error)


@dataclass
class StudentOptions:
    """What distill.py and shrink.py have in common."""

    model: Annotated[Path, tyro.conf.Positional]
    """The teacher: .npz of this package, .zip of SB3 (which unpickles it: use files that you trust)."""
    env_id: str | None = None
    """Environment; by default the one that a model of this package was trained on."""
    algorithm: str | None = None
    """Class of an SB3 model, such as PPO; by default what the name of the file tells."""
    max_cells: Positive = 10
    """Cells of the largest table."""
    local_model: Literal["linear", "constant"] = "linear"
    """Whether preferences change within a cell."""
    cells_of: Literal["codebook", "tree"] = "codebook"
    """Where cells lie: those of one codebook, or the leaves of a tree."""
    rounds: Positive = 8
    """Tables of that size that are fitted; the best one is kept."""
    steps_per_round: Positive = 5000
    """Steps that are watched for each table."""
    judge: Literal["return", "states"] = "return"
    """What tables are judged by: their return, or the teacher's own Q values in recorded states."""
    eval_episodes: Positive = 50
    """Episodes that the return of each table is judged by."""
    polish_steps: Count = 0
    """Steps of the environment for better numbers at the end, by the return alone; 3,000,000 are
    seconds where dynamics are compiled, and minutes elsewhere."""
    episodes: Positive = 100
    """Episodes that teacher and student are compared by at the end."""
    seed: Count = 0
    """Same seed, same result."""
    to: Path | None = None
    """The file to write; by default beside the teacher."""

    @property
    def passed_on(self) -> dict[str, Any]:
        """Arguments of `distill` and `shrink`."""
        return {name: getattr(self, name) for name in PASSED_ON}

    def load(self) -> tuple[Any, str]:
        """The teacher and its environment; raises what `load_teacher` does, or a ValueError."""
        teacher = load_teacher(self.model, self.algorithm)
        env_id = self.env_id or getattr(teacher, "env_id", None)
        if env_id is None:
            raise ValueError("say which environment it is for: --env-id.")
        return teacher, env_id

    def file(self, name: str) -> Path:
        """Where the student goes, by default `name` beside the teacher; a ValueError if it cannot."""
        path = storage.with_suffix(self.to or self.model.with_name(name))
        if path.suffix not in (".npz", ".zip") or path.is_dir():
            raise ValueError(f"--to must be a file that ends with .npz, got {path}.")
        return path

    def finish(self, student: DistilledPolicy, path: Path) -> None:
        """Polish the student if that is asked for, and save it."""
        if self.polish_steps:
            polish(student, steps=self.polish_steps, seed=self.seed)
        student.save(path)

    def compare(self, teacher: Any, student: DistilledPolicy) -> str:
        """The returns of both in other episodes, in a sentence."""
        judge = Judge(str(student.env_id), self.episodes, self.seed + 1)
        return (
            f"Return over {self.episodes} other episodes: teacher {judge(teacher):.1f}, student "
            f"{judge(student):.1f}, with {counted(student.n_cells, 'cell')} and "
            f"{counted(student.n_parameters, 'number')}."
        )


def load_teacher(path: Path, algorithm: str | None = None) -> Any:
    """An agent of this package (.npz), or a model of SB3 (.zip).

    Parameters
    ----------
    path : Path
        The file. SB3 unpickles what is in one of its own: use those that you trust.
    algorithm : str, optional
        Name of the class of an SB3 model; by default the one that the file's name tells.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, it cannot be read, or its algorithm is not known.
    """
    if path.suffix != ".zip":
        return load_model(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    told = algorithm or next((name for name in SB3_CLASSES if name.lower() in path.stem.lower()), None)
    if told is None:
        raise ValueError(f"algorithm must be told of {path}: one of {', '.join(SB3_CLASSES)}.")
    try:
        return find_class(told).load(path, device="cpu")
    except Exception as error:  # SB3 says in many ways that it is another's
        raise ValueError(f"{path} is not a model of {told}: {error}") from error


def what_next(path: Path, *scripts: str) -> str:
    """Commands for a student in a file."""
    ends, typed = {"export": " --to policy.c"}, quote(str(path))
    return "\n".join(f"  python scripts/{one}.py {typed}{ends.get(one, '')}" for one in scripts)
