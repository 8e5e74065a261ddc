"""How a tree learns from a stream: how it judges samples, and how it reacts to a change."""

import numpy as np

from oda_rl._types import Array
from oda_rl.estimators.drift import RELEARN_AT, Forgetful
from oda_rl.estimators.targets import Data, make_place
from oda_rl.estimators.tree.model_file import StoredTree
from oda_rl.estimators.tree.session import TreeSession
from oda_rl.estimators.tree.settings import TreeSettings
from oda_rl.estimators.tree.tree import Tree
from oda_rl.estimators.tree.trials import is_better


class StreamTree(Forgetful, StoredTree):
    """A `MultiResolutionODA` that learns from a stream."""

    _relearn_at = RELEARN_AT

    def _learn(self, data: Data) -> None:
        settings = self._settings(begin=False)
        if self._waiting is not None:
            self._waiting = data = self._waiting.joined(data)
            if not self._begin(settings, self._waiting):
                return
            self._waiting = None
        self._session.settings = settings
        self._session.observe(self._in_units(settings, data, reset=False))

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
        error = predicted - self._in_units(settings, data, reset=False).targets
        squared = (error**2).mean(axis=1)
        return np.asarray(squared / (1.0 + squared))

    def _restart(self, recent: Data) -> None:
        self._rng = self._generator()
        self._waiting = recent.take(slice(0, 0))
        self._learn(recent)
        self._relearn(recent)

    def _relearn(self, recent: Data) -> None:
        """Regrow the tree from these samples, as `fit` does, unless it still waits for samples.

        The previous tree is kept if the new one has clearly larger errors on the last third of the
        samples, for example because too much was pruned.
        """
        if self._waiting is not None:
            return
        settings, before = self._settings(begin=False), self._session
        before.conclude()
        last = recent.take(slice(-(len(recent.weight) // 3), None))
        known = self._losses(before.tree, last)
        self._grow_from(settings, self._in_units(settings, recent, reset=False))
        if is_better(self._losses(self._session.tree, last), known):
            self._session = before

    def _grow_from(self, settings: TreeSettings, data: Data) -> None:
        """Grow a new tree from samples in the units of the tree."""
        own = settings, self.resolutions, data, self._n_classes
        self._session = TreeSession.fit_features(*own, self._generator())
        self._session.fit(settings.layers, data)
        self._session.tree.features.forget()

    def _insert_classes(self, places: list[int]) -> None:
        """Insert new classes with these numbers, in ascending order."""
        for place in places:
            if self._waiting is None:
                self._session.insert_class(place)
            else:
                targets = make_place(self._waiting.targets, place)
                self._waiting = self._waiting._replace(targets=targets)
