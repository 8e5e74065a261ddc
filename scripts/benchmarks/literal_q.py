"""Algorithm 2 of "Annealing Optimization for Progressive Learning ...", line by line.

Each codevector is a pair of a state and an action, with a number Q(h). Every `every`-th pair moves the
codevectors by Algorithm 1, with its perturbations. `Choices` has as fields what the paper leaves open.
"""

from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np

from oda_rl._types import Array
from oda_rl.codebook.book import Codebook
from oda_rl.papers import LiteralAnnealer

# Bounds S^ of the paper for position, velocity, angle and angular velocity; forces of the paper in N
LIMITS = np.array([1.0, 4.0, 1.0, 4.0])
FORCES = np.array([-10.0, 10.0])
# Positions, velocities and angles that are hardly exceeded before a failure
BOUNDS = np.array([2.4, 3.0, 0.2095, 3.5])


@dataclass(frozen=True)
class Choices:
    """What Algorithm 2 leaves open, and its limits."""

    t_min: float = 0.003
    """Minimum temperature, as a fraction of the first."""
    units: str = "raw"
    """What states are divided by: "raw" (nothing), "deviations" (under random actions), "S^" or "bounds"
    (those of failure). Except for "raw", forces are divided by 10 N."""
    annealed_first: bool = False
    """Whether the first codebook is annealed under random actions; otherwise it is uniform over S^."""
    first_steps: int = 20_000
    """Steps under random actions before values are learned."""
    cost_of_failure: bool = True
    """Whether a failure costs 1; otherwise every step costs -1. In both cases Q = 0 at first."""
    least_alpha: float = 0.0
    """Lower bound of alpha, which is (visits)^(-2/3)."""
    hold: int = 1
    """Most steps for which a random action is held."""
    t_max: float = 1.0
    """First temperature, in units of the critical temperature of the pairs under random actions."""
    max_cells: int = 252
    """Most cells; the default is the maximum over the paper's runs."""
    every: int = 10
    """N of the paper: every N-th step moves the codevectors."""
    epsilon: float = 0.1
    """Share of random actions in pi_L."""
    gamma: float = 0.99


# A value of `every` with which cells hardly move while values are learned.
NEVER = 10**9
_PRINTED = Choices()
_COOL = Choices(t_min=0.03, units="deviations", t_max=0.1)
_ALL = Choices(
    *(0.0003, "bounds", True, 60_000),
    cost_of_failure=False,
    least_alpha=0.1,
    hold=5,
    every=NEVER,
)
# Readings that depart step by step from what is printed; then all changes together, and all but one.
READINGS = {
    "as printed: raw states, uniform first codebook, a cost of failure, alpha to 0": _PRINTED,
    "states divided by S^": replace(_PRINTED, units="S^"),
    "states divided by their deviations": replace(_PRINTED, units="deviations"),
    "and a tenth of the first T": _COOL,
    "and actions held, alpha from .1": replace(_COOL, hold=5, least_alpha=0.1),
    "all: states divided by the bounds of failure, annealed first and cells then at rest, a cost for "
    "each step, actions held, alpha from .1": _ALL,
    "all, but states divided by their deviations": replace(_ALL, units="deviations"),
    "all, but cells go on moving, N = 100": replace(_ALL, every=100),
    "all, but a cost of failure alone": replace(_ALL, cost_of_failure=True),
    "all, but actions not held": replace(_ALL, hold=1),
    "all, but alpha to 0": replace(_ALL, least_alpha=0.0),
    "all, but three times as many cells": replace(_ALL, t_min=0.00003, first_steps=150_000),
}


