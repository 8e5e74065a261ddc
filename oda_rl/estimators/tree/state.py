"""A `MultiResolutionODA` as a model file holds it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oda_rl.estimators.parameters import restored, stored
from oda_rl.estimators.targets import Data, OutputUnits
from oda_rl.estimators.tree.features import Features
from oda_rl.estimators.tree.settings import KINDS, Layer, TreeSettings


def get_state(model: Any) -> dict[str, Any]:
    """All of a fitted tree as plain values and arrays."""
    session, waiting = model._fitted, None
    layers = model.layers
    if not isinstance(layers, int):
        layers = [Layer.of(layer)._asdict() for layer in layers]
    if model._waiting is not None:
        rng = model._rng.bit_generator.state
        waiting = {"data": model._waiting._asdict(), "rng": rng}
    return {
        **stored(model, estimator=None, layers=layers, resolutions=None),
        "estimator": [session.settings.kind, stored(model._template)["parameters"]],
        "has_resolutions": model.resolutions is not None,
        "n_samples_seen": model.n_samples_seen_,
        "labels": getattr(model, "labels_", None),
        "units": None if model._units is None else model._units._asdict(),
        "waiting": waiting,
        "session": session.get_state(),
    }


def with_state(cls: Any, state: Mapping[str, Any], resolutions: Sequence[Any] | None) -> Any:
    """A new tree from what `get_state` gave, and resolutions of the user's own."""
    kind, parameters = state["estimator"]
    template = restored(KINDS[kind], {"parameters": parameters, "form": {}})
    features = Features.restored(state["session"]["features"], resolutions)
    specs = [None if one is None else one.spec for one in features.maps]
    given = specs if state["has_resolutions"] else None
    model = restored(cls, state, estimator=template, resolutions=given)
    model.n_samples_seen_ = state["n_samples_seen"]
    if state["labels"] is not None:
        model.labels_ = state["labels"]
    if state["units"] is not None:
        model._units = OutputUnits(**state["units"])
        model._flat = model._units.flat
    model._waiting = None
    if state["waiting"] is not None:
        model._waiting = Data(**state["waiting"]["data"])
        model._rng = np.random.default_rng()
        model._rng.bit_generator.state = state["waiting"]["rng"]
    settings = TreeSettings.of(model)
    model._session = model._session_of(settings, features, np.random.default_rng())
    model._session.set_state(state["session"])
    return model
