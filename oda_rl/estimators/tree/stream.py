"""How a tree learns from a stream and reacts to a change, and what its model file contains."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from oda_rl import storage
from oda_rl._schema import GENERATOR, Schema, Sizes, maybe
from oda_rl._statistics import is_clear
from oda_rl._types import Array
from oda_rl._validation import OF_DATA, targets_of
from oda_rl.codebook.divergences import SMALLEST_SQUARE, Divergence
from oda_rl.estimators.classes import number_known_classes
from oda_rl.estimators.drift import (
    LATEST,
    REGROWTH,
    RELEARN_AT,
    UNDIVIDED,
    Forgetful,
    bounded_losses,
    loss_of_largest_class,
    loss_of_mean,
)
from oda_rl.estimators.parameters import CLASSES, declared, may_be_flat, restored, stored
from oda_rl.estimators.stream_watch import Watch, watch_schema
from oda_rl.estimators.targets import Data, OutputUnits, data_schema, make_place
from oda_rl.estimators.tree.base import TreeEstimator
from oda_rl.estimators.tree.cells import Cell
from oda_rl.estimators.tree.features import Features
from oda_rl.estimators.tree.session import TreeSession, layers_schema, session_schema
from oda_rl.estimators.tree.settings import KINDS, Layer, TreeSettings
from oda_rl.estimators.tree.tree import Tree
from oda_rl.estimators.tree.trials import features_for, is_better


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


class StreamTree(Forgetful, TreeEstimator):
    """A `MultiResolutionODA` that learns from a stream, and that can be stored in a file."""

    _relearn_at = RELEARN_AT

    def _learn(self, data: Data) -> None:
        settings = self._settings(begin=False)
        self.n_samples_seen_ += len(data.weight)
        if self._waiting is not None:
            self._waiting = data = self._waiting.joined(data)
            if not self._begin(settings, self._waiting):
                return
            self._waiting = None
        self._session.settings = settings
        self._session.observe(self._in_units(settings, data, reset=False))

    def _begin(self, settings: TreeSettings, waiting: Data) -> bool:
        """Create the root at the mean of the first samples; return whether the warm-up is complete."""
        n = settings.annealing.n_warmup
        warm = len(waiting.weight) >= n
        first = self._in_units(settings, waiting.take(slice(0, n)), reset=True)
        rng = self._rng if warm else np.random.default_rng(0)
        # Maps may need as many samples as the warm-up has: until then each counts repeatedly.
        enough = first if warm else first.take(np.resize(np.arange(len(first.weight)), n))
        self._session = self._new_session(settings, enough, rng, tried=warm)
        if warm:
            self._session.create_root(first)  # the caller then lets the session learn from the samples
        else:
            self._session.fit([], first)
        self._session.tree.features.forget()
        return warm

    def _new_session(
        self, settings: TreeSettings, data: Data, rng: np.random.Generator, tried: bool = True
    ) -> TreeSession:
        """Make a tree without cells, with features for these samples; `tried` as for `features_for`."""
        sizes = self._sizes
        features = features_for(settings, self.resolutions, data, sizes, rng, tried)
        return TreeSession(settings, features, sizes, rng)

    @property
    def _sizes(self) -> tuple[int, int]:
        """Numbers of classes and of outputs."""
        n_classes = len(self.classes_) if hasattr(self, "classes_") else 1
        return n_classes, 1 if self._units is None else len(self._units.mean)

    def _in_units(self, settings: TreeSettings, data: Data, reset: bool) -> Data:
        """Data in the units of the tree: outputs are standardised."""
        if reset:
            outputs = settings.kind == "regressor"
            self._units = OutputUnits.of(data, self._flat) if outputs else None
        return data if self._units is None else self._units(data)

    def _known_data(self, X: ArrayLike, y: ArrayLike | None) -> Data:
        """Validated samples in the units of the tree, with numbers of known classes."""
        settings = self._session.settings
        if y is not None and settings.kind != "clusterer":
            y = targets_of(y, len(self._check_again(X)), self._sizes[1])
        data = self._check(settings, X, y, None, reset=False)
        if settings.kind == "classifier":
            data = number_known_classes(self.classes_, data)
        return self._in_units(settings, data, reset=False)

    def _watch_from(self, data: Data) -> None:
        """Begin to watch a stream that follows a fit to these samples.

        Unless they are many, they are kept, so that the tree is regrown as if the stream had begun with
        them. Their order is random, as the latest decide whether a regrown tree is better.
        """
        n, most = len(data.weight), max(self._relearn_at)
        is_regrown = self.forgetting is not None and REGROWTH * n < most
        self._watch.begun = -n if is_regrown else -most
        if is_regrown:
            order = np.random.default_rng(self._session.entropy).permutation(n)
            self._watch.latest.n = most
            raw = data.weight * self._weights_seen.mean  # as those of the stream
            self._watch.latest.add(data._replace(weight=raw).take(order))
        self._expect_no_change(data, self._blind_loss(data))

    def _judge(self) -> Tree | None:
        if self._waiting is not None:
            return None
        self._session.conclude()
        return self._session.tree.frozen()

    def _losses(self, tree: Tree, data: Data) -> Array:
        """1 for a wrong class; else e / (1 + e) for an error e in its unit."""
        settings = self._session.settings
        if settings.kind == "clusterer":
            found = tree.distances(data.samples)
            return np.asarray(found / (found + max(tree.layers[0].mean_loss, 1e-300)))
        predicted = self._session.task.predict(tree, data.samples)
        if settings.kind == "classifier":
            return np.asarray(predicted.argmax(axis=1) != data.targets, dtype=np.float64)
        return bounded_losses(predicted - self._in_units(settings, data, reset=False).targets)

    def _fitted_loss(self, data: Data) -> float:
        """The mean loss by the errors that the leaves have counted: samples are not mapped again."""
        session = self._session
        error = session.error(Cell(0, 0))
        if session.settings.kind == "regressor":
            error /= self._sizes[1]
            return error / (1.0 + error)
        if session.settings.kind == "clusterer":
            return error / max(error + session.tree.layers[0].mean_loss, 1e-300)
        return error

    def _blind_loss(self, data: Data) -> float:
        """The mean loss of a prediction that does not use the samples' features."""
        kind = self._session.settings.kind
        if kind == "classifier":
            return loss_of_largest_class(data)
        return loss_of_mean(data) if kind == "regressor" else UNDIVIDED

    def _n_waiting(self) -> int:
        # Feature maps that are given may need the samples of the warm-up.
        return int(self._template.n_warmup) if self.resolutions is None else 0

    def _fit_early(self, recent: Data) -> bool:
        settings, self._waiting = self._settings(begin=False), None
        self._session = self._grown(self._in_units(settings, recent, reset=True), in_units=True)
        return True

    def _begin_again(self, recent: Data) -> None:
        self._rng, self._waiting = self._generator(), recent.take(slice(0, 0))
        self.n_samples_seen_ -= len(recent.weight)

    def _restart(self, recent: Data) -> None:
        self._begin_again(recent)
        self._learn(recent)
        self._relearn(recent)

    def _is_outdated_before(self, half: int, recent: Data) -> bool:
        """Whether a tree that grows from samples of the later half predicts the latest clearly better.

        That is, better than the tree did when they came, which had learned from more samples, and than
        one that grows from samples of both halves.
        """
        n = len(recent.weight)
        k = n - n // LATEST
        rest, latest = recent.take(slice(0, k)), recent.take(slice(k, n))
        known = self._watch.losses[-len(latest.weight) :]
        some = rest.take(slice(half, None))
        few = len(known) < len(latest.weight) or not (some.weight > 0.0).any()
        if few or self._waiting is not None:
            return False
        found = self._losses(self._grown(some).tree, latest)
        clearly = is_better(known, found)
        return clearly and is_clear(self._losses(self._grown(rest).tree, latest) - found)

    def _relearn(self, recent: Data, halved: bool = False) -> None:
        """Regrow the tree from these samples, as `fit` does, unless it still waits for samples.

        The previous tree is kept if the new one has clearly larger errors on the last third of the
        samples, for example because too much was pruned.
        """
        if self._waiting is not None:
            return
        before = self._session
        before.conclude()
        last = recent.take(slice(-(len(recent.weight) // 3), None))
        known = self._losses(before.tree, last)
        self._session = self._grown(recent)
        if is_better(self._losses(self._session.tree, last), known):
            self._session = before

    def _grown(self, data: Data, in_units: bool = False) -> TreeSession:
        """Grow a new tree from samples, which may be `in_units` of the tree already."""
        settings = self._settings(begin=False)
        data = data if in_units else self._in_units(settings, data, reset=False)
        session = self._new_session(settings, data, self._generator())
        session.fit(settings.layers, data)
        session.tree.features.forget()
        return session

    def _insert_classes(self, places: list[int]) -> None:
        """Insert new classes with these numbers, in ascending order."""
        for place in places:
            if self._waiting is None:
                self._session.insert_class(place)
            else:
                targets = make_place(self._waiting.targets, place)
                self._waiting = self._waiting._replace(targets=targets)

    # -- storing ---------------------------------------------------------------------------------

    @classmethod
    def load(  # type: ignore[override]
        cls,
        path: storage.PathOrFile,
        resolutions: Sequence[Any] | None = None,
        divergence: Divergence | None = None,
    ) -> Self:
        """Read an estimator from a model file, as `ODAPartition.load` does.

        User-defined functions or transformers are not stored: if the estimator was saved with any, pass
        the same `resolutions` again, fitted, and the same `divergence`.
        """
        state = storage.load(path, cls.__name__, cls._schema(divergence))
        with storage.restoring(path):
            features = Features.restored(state["session"]["features"], resolutions)
            specs = [None if one is None else one.spec for one in features.maps]
            given = specs if state["has_resolutions"] else None
            template = _template_of(state, divergence)
            model: Self = restored(cls, state, estimator=template, resolutions=given)
            model._set_state(state, features)
        return model

    @classmethod
    def _schema(cls, divergence: Divergence | None = None) -> dict[str, Schema]:
        """Return the schema of a model file; `divergence` is as for `load`."""
        schema = declared(cls)
        form = schema.pop("form") | {"classes_?": CLASSES}
        schema["parameters"] |= dict.fromkeys(("estimator", "resolutions"))  # stored separately

        def estimator(around: Any, sizes: Sizes) -> Schema:
            return (set(KINDS), declared(KINDS[around["estimator"][0]])["parameters"])

        def settings(around: Any) -> TreeSettings:
            template = _template_of(around, divergence)
            model = restored(cls, {**around, "form": {}}, estimator=template)
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
        if not isinstance(layers, Integral):
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
        settings = self._settings(begin=True)
        self._session = TreeSession(settings, features, self._sizes, np.random.default_rng())
        self._session.set_state(state["session"])
        self._watch = Watch.restored(state["watch"], self._session.tree.of_state, self._relearn_at)


def _template_of(state: dict[str, Any], divergence: Divergence | None) -> Any:
    """The estimator that a tree was built over, with another `divergence` if that is not None."""
    kind, parameters = state["estimator"]
    given = {"divergence": divergence} if "divergence" in parameters else {}
    return restored(KINDS[kind], {"parameters": parameters, "form": {}}, **given)
