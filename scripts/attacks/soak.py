"""A soak: many samples and many steps, with an eye on memory and on speed from beginning to end."""

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from stable_baselines3.common.callbacks import BaseCallback

from common.tables import show_table
from oda_rl import ODAPartition
from oda_rl.agents import models

# Parts of a soak, of which the first one also grows the codebook; samples of a call
PARTS, CHUNK = 10, 100_000
ENV_ID = "oda_rl/CartPole-v1"
# What may be between the second part and the last: MB more, and slower by so much
MOST_MB, SLOWER = 2.0, 0.05


def memory() -> float:
    """Of this process, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


class Watch(BaseCallback):
    """Notes memory and time of the processor at the end of each part."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.every = n // PARTS
        self.marks: list[tuple[float, float]] = [(memory(), time.process_time())]

    @property
    def due_every(self) -> int:
        """Steps between two calls."""
        return self.every

    def _on_step(self) -> bool:
        if self.n_calls % self.every == 0:
            self.note()
        return True

    def note(self) -> None:
        """The end of a part."""
        self.marks.append((memory(), time.process_time()))


def soak_partition(watch: Watch) -> str:
    """Samples of a mixture, one after the other."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(CHUNK, 2)) + 10.0 * rng.integers(4, size=(CHUNK, 1))
    model = ODAPartition(20, random_state=0)
    for _ in range(PARTS):
        for _ in range(watch.every // CHUNK):
            model.partial_fit(samples)
        watch.note()
    model.predict(samples[:10])
    return "" if np.isfinite(model.codevectors_).all() else "not finite"


def soak_agent(watch: Watch) -> str:
    """Steps of the default agent."""
    model: Any = models.default_agent(ENV_ID)(env=ENV_ID, seed=0)
    model.learn(PARTS * watch.every, callback=watch, log_interval=None)
    values = model.learner.state_values(np.zeros((1, model.observation_space.shape[0])))
    return "" if np.isfinite(values).all() else "not finite"


def soak(n: int, console: Console) -> int:
    """Let `n` samples and `n` steps go by, print what came of it; returns how many went wrong."""
    n = max(n, PARTS * CHUNK) // (PARTS * CHUNK) * PARTS * CHUNK
    kinds: dict[str, Callable[[Watch], str]] = {"ODAPartition, samples": soak_partition}
    name = f"{models.default_agent(ENV_ID).__name__}, steps of {ENV_ID}"
    kinds[name] = soak_agent
    rows, bad = [], 0
    for name, run in kinds.items():
        watch = Watch(n)
        trouble = run(watch)
        used, at = (np.array(column) for column in zip(*watch.marks, strict=True))
        speed = watch.every / np.diff(at)
        more = used[-1] - used[2]
        slower = 1.0 - speed[-1] / speed[1]
        wrong = bool(trouble) or more > MOST_MB or slower > SLOWER
        bad += wrong
        rows.append(
            [
                *(name, f"{n:,}", f"{speed[1]:,.0f}", f"{speed[-1]:,.0f}", f"{-100.0 * slower:+.1f} %"),
                *(f"{used[2]:.1f}", f"{more:+.1f}", trouble or ("wrong" if wrong else "right")),
            ]
        )
    titles = ["", "in all", "a second at first", "at the end", "", "MB at first", "MB at the end", ""]
    show_table(console, f"Soak of {n:,} in {PARTS} parts, the second beside the last", titles, rows)
    return bad
