"""Policies of files, whoever has trained them."""

from pathlib import Path
from typing import Any

from oda_rl.agents.models import load_model
from sb3_zoo import SB3_CLASSES, find_class


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
    return find_class(told).load(path, device="cpu")
