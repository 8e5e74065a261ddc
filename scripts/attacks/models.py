"""Small models of every kind that a file can hold, and a use of them that shows whether one is sound."""

import io
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import gymnasium as gym
import numpy as np
from sklearn.decomposition import PCA

import oda_rl.envs  # noqa: F401  registers environments
from oda_rl import (
    KernelSGDClassifier,
    KernelSGDRegressor,
    MultiResolutionODA,
    ODAClassifier,
    ODAPartition,
    ODARegressor,
)
from oda_rl import agents as agent_classes
from oda_rl.agents.distill import distill
from oda_rl.quantization import LVQ, DeterministicAnnealing, StochasticVQ
from oda_rl.resolutions import WaveletPyramid

N_STEPS = 1500
_rng = np.random.default_rng(0)
LABELS = np.repeat([0, 1, 2], 80)
X = np.ascontiguousarray(
    np.repeat(_rng.uniform(-2, 2, (3, 4)), 80, axis=0) + 0.5 * _rng.normal(size=(240, 4))
)
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1]])
FEW = {"warmup_steps": 200}
SMALL = FEW | {"growth_steps": 300, "growth_cells": 8, "max_cells": 12}
AGENT = SMALL | {"samples_per_cell": 5}
# Options of small baselines
BASELINES: dict[str, dict[str, Any]] = {
    "UniformGridQ": {"bins": 4, **FEW},
    "SOMQ": {"n_cells": 16, **FEW},
    "TileCodingSarsa": {"tiles": 3, "tilings": 4, **FEW},
    "FourierSarsa": {"order": 2, **FEW},
    "KernelQ": {"max_points": 20, **FEW},
}
TREE = AGENT | {"max_cells": 60, "growth_cells": 50, "growth_steps": 1000}


def _stream(model: Any, *targets: Any) -> Any:
    """Return the model after part of a stream, in the middle of the annealing."""
    return model.partial_fit(X[:150], *(target[:150] for target in targets))


def _fine_pattern(model: Any) -> Any:
    """Return the model after a fit to a pattern that is too fine for few cells."""
    place = np.random.default_rng(1).uniform(0.0, 6.0, (600, 4))
    return model.fit(place, np.floor(place[:, :2]).sum(axis=1) % 3)


def make_tree(template: Any, resolutions: Any = None, **options: Any) -> Any:
    """Make a small tree of estimators like `template`."""
    options |= {"layers": max(2, len(resolutions or ())), "max_children": 3, "min_support": 10}
    return MultiResolutionODA(template, resolutions=resolutions, random_state=0, **options)


def _agent(
    name: str,
    env_id: str = "oda_rl/CartPole-v1",
    steps: int = N_STEPS,
    wrap: Callable[[gym.Env], Any] = lambda env: env,
    **options: Any,
) -> Any:
    kind = getattr(agent_classes, name)
    return kind(env=wrap(gym.make(env_id)), seed=0, **options).learn(steps)


