"""The contents of the model file of a tree, and how a tree is restored from it."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from oda_rl import storage
from oda_rl._schema import GENERATOR, Schema, Sizes, maybe
from oda_rl._validation import OF_DATA
from oda_rl.codebook.divergences import SMALLEST_SQUARE
from oda_rl.estimators.drift import Watch, watch_schema
from oda_rl.estimators.parameters import CLASSES, declared, may_be_flat, restored, stored
from oda_rl.estimators.targets import Data, OutputUnits, data_schema
from oda_rl.estimators.tree.base import TreeEstimator
from oda_rl.estimators.tree.features import Features
from oda_rl.estimators.tree.session import TreeSession, layers_schema, session_schema
from oda_rl.estimators.tree.settings import KINDS, Layer, TreeSettings


def _units_schema(around: Any, sizes: Sizes) -> Schema:
    sizes.setdefault("C", 1)
    if around["estimator"][0] == "regressor":
        least = f"[{SMALLEST_SQUARE**0.5}, inf)"
        mean = f"float[m] in {OF_DATA}"
        return {"mean": mean, "deviation": f"float[m] in {least}", "flat": may_be_flat}
    sizes["m"] = 1
    return None


def _waiting_schema(around: Any, sizes: Sizes) -> Schema:
    return maybe({"data": data_schema(around["estimator"][0]), "rng": GENERATOR})


class StoredTree(TreeEstimator):
    """A `MultiResolutionODA` that can be written to a file and read again."""

    @classmethod
    def load(  # type: ignore[override]
        cls, path: storage.PathOrFile, resolutions: Sequence[Any] | None = None
    ) -> Self:
        """Read an estimator from a model file, as `ODAPartition.load` does.

        User-defined functions or transformers are not stored: if the estimator was saved with any, pass
        the same `resolutions` again, fitted.
        """
        state = storage.load(path, cls.__name__, cls._schema())
        with storage.restoring(path):
            features = Features.restored(state["session"]["features"], resolutions)
            specs = [None if one is None else one.spec for one in features.maps]
            given = specs if state["has_resolutions"] else None
            model: Self = restored(cls, state, estimator=_template_of(state), resolutions=given)
            model._set_state(state, features)
        return model

    @classmethod
    def _schema(cls) -> dict[str, Schema]:
        """Return the schema of a model file."""
        schema = declared(cls)
        form = schema.pop("form") | {"classes_?": CLASSES}
        schema["parameters"] |= dict.fromkeys(("estimator", "resolutions"))  # stored separately

        def estimator(around: Any, sizes: Sizes) -> Schema:
            return (set(KINDS), declared(KINDS[around["estimator"][0]])["parameters"])

        def settings(around: Any) -> TreeSettings:
            model = restored(cls, {**around, "form": {}}, estimator=_template_of(around))
            found: TreeSettings = model._settings(begin=True)
            return found

        def session(around: Any, sizes: Sizes) -> Schema:
            return session_schema(settings(around))

        def watch(around: Any, sizes: Sizes) -> Schema:
            judge = around["watch"]["judge"]
            if judge is not None:
                n = around["session"]["features"]["n_features"]
                judge = layers_schema(settings(around), n, len(judge), sizes)
            return watch_schema(around["estimator"][0], judge)

        return schema | {
            "form": form,
            "estimator": estimator,
            "has_resolutions": "bool",
            "n_samples_seen": "count",
            "labels": maybe("count[samples]"),
            "units": _units_schema,
            "waiting": _waiting_schema,
            "session": session,
            "watch": watch,
        }

    def _stored(self) -> dict[str, Any]:
        layers = self.layers
        if not isinstance(layers, int):
            layers = [Layer.of(layer)._asdict() for layer in layers]
        self._settings(begin=False)
        return stored(self, estimator=None, layers=layers, resolutions=None) | {
            "estimator": [self._session.settings.kind, stored(self._template)["parameters"]],
            "has_resolutions": self.resolutions is not None,
        }

    def _get_state(self) -> dict[str, Any]:
        waiting = None
        if self._waiting is not None:
            waiting = {"data": self._waiting._asdict(), "rng": self._rng.bit_generator.state}
        return {
            "n_samples_seen": self.n_samples_seen_,
            "labels": getattr(self, "labels_", None),
            "units": None if self._units is None else self._units._asdict(),
            "waiting": waiting,
            "session": self._fitted.get_state(),
            "watch": self._watch.get_state(),
        }

    def _set_state(self, state: dict[str, Any], features: Features) -> None:  # type: ignore[override]
        self.n_samples_seen_ = state["n_samples_seen"]
        if state["labels"] is not None:
            self.labels_ = state["labels"]
        if state["units"] is not None:
            self._units = OutputUnits(**state["units"])
            self._flat = self._units.flat
        self._waiting = None
        if state["waiting"] is not None:
            self._waiting = Data(**state["waiting"]["data"])
            self._rng = np.random.default_rng()
            self._rng.bit_generator.state = state["waiting"]["rng"]
        n_outputs = 1 if self._units is None else len(self._units.mean)
        sizes = self._n_classes, n_outputs
        settings = self._settings(begin=True)
        self._session = TreeSession(settings, features, *sizes, np.random.default_rng())
        self._session.set_state(state["session"])
        self._watch = Watch.restored(state["watch"], self._session.tree.of_state)


def _template_of(state: dict[str, Any]) -> Any:
    """The estimator that a tree was built over."""
    kind, parameters = state["estimator"]
    return restored(KINDS[kind], {"parameters": parameters, "form": {}})
