"""Values that are sums over the layers of a tree: Algorithms 5 and 6 of M for an agent that learns Q.

A codebook divides the observations into regions. Each region has a codebook of its own, which is
annealed with the observations in that region. Values are learned by Watkins' Q(lambda) on the nearest
cells.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from rich.console import Console
from sklearn.decomposition import PCA

import oda_rl.envs
from benchmarks.training import EVALUATION_SEED, greedy_return
from common.arguments import Count, Positive, PositiveReal, one_of
from common.tables import show_table
from common.workers import Where, call_all
from oda_rl import agents
from oda_rl._types import Array
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.divergences import get_divergence
from oda_rl.codebook.schedule import Cooling, first_and_last_temperature

# Observations under random actions that determine the units; observations before a codebook begins.
WARM_UP, FIRST = 2_000, 100
# Every EVERY-th observation moves cells: the slow timescale.
EVERY = 2
# The traces of a region are reset to 0 once all of them are below this.
FAINT = 1e-3


class Kind(NamedTuple):
    """How values are computed from a tree, and how quickly they are learned."""

    step: float
    """Part of a value's error that one observation corrects."""
    cells: tuple[int, int] = (8, 16)
    """Most regions, and most cells of each region; 0 for no second layer."""
    sums: bool = False
    """Whether the values of both layers are added; otherwise only those of the leaves count."""
    coarse: bool = False
    """Whether the regions divide the space of two principal components."""
    linear: bool = False
    """Whether values are linear functions of the observation in a cell; otherwise they are constant."""


# Stepsizes are the best of 0.05, 0.1, 0.2 and 0.4 after 60,000 steps of Acrobot, seeds 100 to 102
KINDS = {
    "one layer of 128 cells": Kind(0.2, (128, 0)),
    "the leaves": Kind(0.4),
    "sums over two layers": Kind(0.1, sums=True),
    "sums, the first of two components": Kind(0.1, sums=True, coarse=True),
    "one layer, linear": Kind(0.2, (128, 0), linear=True),
    "the leaves, linear": Kind(0.2, linear=True),
    "sums over two layers, linear": Kind(0.2, sums=True, linear=True),
}
OURS = "TwoTimescaleQ"


@dataclass
class Layers(Where):
    """Compare values of the leaves of a tree with sums over its layers, and with our agent."""

    env_ids: tuple[str, ...] = ("oda_rl/Acrobot-v1", "LunarLander-v3")
    """Environments."""
    total_timesteps: tuple[Positive, ...] = (100_000, 300_000)
    """Environment steps on each environment."""
    seeds: tuple[Count, ...] = (0, 1, 2, 3, 4)
    """Seeds of each row."""
    cases: tuple[Annotated[str, one_of([*KINDS, OURS])], ...] = ()
    """Names of rows; all if none is given."""
    step: PositiveReal | None = None
    """Stepsize of values, in place of each row's own."""
    episodes: Positive = 20
    """Greedy episodes of each evaluation."""


class Region:
    """A codebook with its own annealer, and with values and their traces in its cells."""

    def __init__(self, n_values: int, most: int, rng: np.random.Generator, begun: Array | None) -> None:
        self.n_values, self.most, self.rng, self.begun = n_values, most, rng, begun
        self.book: Codebook | None = None
        self.rows: list[Array] = []

    def observe(self, point: Array) -> None:
        """Collect observations; the codebook begins with the first `FIRST`, then learns in batches."""
        self.rows.append(point)
        if self.book is None and len(self.rows) == FIRST:
            self._begin(np.array(self.rows))
        if self.book is not None and len(self.rows) >= FIRST // 5:
            self.annealer.observe(np.array(self.rows))
            self.rows = []

    def _begin(self, points: Array) -> None:
        critical, mean, axis, _ = get_divergence("squared_euclidean").moments(points, np.ones(FIRST))
        payload = {"theta": (self.n_values, "mean"), "trace": (self.n_values, "mean")}
        self.book = Codebook(len(mean), payload, capacity=2 * self.most)
        self.book.axis[:, self.book.add(mean)] = axis
        if self.begun is not None:
            self.book["theta"][:, 0] = self.begun
        hot, cold = first_and_last_temperature("auto", "auto", critical)
        self.annealer = Annealer(
            *(self.book, hot, cold, Cooling(0.8)),
            max_codevectors=self.most,
            check_every=25,
            max_samples=50,
            min_samples=100,
            seed=self.rng,
        )

    def nearest(self, point: Array) -> int:
        """Index of the cell nearest to an observation."""
        assert self.book is not None
        away = self.book.location[:, : self.book.n_cells] - point[:, None]
        return int(np.einsum("ij,ij->j", away, away).argmin())


