"""Numbering of classes, including new classes that first occur late in a stream."""

from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import compute_class_weight

from oda_rl._validation import kind_of_classes
from oda_rl.estimators.targets import Data

# Beyond this, different whole numbers may be equal as floats.
MOST_AS_FLOAT = 2**53


def announced_classes(classes: ArrayLike | None) -> NDArray[Any] | None:
    """The classes given to `partial_fit` as an array (n_classes,), or None; checked by `labels_of`."""
    return None if classes is None else labels_of(classes, "classes")


def labels_of(classes: Any, name: str) -> NDArray[Any]:
    """A list of classes as an array (n_classes,); if invalid, raises a ValueError with the `name`."""
    found = np.asarray(classes)
    # NumPy would convert numbers to texts in a list that has both.
    mixed = found.dtype.kind == "U" and not all(isinstance(label, str) for label in classes)
    kind = None if mixed or found.ndim != 1 else kind_of_classes(found)
    if kind is None or (kind == "numbers" and not np.isfinite(found).all()):
        raise ValueError(
            f"{name} must be a list of only finite numbers or only strings, got {classes!r}."
        )
    return found


def check_label(label: Any, name: str) -> None:
    """Raise a ValueError with the `name` unless a label is a number of 64 bits, a text, or None."""
    found = np.asarray(label)
    too_large = isinstance(label, Integral) and abs(int(label)) >= 2**63
    if label is not None and (found.ndim > 0 or kind_of_classes(found) is None or too_large):
        raise ValueError(f"{name} must be a number of 64 bits or a text, got {label!r}.")


def join_classes(*parts: NDArray[Any]) -> NDArray[Any]:
    """The sorted union of several arrays of classes (n_labels,).

    Raises a ValueError if some classes are numbers and others texts, or if integers are too large to
    remain distinct next to floats.
    """
    used = [part for part in parts if len(part) > 0]
    for part in used:
        if kind_of_classes(part) != kind_of_classes(used[0]):
            one, other = used[0].tolist()[0], part.tolist()[0]
            raise ValueError(f"classes must be only numbers or only strings, got {one!r} and {other!r}.")
    joined = np.concatenate(used or parts)
    integers = [part for part in used if part.dtype.kind in "iu"]
    for part in integers if joined.dtype.kind == "f" else ():
        beyond = (part > MOST_AS_FLOAT) | (part < -MOST_AS_FLOAT)
        if beyond.any():
            raise ValueError(
                f"classes beyond 2**53, such as {part[beyond].tolist()[0]}, cannot be distinguished "
                f"if other classes are not of the dtype {part.dtype}."
            )
    return np.unique(joined)


def number_classes(data: Data, class_weight: Any) -> tuple[NDArray[Any], Data]:
    """The sorted classes of all samples, and the data with class numbers as targets.

    `class_weight`, as in scikit-learn, multiplies the weights.
    """
    classes, labels = np.unique(data.targets, return_inverse=True)
    weight = data.weight
    if class_weight is not None:
        weight = weight * compute_class_weight(class_weight, classes=classes, y=data.targets)[labels]
    return classes, Data(data.samples, labels.astype(np.int64), weight)


def number_next_classes(
    known: NDArray[Any] | None, data: Data, class_weight: Any, announced: NDArray[Any] | None
) -> tuple[NDArray[Any], Data, list[int]]:
    """Number the classes of the next samples of a stream, which may have new classes.

    `known` (n_known,) are the sorted classes so far, or None; `announced` are classes that will follow.
    Returns all classes, the data with class numbers as targets, and the numbers of the new classes in
    ascending order. Raises a ValueError if `class_weight` is "balanced", and as `join_classes` does.
    """
    if isinstance(class_weight, str):
        raise ValueError(
            f"class_weight={class_weight!r} needs all samples at once, which partial_fit does not "
            "have; pass a dict of weights."
        )
    weight = data.weight
    if class_weight is not None:
        weight = weight * np.array([class_weight.get(c, 1.0) for c in data.targets.tolist()])
    if known is not None and announced is None and known.dtype == data.targets.dtype:
        labels = np.searchsorted(known, data.targets)
        if labels.max() < len(known) and (known[labels] == data.targets).all():
            return known, Data(data.samples, labels, weight), []
    before = data.targets[:0] if known is None else known
    more = [] if announced is None else [announced]
    classes = join_classes(before, *more, data.targets)
    new = np.flatnonzero(~np.isin(classes, before)).tolist()
    labels = np.searchsorted(classes, data.targets).astype(np.int64)
    return classes, Data(data.samples, labels, weight), new


def before_new_classes(targets: NDArray[Any], *known: NDArray[Any] | None) -> list[slice]:
    """Cut the next samples of a stream before the first sample of each class not in `known`."""
    if len(targets) == 1:
        return [slice(0, 1)]
    classes, first = np.unique(targets, return_index=True)
    for some in known:
        new = np.ones(len(classes), dtype=np.bool_) if some is None else ~np.isin(classes, some)
        classes, first = classes[new], first[new]
    edges = [0, *sorted(set(first.tolist()) - {0}), len(targets)]
    return [slice(*pair) for pair in pairwise(edges)]


def number_known_classes(classes: NDArray[Any], data: Data) -> Data:
    """The data with class numbers as targets; raises a ValueError for a class that is not known."""
    join_classes(classes, data.targets)
    unknown = np.setdiff1d(data.targets, classes)
    if len(unknown) > 0:
        raise ValueError(
            f"y must have only the known classes {classes.tolist()}, got {unknown.tolist()[0]!r}."
        )
    return data._replace(targets=np.searchsorted(classes, data.targets).astype(np.int64))
