"""Packages whose names are imported when they are first used."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: dict[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the `__getattr__` and the `__dir__` of a package; `homes` has the names of its modules."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name in home_of:
            return getattr(import_module(f"{package}.{home_of[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def list_names() -> list[str]:
        return sorted([*vars(sys.modules[package]), *home_of])

    return get, list_names