class TreeQ:
    """The learner: regions, a codebook in each, and Q(lambda) over the cells of an observation."""

    def __init__(self, env: gym.Env, kind: Kind, seed: int, gamma: float = 0.99, lambda_: float = 0.9):
        self.env, self.kind, self.gamma, self.decay = env, kind, gamma, gamma * lambda_
        self.rng = np.random.default_rng(seed)
        self.n_actions = int(env.action_space.n)  # type: ignore[attr-defined]
        self.observation = env.reset(seed=seed)[0]
        seen = np.array([self._step(int(self.rng.integers(self.n_actions)))[0] for _ in range(WARM_UP)])
        self.mean, self.scale = seen.mean(axis=0), np.maximum(seen.std(axis=0), 1e-6)
        scaled = (seen - self.mean) / self.scale
        self.directions = PCA(2).fit(scaled).components_ if kind.coarse else None
        self.n_basis = 1 + seen.shape[1] if kind.linear else 1
        self.root = self._region(kind.cells[0], None)
        for point in scaled[:FIRST]:
            self.root.observe(self._coarse(point))
        self.regions: list[Region] = []
        self.live: set[Region] = set()

    def _region(self, most: int, begun: Array | None) -> Region:
        return Region(self.n_actions * self.n_basis, most, self.rng, begun)

    def _step(self, action: int) -> tuple[Array, float, bool, bool]:
        observation, reward, terminated, truncated, _ = self.env.step(action)
        ended = terminated or truncated
        self.observation = self.env.reset()[0] if ended else observation
        return observation, float(reward), terminated, ended

    def _coarse(self, point: Array) -> Array:
        return point if self.directions is None else self.directions @ point

    def _active(self, point: Array) -> list[tuple[Region, int]]:
        """The cells, each with its region, that determine the value of an observation."""
        found = self.root.nearest(self._coarse(point))
        inner = self.regions[found] if self.regions else None
        if inner is None or inner.book is None:
            return [(self.root, found)]
        leaf = (inner, inner.nearest(point))
        return [(self.root, found), leaf] if self.kind.sums else [leaf]

    def _basis(self, point: Array) -> Array:
        return np.append(1.0, point) if self.kind.linear else np.ones(1)

    def values(self, active: list[tuple[Region, int]], basis: Array) -> Array:
        """Values of all actions: sums over the layers."""
        total = np.zeros(self.n_actions)
        for region, cell in active:
            assert region.book is not None
            total += region.book["theta"][:, cell].reshape(self.n_actions, -1) @ basis
        return total

    def _scaled(self, observation: Array) -> Array:
        return np.clip((observation - self.mean) / self.scale, -10.0, 10.0)

    def predict(self, observation: Array, *_: Any, **__: Any) -> tuple[Any, None]:
        """Greedy actions for several observations, in the form that SB3's evaluation needs."""
        points = [self._scaled(one) for one in observation]
        chosen = [self.values(self._active(x), self._basis(x)).argmax() for x in points]
        return np.array(chosen), None

    def learn(self, steps: int, first_epsilon: float, last_epsilon: float) -> None:
        """Learn for `steps` steps; the share of random actions falls linearly."""
        point = self._scaled(self.observation)
        active, basis = self._active(point), self._basis(point)
        values = self.values(active, basis)
        for i in range(steps):
            epsilon = first_epsilon + i / steps * (last_epsilon - first_epsilon)
            action = int(values.argmax())
            if self.rng.random() < epsilon:
                action = int(self.rng.integers(self.n_actions))
                if values[action] < values.max():
                    self._clear_traces()  # Watkins: what follows is not due to the greedy policy
            self._set_traces(active, basis, action)
            before = values[action]
            observation, reward, terminated, ended = self._step(action)
            after = self._scaled(observation)
            active, basis = self._active(after), self._basis(after)
            values = self.values(active, basis)
            goal = reward + (0.0 if terminated else self.gamma * values.max())
            self._correct_values(goal - before)
            if ended:
                self._clear_traces()
                after = self._scaled(self.observation)
            if i % EVERY == 0:
                self._move_cells(after)
            if i % EVERY == 0 or ended:
                active, basis = self._active(after), self._basis(after)
            values = self.values(active, basis)

    def _set_traces(self, active: list[tuple[Region, int]], basis: Array, action: int) -> None:
        """Set the traces of the cells, so that all layers together correct a part `step` of an error."""
        rows = slice(action * self.n_basis, (action + 1) * self.n_basis)
        share = basis / (len(active) * (basis @ basis))
        for region, cell in active:
            assert region.book is not None
            if self.kind.linear:
                region.book["trace"][rows, cell] += share
            else:
                region.book["trace"][:, cell] = 0.0
                region.book["trace"][rows, cell] = share
            self.live.add(region)

    def _correct_values(self, error: float) -> None:
        for region in list(self.live):
            assert region.book is not None
            trace = region.book["trace"]
            region.book["theta"][:] += self.kind.step * error * trace
            trace *= self.decay
            if np.abs(trace).max() < FAINT:
                trace[:] = 0.0
                self.live.discard(region)

    def _clear_traces(self) -> None:
        for region in self.live:
            assert region.book is not None
            region.book["trace"][:] = 0.0
        self.live.clear()

    def _move_cells(self, point: Array) -> None:
        """The slow timescale: move the regions until their annealing is done, then the cells in them."""
        root = self.root
        assert root.book is not None
        if not root.annealer.done:
            root.observe(self._coarse(point))
            return
        if self.kind.cells[1] == 0:
            return
        if not self.regions:
            theta = np.zeros_like(root.book["theta"]) if self.kind.sums else root.book["theta"]
            self.regions = [self._region(self.kind.cells[1], begun.copy()) for begun in theta.T]
        self.regions[root.nearest(self._coarse(point))].observe(point)


