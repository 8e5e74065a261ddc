"""Hyperparameters: dataclass fields that declare which values they accept, and the check of all values.

A field is declared once, by `setting`, with its type, default, interval and description. The checks and
their messages, the docstrings and signatures of the agents, and the command line are derived from it.
"""

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin

import numpy as np

from oda_rl._schema_texts import MAX_COUNT
from oda_rl._validation import LARGEST

T = TypeVar("T")
INDENT = "    "
# Arguments of an agent that its public signature leaves out
HIDDEN = ("self", "_init_setup_model", "hyperparameters")

# Docstring entries of the arguments that every agent takes in addition to its hyperparameters
PARAMETERS = """
policy : str or class, default={policy!r}
    For compatibility with SB3: there is one policy, which "MlpPolicy" and other names of SB3 mean, too.
env : str, gymnasium.Env, VecEnv or None
    The environment to learn from, or the id of one; None for a model that is to be loaded. Several
    environments of a VecEnv take turns.
config : {config}, optional
    Hyperparameters as one object; those that are given as keyword arguments override its values.
tensorboard_log : str, optional
    Folder for TensorBoard.
verbose : int, default=0
    0: silent, 1: logs to the terminal.
seed : int, optional
    The same seed gives the same result on the same machine with the same versions.
stats_window_size : int, default=100
    Number of episodes over which the returns in the log are averaged.
device : str, default="cpu"
    For compatibility with SB3: all computations are on the CPU.
"""
# Docstring entries of what every agent raises
RAISES = """
TypeError
    If a hyperparameter is unknown.
ValueError
    If one is outside its range, or a space of the environment is not supported, at all or with
    these hyperparameters.
"""


def setting(default: Any, doc: str, within: str = "", group: str = "") -> Any:
    """Declare a field of a `Config`, with its default and description.

    Its numbers must lie `within` an interval such as "[0, 1)". A `group` is the title of the group of
    fields that begins with this one in the documentation.
    """
    return field(default=default, metadata={"doc": doc, "within": within, "group": group})


def with_default(config_class: Any, name: str, default: Any) -> Any:
    """Declare a field as in another configuration, with another default."""
    return field(default=default, metadata=config_class.__dataclass_fields__[name].metadata)


def documented(config_class: type[T]) -> type[T]:
    """Put the fields of a `Config` into its docstring."""
    config_class.__doc__ = add_section(config_class.__doc__, "Parameters", describe_fields(config_class))
    return config_class


@dataclass(frozen=True)
class Config:
    """Base class of the configurations of all agents: checks all values.

    Attributes
    ----------
    fixed, fixed_by_learning : frozenset of str
        The fields that cannot be changed once a model has been made, and those that cannot be changed
        once values are learned.
    """

    fixed: ClassVar[frozenset[str]] = frozenset()
    fixed_by_learning: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        for one in fields(self):
            value, within = getattr(self, one.name), one.metadata["within"]
            try:
                found = _convert(one.type, value, _inside(within), one.default == ())
            except (TypeError, ValueError, OverflowError):
                accepted = _accepted(one.type, within)
                numbers = value if isinstance(value, list | tuple) else [value]
                if any(isinstance(x, int | float) and MAX_COUNT < abs(x) < math.inf for x in numbers):
                    accepted += f", of magnitude up to {LARGEST:g}, or 2^48 for integers"
                raise ValueError(f"{one.name} must be {accepted}, got {value!r}.") from None
            object.__setattr__(self, one.name, found)
        self._check_together()

    def _check_together(self) -> None:
        """Raise a ValueError if values contradict one another."""

    def check_change(self, other: "Config", learned: bool) -> None:
        """Raise a ValueError if a model cannot continue with another configuration.

        Parameters
        ----------
        other : Config
            The other configuration, of the same class.
        learned : bool
            Whether the model has begun to learn values.
        """
        for one in fields(self):
            before, wanted = getattr(self, one.name), getattr(other, one.name)
            late = learned and one.name in self.fixed_by_learning
            if before != wanted and (late or one.name in self.fixed):
                when = "once values are learned" if late else "once the model has been created"
                raise ValueError(
                    f"{one.name} cannot be changed {when}: it is {before!r}, got {wanted!r}."
                )

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict that can be written as JSON."""
        return asdict(self)


def override(config: Any, given: Mapping[str, Any], owner: str) -> Any:
    """Return the configuration with the values `given` for some of its fields.

    Raises a TypeError, which names the `owner` of the hyperparameters, if there is no such field, and a
    ValueError if a value is not accepted.
    """
    names = [one.name for one in fields(config)]
    for name in given:
        if name not in names:
            raise TypeError(
                f"{owner} has no hyperparameter {name!r} (got {given[name]!r}); "
                f"it has {', '.join(names)}."
            )
    return replace(config, **given)


@contextmanager
def naming_sizes(config: Config) -> Iterator[None]:
    """Name in a MemoryError the hyperparameter that most probably asked for the memory."""
    try:
        yield
    except MemoryError as error:
        whole = {name: value for name, value in config.to_dict().items() if type(value) is int}
        name = max(whole, key=lambda one: whole[one])
        raise MemoryError(
            f"there is not enough memory for these hyperparameters, of which {name}={whole[name]} is "
            f"the largest whole number: {error}"
        ) from error


# -- what a field accepts ----------------------------------------------------------------------------


def _inside(within: str) -> Callable[[float], bool]:
    """Return a test for an interval; NaN, and finite numbers beyond `LARGEST`, are never inside."""
    if not within:
        return lambda number: number == number
    low, high = (float(end) for end in within[1:-1].split(","))
    from_low, to_high = within[0] == "[", within[-1] == "]"
    ends = ((low,) if from_low else ()) + ((high,) if to_high else ())
    least, most = max(low, -LARGEST), min(high, LARGEST)
    return lambda x: (low < x < high and least <= x <= most) or x in ends


def _convert(kind: Any, value: Any, inside: Callable[[float], bool], may_be_empty: bool) -> Any:
    """Convert a value to plain Python; raises an error if it is no `kind`, or a number not `inside`."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is UnionType:
        for part in parts:
            try:
                return _convert(part, value, inside, may_be_empty)
            except (TypeError, ValueError, OverflowError):
                continue
        raise ValueError
    if origin is tuple:
        if isinstance(value, str) or not (len(value) or may_be_empty):
            raise ValueError
        kinds = (parts[0],) * len(value) if parts[-1] is Ellipsis else parts
        return tuple(_convert(*pair, inside, False) for pair in zip(kinds, value, strict=True))
    if origin is Literal or kind in (bool, NoneType):
        choices = parts if origin else (True, False) if kind is bool else (None,)
        if value not in choices or (isinstance(value, int) and not isinstance(value, bool)):
            raise ValueError
        return value
    if isinstance(value, str | bool | np.bool_) or not inside(float(value)):
        raise ValueError
    if kind is int and (value != int(value) or abs(value) > MAX_COUNT):
        raise ValueError
    return kind(value)