class LiteralQ:
    """The learner: a codebook of pairs, with Q(h) as payload."""

    def __init__(self, env: gym.Env, choices: Choices, seed: int) -> None:
        self.env, self.choices = env, choices
        self.rng = np.random.default_rng(seed)
        self.observation: Array = env.reset(seed=seed)[0].astype(np.float64)
        self.held, self.action = 0, 0
        self.scale, self.forces = np.ones(4), FORCES
        seen = np.array([self._random_pair() for _ in range(choices.first_steps)])
        if choices.units != "raw":
            deviations = seen[:, :4].std(axis=0)
            self.scale = {"deviations": deviations, "S^": LIMITS, "bounds": BOUNDS}[choices.units]
            self.forces = FORCES / 10.0
            seen = np.column_stack([seen[:, :4] / self.scale, seen[:, 4] / 10.0])
        self.book = Codebook(5, {"theta": (1, "mean"), "visits": (1, "count")})
        critical = self.book.divergence.critical_temperature(seen.mean(axis=0), np.cov(seen.T))
        starts = [seen.mean(axis=0)] if choices.annealed_first else self._uniform()
        for start in starts:
            self.book.add(start, 1.0 / len(starts))
        hot = choices.t_max * critical
        self.annealer = LiteralAnnealer(
            *(self.book, hot, choices.t_min * hot),
            max_codevectors=choices.max_cells,
            tol_merge=0.1,
            bifurcation="literal",
            check_every=50,
            max_samples=100,
            min_samples=200,
            seed=self.rng,
        )
        if choices.annealed_first:
            self.annealer.observe(seen)

    def _random_pair(self) -> Array:
        """Take a random action; return the state before it, and the force."""
        state = self.observation
        self.action = int(self.rng.integers(2))
        self._step()
        return np.append(state, FORCES[self.action])

    def _uniform(self) -> Array:
        """Codevectors for two bins of each coordinate, with both forces."""
        bins = np.array(np.meshgrid(*[(-0.5, 0.5)] * 4, self.forces)).reshape(5, -1).T
        return bins * np.append(LIMITS / self.scale, 1.0)

    def _step(self) -> bool:
        """Take the action; return whether that was a failure."""
        observation, _, failed, over, _ = self.env.step(self.action)
        self.observation = observation.astype(np.float64)
        if failed or over:
            self.observation = self.env.reset()[0].astype(np.float64)
            self.held = 0
        self.ended = failed or over
        return failed

    def nearest(self, state: Array) -> tuple[Array, Array]:
        """Return the codevector h nearest to (x, u) for both forces u, and Q(h)."""
        book = self.book
        points = book.location[:, : book.n_cells]
        away = ((points[:4] - (state / self.scale)[:, None]) ** 2).sum(axis=0)
        cells = (away + (points[4] - self.forces[:, None]) ** 2).argmin(axis=1)
        return cells, book["theta"][0, cells]

    def _choose(self, values: Array) -> None:
        """Choose an action by pi_L: a random one, held for some steps, or one with the least cost."""
        if self.held > 0:
            self.held -= 1
        elif self.rng.random() < self.choices.epsilon:
            self.action, self.held = int(self.rng.integers(2)), int(self.rng.integers(self.choices.hold))
        else:
            least = np.flatnonzero(values == values.min())
            self.action = int(least[self.rng.integers(len(least))])

    def learn(self, steps: int) -> None:
        """Run Algorithm 2 for `steps` steps."""
        choices, book = self.choices, self.book
        cells, values = self.nearest(self.observation)
        for i in range(steps):
            self._choose(values)
            pair = np.append(self.observation / self.scale, self.forces[self.action])
            failed = self._step()
            cost = float(failed) if choices.cost_of_failure else -1.0
            after_cells, after = self.nearest(self.observation)
            h = cells[self.action]
            book["visits"][0, h] += 1.0
            alpha = max(book["visits"][0, h] ** (-2.0 / 3.0), choices.least_alpha)
            # At a time limit nothing is learned: it is not a failure, and the next state is not known
            if failed or not self.ended:
                goal = cost + (0.0 if failed else choices.gamma * after.min())
                book["theta"][0, h] += alpha * (goal - book["theta"][0, h])
            if i % choices.every == 0:
                self.annealer.observe(pair[None])
                after_cells, after = self.nearest(self.observation)
            cells, values = after_cells, after

    def timesteps(self, episodes: int) -> list[int]:
        """Lengths of greedy episodes in timesteps."""
        lengths = []
        for _ in range(episodes):
            state, length, over = self.env.reset()[0], 0, False
            while not over:
                _, values = self.nearest(state)
                state, _, failed, limit, _ = self.env.step(int(values.argmin()))
                length, over = length + 1, failed or limit
            lengths.append(length)
        return lengths


def run(choices: Choices, env_id: str, steps: int, episodes: int, seed: int) -> dict[str, float]:
    """Train once; return cells and numbers, and the mean length of greedy episodes."""
    import oda_rl.envs  # registers the environments in a worker, which has only this function

    assert oda_rl.envs
    env: Any = gym.make(env_id)
    learner = LiteralQ(env, choices, seed)
    learner.learn(steps)
    cells = learner.book.n_cells
    mean = float(np.mean(learner.timesteps(episodes)))
    return {"seed": seed, "cells": cells, "numbers": 6 * cells, "mean": mean}
