"""Soak test: many samples and steps, with memory and speed compared between beginning and end."""

import io
import time
import timeit
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console

from attacks.models import content_of
from common.measuring import timed
from common.processes import resident_memory
from common.tables import show_table
from oda_rl import ODAClassifier, ODAPartition
from oda_rl.agents import TwoTimescaleAC

# Parts of a soak, the first of which also grows the codebook; samples or steps of one call
PARTS, CHUNK = 10, 100_000
ENV_ID = "oda_rl/CartPole-v1"
# The models after the first part and at the end are timed in turns. COPIES of each are needed, as the
# addresses of arrays make one copy 5 % slower than another. At least TURNS turns and TIMED seconds.
COPIES, TURNS, TIMED = 3, 5, 30.0
# Growth that is allowed after the first part: MB of memory, relative time of a sample or step
MOST_MB, SLOWER = 2.0, 0.05
_rng = np.random.default_rng(0)
GROUPS = _rng.integers(4, size=CHUNK)
SAMPLES = _rng.normal(size=(CHUNK, 2)) + 10.0 * GROUPS[:, None]


def stream(model: Any, n: int) -> None:
    """Have an estimator learn `n` samples of a mixture."""
    for _ in range(n // CHUNK):
        model.partial_fit(SAMPLES, GROUPS % 2)


def play(model: Any, n: int) -> None:
    """Have an agent make `n` steps."""
    model.learn(n, reset_num_timesteps=False, log_interval=None)


SOAKED: dict[str, tuple[Callable[[], Any], Callable[[Any, int], None]]] = {
    "ODAPartition": (lambda: ODAPartition(20, random_state=0), stream),
    "ODAClassifier": (lambda: ODAClassifier(20, random_state=0), stream),
    "TwoTimescaleAC": (lambda: TwoTimescaleAC(env=ENV_ID, seed=0), play),
}


def check(model: Any, n: int) -> str:
    """Return what is wrong with a model after `n` samples or steps, if anything."""
    is_agent = hasattr(model, "learner")
    seen = model.num_timesteps if is_agent else model.n_samples_seen_
    if seen != n:
        return f"{seen} are counted"
    found = model.learner.state_values(np.zeros((1, 4))) if is_agent else model.codevectors_
    return "" if np.isfinite(found).all() else "not finite"


def soak_one(name: str, n: int) -> tuple[float, float, list[float], float, str]:
    """Return MB after the first part, MB added since, chunk times of both, saving time, and trouble."""
    make, train = SOAKED[name]
    model, early, used = make(), b"", []
    for _ in range(PARTS):
        train(model, n // PARTS)
        early = early or content_of(model)
        used.append(resident_memory())
    trouble = check(model, n)
    options = {"env": gym.make(ENV_ID)} if type(model) is TwoTimescaleAC else {}  # to learn from
    copies = [
        [type(model).load(io.BytesIO(content), **options) for _ in range(COPIES)]
        for content in (early, content_of(model))
    ]
    # in turns, as other processes may use the machine
    times, end = [], time.process_time() + TIMED
    while len(times) < TURNS or time.process_time() < end:
        times.append(
            [[timed(train, each, CHUNK, clock=time.process_time)[1] for each in some] for some in copies]
        )
    saving = min(timeit.repeat(lambda: content_of(model), number=1, repeat=5))
    return used[0], used[-1] - used[0], np.min(times, axis=(0, 2)).tolist(), saving, trouble


def soak(n: int, beginnings: tuple[str, ...], console: Console) -> int:
    """Soak models with `n` samples or steps each, print the results, and return how many went wrong."""
    n = max(n // (PARTS * CHUNK), 1) * PARTS * CHUNK
    rows, bad = [], 0
    for name in SOAKED:
        if beginnings and not name.startswith(beginnings):
            continue
        at_first, more, (before, now), saving, trouble = soak_one(name, n)
        wrong = trouble or ("wrong" if more > MOST_MB or now > (1.0 + SLOWER) * before else "")
        bad += bool(wrong)
        speeds = [f"{CHUNK / one:,.0f}" for one in (before, now)]
        change = f"{100.0 * (before / now - 1.0):+.1f} %"
        megabytes, milliseconds = (f"{at_first:.0f}", f"{more:+.2f}"), f"{1e3 * saving:.1f}"
        rows.append([name, *speeds, change, *megabytes, milliseconds, wrong or "right"])
    titles = ["", "a second then", "now", "", "MB then", "now", "ms to save", ""]
    show_table(console, f"{n:,} samples or steps; then: after a tenth", titles, rows)
    return bad