def run_once(
    kind: Kind | None, env_id: str, steps: int, episodes: int, seed: int
) -> tuple[float, float, int]:
    """Train once; return the greedy returns after 40 % of the steps and at the end, and the cells."""
    assert oda_rl.envs  # registers the environments in a worker, which has only this function
    early, env = 2 * steps // 5, gym.make(env_id)

    def evaluate(model: Any) -> float:
        return greedy_return(model, env_id, episodes, EVALUATION_SEED * (seed + 1))

    if kind is None:
        model = getattr(agents, OURS)(env=env, seed=seed).learn(early)
        first = evaluate(model)
        model.learn(steps - early, reset_num_timesteps=False)
        return first, evaluate(model), model.n_cells
    learner = TreeQ(env, kind, seed)
    learner.learn(early, 0.2, 0.1)
    first = evaluate(learner)
    learner.learn(steps - early, 0.1, 0.02)
    books = [region.book for region in (learner.root, *learner.regions)]
    return first, evaluate(learner), sum(book.n_cells for book in books if book is not None)


def chosen(args: Layers) -> dict[str, Kind | None]:
    """The chosen rows of the tables."""
    known: dict[str, Kind | None] = {**KINDS, OURS: None}
    if args.step is not None:
        known = {name: kind and kind._replace(step=args.step) for name, kind in known.items()}
    return {name: kind for name, kind in known.items() if not args.cases or name in args.cases}


def run_layers(args: Layers, console: Console) -> None:
    """Print the tables of `benchmark.py layers`."""
    kinds = chosen(args)
    given, wanted = len(args.total_timesteps), len(args.env_ids)
    if given != wanted:
        sys.exit(f"--total-timesteps must have a value for each of {wanted} --env-ids, got {given}.")
    for env_id in args.env_ids:
        with gym.make(env_id) as env:
            if not isinstance(env.action_space, Discrete) or not isinstance(env.observation_space, Box):
                sys.exit(f"--env-ids: {env_id} needs Discrete actions and a Box of observations.")
    steps_of = dict(zip(args.env_ids, args.total_timesteps, strict=True))
    work = {
        (env_id, name, seed): partial(run_once, kind, env_id, steps, args.episodes, seed)
        for env_id, steps in steps_of.items()
        for name, kind in kinds.items()
        for seed in args.seeds
    }
    found = call_all(args, work, console)
    for env_id, steps in steps_of.items():
        rows = [to_row(name, [found[env_id, name, seed] for seed in args.seeds]) for name in kinds]
        early = f"after {2 * steps // 5:,}"
        columns = ("values", "cells", f"{early}: mean", "worst", f"after {steps:,}: mean", "worst")
        show_table(console, f"{env_id}, {len(args.seeds)} seeds: greedy returns", columns, rows)


def to_row(name: str, runs: Sequence[tuple[float, float, int]]) -> list[str]:
    """Format the runs of one row."""
    early, late, cells = np.array(runs).T
    returns = [f"{value:.1f}" for one in (early, late) for value in (one.mean(), one.min())]
    return [name, f"{np.median(cells):.0f}", *returns]
