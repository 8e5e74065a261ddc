"""The resolutions of a tree: feature maps of the layers, and the scales of the mapped features."""

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from oda_rl._schema import Either, Rules, Schema, Sized, Sizes, expect
from oda_rl._types import Array, Labels
from oda_rl._validation import LARGEST
from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.feature_scaling import NO_SCALING, SCALING, Moments, Scaling


def _have_one_size(features: Any, sizes: Sizes) -> None:
    """A rule: there are as many maps as resolutions; a resolution without a map has d features."""
    maps, n_features = features["maps"], features["n_features"]
    right = len(maps) == len(n_features) > 0
    expect(right, "maps", f"has {len(maps)} items", f"{len(n_features)} items, at least one")
    for i, (one, n) in enumerate(zip(maps, n_features, strict=True)):
        right = one is not None or n == sizes["d"]
        expect(right, f"n_features/{i}", f"is {n}", f"{sizes['d']}, as there is no feature map")


def _map(around: Any, sizes: Sizes) -> Schema:
    from oda_rl.resolutions.states import MAP

    return MAP


# Schema of `Features.get_state` for data with d features.
FEATURES = Rules(
    {
        "maps": [Either(None, _map)],
        "n_raw": "int in [d, d]",
        "n_features": ["count in [1, inf)"],
        "scalings": lambda around, sizes: tuple(Sized(SCALING, d=n) for n in around["n_features"]),
    },
    _have_one_size,
)


def maps_of(resolutions: Any, n_layers: int) -> list[Any]:
    """Unfitted feature maps for the parameter `resolutions`; None stands for the data unchanged."""
    if resolutions is None:
        return [None]
    if isinstance(resolutions, str) or not isinstance(resolutions, Sequence) or len(resolutions) == 0:
        raise ValueError(
            f"resolutions must be None or a list of feature maps, coarse to fine, got {resolutions!r}."
        )
    if len(resolutions) > n_layers:
        raise ValueError(
            f"resolutions must have at most {n_layers} items, as there are {n_layers} layers, got "
            f"{len(resolutions)}."
        )
    from oda_rl.resolutions import as_map

    return [
        None if spec is None else as_map(spec, f"resolution {i}") for i, spec in enumerate(resolutions)
    ]


def check_targets_of(maps: Sequence[Any], kind: str) -> None:
    """Raise a ValueError for an unfitted map that needs classes, unless the tree is a classifier.

    `kind` is that of `TreeSettings`.
    """
    for one in maps if kind != "classifier" else ():
        spec = None if one is None else one.spec
        if isinstance(spec, BaseEstimator) and is_classifier(spec):
            _, last = getattr(spec, "steps", [("", spec)])[-1]  # of a Pipeline
            raise ValueError(
                f"{one.name} must be a map that needs no classes, as the estimator is a {kind}, got "
                f"{type(last).__name__}; scattering_pyramid then accepts only discriminant=False."
            )


def _moments_of(points: Array, labels: Labels, weight: Array) -> Moments:
    moments = Moments(points.shape[1])
    for place in range(int(labels.max(initial=0)) + 1):
        moments.insert(place)
    moments.observe(points, labels, weight)
    return moments


