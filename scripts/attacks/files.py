"""Attacks on model files: edited, damaged and truncated files are read, and their models used."""

import gc
import io
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

from attacks.edits import EXTREMES, cut, edit, flip, places_of, set_number
from attacks.models import MAKERS, model_bytes, use
from attacks.trials import GOOD, Attack, Begin, Found, Memory, Verdict, describe
from oda_rl.agents.learner import BadTransitionError
from oda_rl.storage import ModelFileError

# Most memory that a changed file may take, relative to the unchanged one, plus bytes of noise.
MOST_MEMORY, NOISE = 1.2, 16 * 2**20
MEMORY_USED = Memory()
# A prime: steps of this length through the list of all numbers mix the files, and reach each once.
STRIDE = 1_000_003
Change = Callable[[bytes, np.random.Generator], tuple[bytes, str]]


@cache
def reference(name: str) -> tuple[list[np.ndarray], int]:
    """Return the outputs of the unchanged model, and the bytes that reading and using it takes."""
    kind, content = model_bytes(name)
    use(kind.load(io.BytesIO(content)))  # compiles what is not compiled yet
    MEMORY_USED.begin()
    answers = use(kind.load(io.BytesIO(content)))
    memory = MEMORY_USED.grown
    again = _judge(kind, content, answers)
    assert again.verdict == Verdict.EQUAL, (name, again)
    return answers, memory


def attack(
    change: Change, names: list[str], number: int, rng: np.random.Generator, begin: Begin
) -> Found:
    """Run one trial: change the model file whose turn it is, read it, and use the model."""
    name = names[number % len(names)]
    return _change_one(change, name, rng, begin)


def attack_numbers(names: list[str], number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial: set one number of one file to one of `EXTREMES`, all combinations in turn."""
    turns = _numbers_of(tuple(names))
    name, place, value = turns[number * STRIDE % len(turns)]
    return _change_one(lambda content, own: set_number(content, place, value, own), name, rng, begin)


@cache
def _numbers_of(names: tuple[str, ...]) -> list[tuple[str, str, float]]:
    return [
        (name, place, value)
        for name in names
        for place in places_of(model_bytes(name)[1])
        for value in EXTREMES
    ]


def _change_one(change: Change, name: str, rng: np.random.Generator, begin: Begin) -> Found:
    kind, content = model_bytes(name)
    answers, usual = reference(name)
    changed, what = change(content, rng)
    begin(name, what)
    for _ in range(2):  # the second time without the garbage of other trials
        MEMORY_USED.begin()
        found = _judge(kind, changed, answers)
        memory = MEMORY_USED.grown
        if memory <= MOST_MEMORY * usual + NOISE:
            break
        gc.collect()
    else:
        if found.verdict in GOOD:
            found = Found(Verdict.MEMORY, f"{memory} bytes")
    return found._replace(memory=(memory - usual) / 2**20)


def _judge(kind: type, content: bytes, answers: list[np.ndarray]) -> Found:
    try:
        model = kind.load(io.BytesIO(content))
    except ModelFileError as error:
        return Found(Verdict.REFUSED, str(error))
    except Exception as error:
        return Found(Verdict.RAW, describe(error))
    try:
        found = use(model)
    except ModelFileError as error:  # in an environment's state, checked when one is set
        return Found(Verdict.REFUSED, str(error))
    except BadTransitionError as error:  # by an environment that continued from an edited state
        return Found(Verdict.VALID, str(error))
    except Exception as error:
        unstable = "diverged" in str(error)  # step sizes that a user may set, too
        return Found(Verdict.VALID if unstable else Verdict.LATE, describe(error))
    for mine, usual in zip(found, answers, strict=False):
        expected = np.isfinite(usual) if mine.shape == usual.shape else np.ones(mine.shape, dtype=bool)
        if not np.isfinite(mine[expected]).all():
            return Found(Verdict.NAN)
    pairs = zip(found, answers, strict=False)
    same = len(found) == len(answers) and all(np.array_equal(*p, equal_nan=True) for p in pairs)
    return Found(Verdict.EQUAL if same else Verdict.VALID)


chosen = list(MAKERS)


def choose(beginnings: Sequence[str]) -> None:
    """Attack only models whose names start with one of these; all models if there are none."""
    chosen[:] = [name for name in MAKERS if not beginnings or name.startswith(tuple(beginnings))]


def prepare() -> None:
    """Make the models and compile all code before children are forked."""
    for name in chosen:
        reference(name)


ATTACKS: dict[str, Attack] = {
    "edited files": partial(attack, edit, chosen),
    "every number": partial(attack_numbers, chosen),
    "flipped bits": partial(attack, flip, chosen),
    "cut files": partial(attack, cut, chosen),
}