MAKERS: dict[str, Callable[[], Any]] = {
    "ODAPartition": lambda: ODAPartition(6, finish=True, random_state=0).fit(X),
    "ODAPartition, stream": lambda: _stream(
        ODAPartition(8, n_warmup=40, scale=np.ones(4), forgetting=None, random_state=0)
    ),
    "ODAPartition, early fit": lambda: _stream(ODAPartition(8, random_state=0)),
    "ODAPartition, waiting": lambda: _stream(
        ODAPartition(8, n_warmup=400, forgetting=None, random_state=0)
    ),
    "ODAPartition, perturbed": lambda: _stream(
        ODAPartition(8, n_warmup=40, bifurcation="perturb", random_state=0)
    ),
    "ODAClassifier": lambda: ODAClassifier(9, random_state=0).fit(X, LABELS),
    "ODAClassifier, neighbors": lambda: _fine_pattern(ODAClassifier(4, random_state=0)),
    "ODAClassifier, stream": lambda: _stream(
        ODAClassifier(9, n_warmup=40, random_state=0), LABELS[::-1]
    ),
    "ODAClassifier, majority": lambda: ODAClassifier(9, mode="majority", random_state=0).fit(X, LABELS),
    "ODAClassifier, texts": lambda: ODAClassifier(
        9, rule="nearest", fine_tune="glvq", random_state=0
    ).fit(X, np.array(["left", "middle", "right"])[LABELS]),
    "ODARegressor": lambda: ODARegressor(6, local_model="linear", random_state=0).fit(X, Y),
    "ODARegressor, stream": lambda: _stream(ODARegressor(6, n_warmup=40, random_state=0), Y[:, 0]),
    "ODARegressor, early fit": lambda: _stream(ODARegressor(6, random_state=0), Y),
    "ODARegressor, waiting": lambda: _stream(
        ODARegressor(6, n_warmup=400, forgetting=None, random_state=0), Y
    ),
    "StochasticVQ": lambda: StochasticVQ(5, random_state=0).fit(X),
    "DeterministicAnnealing": lambda: DeterministicAnnealing(5).fit(X),
    "LVQ": lambda: LVQ(2, random_state=0).fit(X, LABELS),
    "KernelSGDClassifier": lambda: KernelSGDClassifier(window=50, random_state=0).fit(X, LABELS),
    "KernelSGDRegressor": lambda: KernelSGDRegressor(window=50, average=True, random_state=0).fit(X, Y),
    "Tree of clusters": lambda: make_tree(
        ODAPartition(random_state=0), [WaveletPyramid(level=1), slice(0, 3), None]
    ).fit(X),
    "Tree of classes": lambda: make_tree(ODAClassifier(random_state=0), [2, None]).fit(X, LABELS),
    "Tree of classes, stream": lambda: _stream(
        make_tree(ODAClassifier(n_warmup=40, random_state=0)), LABELS[::-1]
    ),
    "Tree of outputs": lambda: make_tree(
        ODARegressor(local_model="linear", random_state=0), [PCA(2), None]
    ).fit(X, Y),
    "Tree, waiting": lambda: _stream(
        make_tree(ODAPartition(n_warmup=400, random_state=0), forgetting=None)
    ),
    "TwoTimescaleQ": lambda: _agent("TwoTimescaleQ", **AGENT),
    "TwoTimescaleQ, warming up": lambda: _agent("TwoTimescaleQ", steps=100, **AGENT),
    "TwoTimescaleQ, tree": lambda: _agent("TwoTimescaleQ", tree=True, **TREE),
    "TwoTimescaleQ, perturbed": lambda: _agent("TwoTimescaleQ", bifurcation="perturb", **AGENT),
    "TwoTimescaleQ, per action": lambda: _agent("TwoTimescaleQ", codebook="per_action", **AGENT),
    "TwoTimescaleQ, continuous": lambda: _agent("TwoTimescaleQ", "oda_rl/Pendulum-v1", **AGENT),
    "TwoTimescaleAC": lambda: _agent("TwoTimescaleAC", **AGENT),
    "TwoTimescaleAC, tree": lambda: _agent("TwoTimescaleAC", tree=True, **TREE),
    "TwoTimescaleAC, continuous": lambda: _agent("TwoTimescaleAC", "oda_rl/Pendulum-v1", **AGENT),
    "TwoTimescaleAC, normalised": lambda: _agent(
        "TwoTimescaleAC", wrap=gym.wrappers.NormalizeObservation, **AGENT
    ),
    "TwoTimescaleAC, table": lambda: _agent("TwoTimescaleAC", "oda_rl/DeepSea-v0"),
    "DistilledPolicy": lambda: distill(
        _agent("TwoTimescaleAC", **AGENT), "oda_rl/CartPole-v1", rounds=1, steps_per_round=400
    ),
    "TwoTimescaleQ, table": lambda: _agent("TwoTimescaleQ", "oda_rl/DeepSea-v0"),
    "UniformGridQ": lambda: _agent("UniformGridQ", **BASELINES["UniformGridQ"]),
    "SOMQ": lambda: _agent("SOMQ", **BASELINES["SOMQ"]),
    "TileCodingSarsa": lambda: _agent(
        "TileCodingSarsa", learning_rate_by="visits", **BASELINES["TileCodingSarsa"]
    ),
    "FourierSarsa": lambda: _agent("FourierSarsa", coupled=1, **BASELINES["FourierSarsa"]),
    "KernelQ": lambda: _agent("KernelQ", **BASELINES["KernelQ"]),
}