class Features:
    """Feature maps, coarse to fine, and the `scalings` after them; deeper layers use the last map.

    A map is a fitted `FeatureMap`, or None for the data unchanged. Affine maps are also kept as
    matrices, which are faster. `n_raw` is the number of features of the data, and `n_features` those of
    each resolution.
    """

    def __init__(
        self, maps: Sequence[Any], scalings: Sequence[Scaling], n_raw: int, n_features: Sequence[int]
    ) -> None:
        self.maps, self.scalings = list(maps), list(scalings)
        self._linear = [None if one is None else one.linear() for one in self.maps]
        self.n_raw, self._n_features = n_raw, list(n_features)
        self._of_fit: tuple[Array, dict[int, Array]] | None = None
        self._kept: list[Any] = [None] * len(self.maps)

    def __len__(self) -> int:
        return len(self.maps)

    @classmethod
    def fit(
        cls,
        maps: Sequence[Any],
        samples: Array,
        labels: Labels,
        weight: Array,
        scale: str | None,
        divergence: Divergence,
        rng: np.random.Generator,
        outputs: Array | None = None,
    ) -> "Features":
        """Fit maps (new ones, made by `as_map`) and scales to samples.

        Maps learn from labels, or from `outputs` (n_samples, n_outputs) if there are any. Features of
        these samples by non-affine maps are cached until `forget`, since they may be expensive.
        """
        known: Array | Labels = labels
        scalings, sizes, mapped = [], [], {}
        kept: list[Any] = []
        if outputs is not None:
            known = outputs[:, 0] if outputs.shape[1] == 1 else outputs
        for one in maps:
            points = (
                samples
                if one is None
                else one.fit_weighted(samples, known, weight).transform_checked(samples)
            )
            if one is not None:
                divergence.check(points, one.name)
            sizes.append(points.shape[1])
            scalings.append(NO_SCALING)
            kept.append(None)
            if scale is not None:
                moments = _moments_of(points, labels, weight)
                scalings[-1] = moments.scaling_for(scale, divergence, points, labels, weight, rng)
                kept[-1] = moments.kept
            if one is not None and one.linear() is None:
                mapped[len(sizes) - 1] = np.ascontiguousarray(scalings[-1](points))
        features = cls(maps, scalings, samples.shape[1], sizes)
        features._of_fit, features._kept = (samples, mapped), kept
        return features

    def weigh(self, relevance: Array) -> None:
        """Multiply the scaled features of the first resolution by `relevance` (n_features,)."""
        first = self.scalings[0]
        matrix, inverse = first.matrix * relevance, first.inverse / relevance[:, None]
        self.scalings[0] = first._replace(matrix=matrix, inverse=inverse)
        if self._of_fit is not None and 0 in self._of_fit[1]:
            self._of_fit[1][0] = self._of_fit[1][0] * relevance

    def forget(self) -> None:
        """Drop the cached features of the samples of `fit`."""
        self._of_fit = None

    def remembering(self, samples: Array) -> "Features":
        """A copy that caches the features of these samples as `fit` does."""
        found = copy(self)
        slow = (i for i, one in enumerate(self.maps) if one is not None and self._linear[i] is None)
        found._of_fit = samples, {place: self(place, samples) for place in slow}
        return found

    def of_rows(
        self, rows: Labels, scalings: Sequence[Scaling] | None = None
    ) -> tuple["Features", Array]:
        """A copy that caches only these rows of the samples of `fit`; and the samples themselves.

        The copy may have other `scalings`.
        """
        assert self._of_fit is not None
        part, (samples, mapped) = copy(self), self._of_fit
        own = {place: points[rows] for place, points in mapped.items()}
        if scalings is not None:
            part.scalings = list(scalings)
            for place, points in own.items():
                if scalings[place] is not self.scalings[place]:
                    raw = self.scalings[place].back(points)
                    own[place] = np.ascontiguousarray(scalings[place](raw))
        part._of_fit = samples[rows], own
        return part, part._of_fit[0]

    def scalings_of(
        self, rows: Labels, labels: Labels, weight: Array, scale: str, divergence: Divergence
    ) -> list[Scaling]:
        """The scalings by these rows of the samples of `fit`, with the same features kept.

        Resolutions that are not scaled stay so.
        """
        assert self._of_fit is not None
        found = list(self.scalings)
        for place, known in enumerate(self.scalings):
            if len(known.matrix) > 0:
                points = known.back(self(place, self._of_fit[0])[rows])
                moments = _moments_of(points, labels, weight)
                moments.kept = self._kept[place]
                found[place] = moments.scaling(scale, divergence)
        return found

    def some(self, layer: int, samples: Array, rows: Labels) -> Array:
        """As `__call__`, for some rows of the samples."""
        if len(rows) == len(samples):
            return self(layer, samples)
        if self._of_fit is not None and samples is self._of_fit[0]:
            return self(layer, samples)[rows]
        return self(layer, samples[rows])

    def place(self, layer: int) -> int:
        """The index of the resolution that the cells below `layer` are in."""
        return min(layer, len(self.maps) - 1)

    def n_features(self, layer: int) -> int:
        """Number of features of the resolution in which the cells of a layer are split."""
        return self._n_features[self.place(layer)]

    def same(self, layer: int, other: int) -> bool:
        """Whether the cells of two layers are split in the same resolution."""
        a, b = self.place(layer), self.place(other)
        return a == b or (self.maps[a] is None and self.maps[b] is None)

    def __call__(self, layer: int, samples: Array) -> Array:
        """Samples in the resolution in which the cells of a layer are split: mapped and scaled."""
        place = self.place(layer)
        if self._of_fit is not None and samples is self._of_fit[0] and place in self._of_fit[1]:
            return self._of_fit[1][place]
        one, linear = self.maps[place], self._linear[place]
        if one is None:
            points = samples
        elif linear is not None:
            points = samples @ linear[0] + linear[1]
        else:
            points = one.transform_checked(samples)
        return np.ascontiguousarray(self.scalings[place](points))

    def affine(self, layer: int) -> tuple[Array, Array] | None:
        """`__call__` as (matrix, offset) with z = x matrix + offset; None if it is not affine."""
        place = self.place(layer)
        one, linear, scaling = self.maps[place], self._linear[place], self.scalings[place]
        if one is not None and linear is None:
            return None
        matrix, offset = linear if linear is not None else (np.eye(self.n_raw), np.zeros(self.n_raw))
        if len(scaling.matrix) > 0:
            matrix, offset = matrix @ scaling.matrix, (offset - scaling.shift) @ scaling.matrix
        return matrix, offset

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return the state as plain values and arrays, for a model file."""
        return {
            "maps": [None if one is None else one.get_state() for one in self.maps],
            "scalings": [scaling._asdict() for scaling in self.scalings],
            "n_raw": self.n_raw,
            "n_features": self._n_features,
        }

    @classmethod
    def restored(cls, state: dict[str, Any], given: Sequence[Any] | None) -> "Features":
        """Make features from what `get_state` returned, with user-defined maps in `given`."""
        from oda_rl.resolutions import restore

        own = [*(given or []), *(None for _ in state["maps"])]
        maps = [None if one is None else restore(one, own[i]) for i, one in enumerate(state["maps"])]
        for one, n in zip(maps, state["n_features"], strict=True):
            if one is None:
                continue
            found = np.asarray(one.transform(np.eye(2, state["n_raw"])))
            if found.shape[1] != n or not np.abs(found).max() <= LARGEST:
                raise ValueError(f"{one.name} must return {n} features of magnitude up to {LARGEST:g}.")
        scalings = [Scaling(**scaling) for scaling in state["scalings"]]
        return cls(maps, scalings, state["n_raw"], state["n_features"])
