"""Load policies of this package or of SB3, and what distill.py and shrink.py have in common."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import tyro

from common.arguments import Count, Positive, check_output, whole
from oda_rl import storage
from oda_rl.agents import DistilledPolicy
from oda_rl.agents.distill import polish
from oda_rl.agents.distill.play import Judge
from oda_rl.agents.models import load_model
from oda_rl.agents.sb3.env_origin import find_plain_id
from oda_rl.inspect.table import counted
from sb3_zoo import SB3_CLASSES, find_class

# Options that are passed unchanged to `oda_rl.agents.distill.distill` and `shrink`
PASSED_ON = (
    *("seed", "max_cells", "local_model", "cells_of", "rounds", "steps_per_round"),
    *("judge", "eval_episodes"),
)


@dataclass
class StudentOptions:
    """Options of distill.py and shrink.py."""

    model: Annotated[Path, tyro.conf.Positional]
    """The teacher: .npz of this package, or .zip of SB3, which is unpickled: use only trusted files."""
    env_id: str | None = None
    """Environment; by default the one that a model of this package was trained on."""
    algorithm: str | None = None
    """Class of an SB3 model, such as PPO; by default the one that the file's name contains."""
    max_cells: Positive = 10
    """Largest number of cells."""
    local_model: Literal["linear", "constant"] = "linear"
    """Whether preferences change linearly within a cell, or are constant."""
    cells_of: Literal["codebook", "tree"] = "codebook"
    """Whether cells are those of one codebook, or the leaves of a tree."""
    rounds: Positive = 8
    """Number of tables fitted with up to `max_cells` cells; the best one is kept."""
    steps_per_round: Annotated[int, whole(100)] = 5000
    """Environment steps recorded for each of these tables."""
    judge: Literal["return", "states"] = "return"
    """Whether tables are scored by their return, or by the teacher's Q values in recorded states."""
    eval_episodes: Positive = 50
    """Episodes over which the return of each table is averaged."""
    polish_steps: Count = 0
    """Environment steps to optimise the final table's numbers for the return; 0 for none. 3,000,000 take
    seconds if the environment has compiled dynamics, and minutes otherwise."""
    episodes: Positive = 100
    """Episodes by which teacher and student are compared at the end."""
    seed: Count = 0
    """Same seed, same result."""
    to: Path | None = None
    """The file to write; by default next to the teacher."""

    @property
    def passed_on(self) -> dict[str, Any]:
        """Keyword arguments of `distill` and `shrink`."""
        return {name: getattr(self, name) for name in PASSED_ON}

    def load(self) -> tuple[Any, str]:
        """The teacher and its environment id.

        Raises as `load_teacher`; a ValueError if there is no id, or the id alone does not make it.
        """
        teacher = load_teacher(self.model, self.algorithm)
        env_id = self.env_id
        if env_id is None and getattr(teacher, "env_id", None) is not None:
            env_id = find_plain_id(teacher, "--env-id", exactly=False)
        if env_id is None:
            raise ValueError(
                "--env-id must be given, as the model does not store the id of its environment."
            )
        return teacher, env_id

    def file(self, name: str) -> Path:
        """Path of the student, by default `name` next to the teacher; ValueError as `check_output`."""
        path = storage.with_suffix(self.to or self.model.with_name(name))
        check_output("--to", path, (".npz", ".zip"), self.model)
        return path

    def finish(self, student: DistilledPolicy, path: Path) -> None:
        """Polish the student if `polish_steps` is positive, and save it."""
        if self.polish_steps:
            polish(student, steps=self.polish_steps, seed=self.seed)
        student.save(path)

    def compare(self, teacher: Any, student: DistilledPolicy) -> str:
        """A sentence with the returns of both over other episodes, and the size of the student."""
        judge = Judge(str(student.env_id), self.episodes, self.seed + 1)
        return (
            f"Return over {self.episodes} other episodes: teacher {judge(teacher):.1f}, student "
            f"{judge(student):.1f}, with {counted(student.n_cells, 'cell')} and "
            f"{counted(student.n_parameters, 'number')}."
        )


def load_teacher(path: Path, algorithm: str | None = None) -> Any:
    """Load an agent of this package (.npz), or a model of SB3 (.zip).

    Parameters
    ----------
    path : Path
        The file. SB3 unpickles its model files: use only those that you trust.
    algorithm : str, optional
        Name of the class of an SB3 model; by default the one that the file's name contains.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, it cannot be read, or its algorithm is unknown.
    """
    if path.suffix != ".zip":
        return load_model(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    name = algorithm or next((one for one in SB3_CLASSES if one.lower() in path.stem.lower()), None)
    if name is None:
        raise ValueError(f"--algorithm must be given for {path}, as one of {', '.join(SB3_CLASSES)}.")
    try:
        return find_class(name).load(path, device="cpu")
    except Exception as error:  # SB3 raises various errors for a model of another class
        raise ValueError(f"{path} is not a model of {name}: {error}") from error


def what_next(path: Path, *scripts: str) -> str:
    """Commands to type next for a student in a file."""
    ends, typed = {"export": " --to policy.c"}, quote(str(path))
    return "\n".join(f"  python scripts/{one}.py {typed}{ends.get(one, '')}" for one in scripts)