def _accepted(kind: Any, within: str, many: bool = False) -> str:
    """Describe in words what a field of this type accepts."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return " or ".join(_accepted(part, within, many) for part in parts)
    if origin is tuple:
        return f"{'tuples' if many else 'a tuple'} of {_accepted(parts[0], within, many=True)}"
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if kind in (bool, NoneType):
        return "True or False" if kind is bool else "None"
    number = "integer" if kind is int else "number"
    found = f"{number}s" if many else f"{'an' if kind is int else 'a'} {number}"
    return f"{found} in {within}" if within else found


# -- documentation of the fields ---------------------------------------------------------------------


def describe_fields(config_class: Any) -> str:
    """Format the fields as entries of numpydoc's section "Parameters", with a line for each group."""
    lines = []
    for one in fields(config_class):
        if one.metadata["group"]:
            lines += ["", one.metadata["group"], ""]
        accepted = _accepted(one.type, one.metadata["within"])
        lines.append(f"{one.name} : {accepted}, default={one.default!r}")
        lines += textwrap.wrap(one.metadata["doc"], 92, initial_indent=INDENT, subsequent_indent=INDENT)
    return "\n".join(lines)


def add_section(
    doc: str | None, title: str, entries: str, before: str = "[A-Z][A-Za-z ]+"
) -> str | None:
    """Add a section with these entries to a docstring, before the first with a title like `before`."""
    if doc is None or not entries:  # `python -OO` drops docstrings
        return doc
    text = inspect.cleandoc(doc)
    section = re.search(rf"^({before})\n-{{3,}}$", text, re.MULTILINE)
    at = section.start() if section else len(text)
    head, tail = text[:at].rstrip(), text[at:]
    return f"{head}\n\n{title}\n{'-' * len(title)}\n{entries.strip()}\n" + (f"\n{tail}" if tail else "")


def show_hyperparameters(agent: Any, signature: inspect.Signature) -> None:
    """Put the fields of an agent's `config_class` into its signature and docstring."""
    config_class, policy = agent.config_class, next(iter(agent.policy_aliases))
    common = PARAMETERS.format(policy=policy, config=config_class.__name__)
    doc = add_section(agent.__doc__, "Parameters", common + describe_fields(config_class))
    agent.__doc__ = add_section(doc, "Raises", RAISES, before="References|Examples")
    shown = [one for one in signature.parameters.values() if one.name not in HIDDEN]
    shown[0] = shown[0].replace(default=policy)
    for one in fields(config_class):
        keyword: Any = inspect.Parameter.KEYWORD_ONLY
        shown.append(inspect.Parameter(one.name, keyword, default=one.default, annotation=one.type))
        if not hasattr(agent, one.name):
            setattr(agent, one.name, _Attribute(one.name))
    agent.__signature__ = inspect.Signature(shown)


class _Attribute:
    """Descriptor that makes a hyperparameter a settable attribute of an agent."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, agent: Any, owner: Any = None) -> Any:
        if agent is None:
            return self
        if self.name in type(agent.config).__dataclass_fields__:
            return getattr(agent.config, self.name)
        raise AttributeError(f"{type(agent).__name__} has no hyperparameter {self.name!r}.")

    def __set__(self, agent: Any, value: Any) -> None:
        if value != self.__get__(agent):
            agent.set_hyperparameters(**{self.name: value})