def content_of(model: Any) -> bytes:
    """Return the bytes of a model's file."""
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


@cache
def model_bytes(name: str) -> tuple[type, bytes]:
    """Return the class of one of `MAKERS`, and the bytes of its file."""
    model = MAKERS[name]()
    return type(model), content_of(model)


def use(model: Any) -> list[np.ndarray]:
    """Call all that a user may call on a model, with fixed data; return the outputs as floats."""
    found = _use_agent(model) if hasattr(model, "learner") else _use_estimator(model)
    content_of(model)
    return [np.asarray(part, dtype=np.float64) for part in found]


def _use_estimator(model: Any) -> list[Any]:
    found = _answers(model)
    if hasattr(model, "cells"):
        model.cells()
    list(getattr(model, "history_", []))
    if hasattr(model, "partial_fit"):
        y = LABELS if hasattr(model, "classes_") else Y[:, 0] if getattr(model, "_flat", False) else Y
        labels = (
            model.classes_[np.arange(60) % len(model.classes_)] if hasattr(model, "classes_") else y[:60]
        )
        model.partial_fit(X[:60], labels)
        found += _answers(model)
    return found


def _answers(model: Any) -> list[Any]:
    found = model.predict(X)
    if hasattr(model, "classes_"):
        places = {each: i for i, each in enumerate(model.classes_.tolist())}
        found = [places.get(each, -1) for each in found.tolist()]  # rejected samples have no class
    parts = [found, *outputs_of(model, X[:50], ("predict_proba", "transform", "decision_function"))]
    # minus infinity in a cell without any weight
    densities = outputs_of(model, X[:50], ("score_samples",))
    return parts + [np.maximum(part, np.finfo(np.float64).min) for part in densities]


def outputs_of(
    model: Any,
    rows: np.ndarray,
    methods: Sequence[str] = ("predict", "predict_proba", "transform", "score_samples"),
) -> list[Any]:
    """Return the outputs of those methods that an estimator has."""
    return [getattr(model, name)(rows) for name in methods if hasattr(model, name)]


def _use_agent(model: Any) -> list[Any]:
    space = model.observation_space
    rng = np.random.default_rng(1)
    if isinstance(space, gym.spaces.Discrete):
        points = space.start + np.arange(min(30, space.n))
    else:
        points = rng.normal(size=(30, *space.shape)).astype(space.dtype)
    rows = np.asarray(points, dtype=np.float64).reshape(len(points), -1)
    found = [model.predict(points, deterministic=True)[0], model.learner.action_values(rows)]
    env = _environments()[model.env_id if model.env_id in _environments() else "oda_rl/CartPole-v1"]
    learns = (model.observation_space, model.action_space) == (env.observation_space, env.action_space)
    if not learns or isinstance(model, agent_classes.DistilledPolicy):
        return found
    model.set_env(model._make_env(env))
    model.set_random_seed(0)
    model.learn(300, reset_num_timesteps=False)
    return [*found, model.predict(points, deterministic=True)[0], model.learner.action_values(rows)]


@lru_cache(maxsize=1)
def _environments() -> dict[str, gym.Env]:
    names = ("oda_rl/CartPole-v1", "oda_rl/Pendulum-v1", "oda_rl/DeepSea-v0")
    return {name: gym.make(name) for name in names}
