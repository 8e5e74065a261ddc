"""HTML reports of models, readable without server or network: table, maps, growth and decisions.

`write_page` serves all kinds of models, `write_estimator_report` estimators and trees.
"""

import base64
import json
import os
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.inspect.contributions import explain
from oda_rl.inspect.model import View, call_unnamed, evenly_spaced, view_of
from oda_rl.inspect.planes import Plane
from oda_rl.inspect.table import Table
from oda_rl.inspect.text import decision_text, named_values
from oda_rl.storage import written_whole

# Points along each side of a map, and the largest numbers of selectable coordinates, cells and levels
SIZE, MOST_COORDINATES, MOST_CELLS, MOST_LEVELS = 64, 8, 2000, 40
# Codes of map points: the one for no label, and the largest one for labels and scaled values
NONE, LARGEST = 255, 254
# Largest number of samples of an estimator's report that are explained
MOST_SAMPLES = 100


class Frame(NamedTuple):
    """One decision: a step of an episode, or a sample.

    Parameters
    ----------
    state : sequence of float
        The state or sample, in the coordinates of the map.
    text : str
        Explanation of the decision.
    note : str
        The decision in short.
    shares : list of (int, float)
        Indices of the codevectors that decide and their weights, by falling weight.
    """

    state: Sequence[float]
    text: str
    note: str
    shares: list[tuple[int, float]]


def write_page(
    path: str | os.PathLike[str],
    table: Table,
    view: View,
    *,
    numbers: Sequence[Any] | None = None,
    about: Sequence[str] = (),
    margins: Callable[[Array], Array] | None = None,
    locate: Callable[[Array], NDArray[Any]] | None = None,
    levels: Sequence[View] = (),
    frames: Sequence[Frame] = (),
    frames_title: str = "Samples",
    frame_word: str = "sample",
) -> Path:
    """Write one HTML file, below 2 MB, that needs no server and no network.

    Parameters
    ----------
    path : str or path
        The file to write; written whole or not at all.
    table : Table
        The cells, which can be sorted and filtered. Its first column must identify them.
    view : View
        What the maps over any two coordinates show, and the cells in them.
    numbers : sequence, optional
        Entry of the table's first column for each codevector of the view; by default 0, 1, ...
    about : sequence of str
        Lines below the title.
    margins : callable, optional
        Maps points (n, d) to the margins of their decisions (n,). The map is pale where they are small.
    locate : callable, optional
        Maps points (n, d) to the index of the codevector in whose cell each lies (n,); by default that
        of the nearest codevector, by `view.distance`.
    levels : sequence of View
        The codebook as it grew, for the slider.
    frames : sequence of Frame
        Decisions to step through or to play.
    frames_title, frame_word : str
        Heading of the frames, and the word for a single frame.

    Returns
    -------
    Path
        The file written.
    """
    d = view.n_features
    drawn = len(view.codevectors) > 0 and d > 1
    low, high = view.limits() if drawn else (np.zeros(d), np.ones(d))
    shown = _coordinates(view, low, high) if drawn else []
    locate = locate or _find_nearest(view)
    maps, span = _maps(view, shown, low, high, margins, locate)
    own = list(numbers) if numbers is not None else list(range(len(view.codevectors)))
    data = {
        "size": SIZE,
        "about": list(about),
        **_rows(table.head(MOST_CELLS)),
        **_cells(view, low, high, drawn),
        "numbers": [str(one) for one in own],
        "shown": shown,
        "maps": maps,
        "first": _most_varied(maps, view.has_classes),
        "range": span,
        "hasmargin": margins is not None,
        "placed": locate is not None,
        "levels": [_level(one) for one in evenly_spaced(levels, MOST_LEVELS)] if drawn else [],
        "frames": [_frame(one, own) for one in frames],
        "framestitle": frames_title,
        "frameword": frame_word,
    }
    return _fill_template(path, table.title, data)


def write_estimator_report(
    model: Any, path: str | os.PathLike[str], X: NDArray[np.float64] | None = None
) -> Path:
    """Write an HTML report of an estimator or a tree, which needs no server and no network.

    Parameters
    ----------
    model : estimator
        A fitted partition, classifier or regressor, or a fitted tree of one of these.
    path : str or path
        The file to write.
    X : ndarray of shape (n, n_features), optional
        Samples to explain: in a tree by their path to the leaf, otherwise by their nearest cells. Only
        the first hundred are used.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model has not been fitted.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from oda_rl import ODAClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ODAClassifier(max_codevectors=9, random_state=0).fit(X, y)
    >>> page = write_estimator_report(model, Path(tempfile.mkdtemp(), "iris.html"), X[::10])
    >>> page.stat().st_size < 1_000_000
    True
    """
    view, table = view_of(model), model.cells()
    samples = np.empty((0, view.n_features)) if X is None else np.asarray(X, dtype=float)[:MOST_SAMPLES]
    margins = None
    if view.has_classes and hasattr(model, "predict_proba"):

        def margins(points: Any) -> Any:
            return margins_of(call_unnamed(model.predict_proba, points))

    names = next(iter(table.columns.values()))
    return write_page(
        path,
        table,
        view,
        numbers=list(names) if len(names) == len(view.codevectors) else None,
        about=[repr(model)],
        margins=margins,
        locate=getattr(model, "apply", None),
        levels=model.views(),
        frames=[_explained(model, view, x) for x in samples],
    )


def margins_of(values: Array) -> Array:
    """Leads (n,) of the largest of values (n, k) over the second largest; 1 if there is only one."""
    if values.shape[1] < 2:
        return np.ones(len(values))
    return np.asarray(np.ptp(np.partition(values, -2, axis=1)[:, -2:], axis=1))


def _fill_template(path: str | os.PathLike[str], title: str, data: dict[str, Any]) -> Path:
    """Write the template with this title and these data, and return the path."""
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    # "</script>" would end the data, and "<!--<script>" would swallow the end of the page
    encoded = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    title = title.replace("&", "&amp;").replace("<", "&lt;")
    page = template.replace("__TITLE__", title).replace("__DATA__", encoded)
    with written_whole(path) as part:
        part.write_text(page, encoding="utf-8")
    return Path(path)


def _find_nearest(view: View) -> Callable[[Array], NDArray[Any]] | None:
    """What maps points (n, d) to their nearest codevectors (n,); None if the view has no distance."""
    distance = view.distance
    return None if distance is None else lambda points: distance(points).argmin(axis=1)


def _rows(table: Table) -> dict[str, Any]:
    return {"header": table.header, "rows": table.rows, "ids": [str(row[0]) for row in table.rows]}


def _cells(view: View, low: Array, high: Array, drawn: bool) -> dict[str, Any]:
    """The codevectors, and names and units of what maps show; no units unless maps are `drawn`."""
    return {
        "names": view.feature_names,
        "labels": view.label_names if view.has_classes else None,
        "limits": _short(np.column_stack([low, high])),
        "slice": _short(view.centre()) if drawn else [],
        "units": _units(view) if drawn else [],
        "codevectors": _short(view.codevectors),
    }


def _coordinates(view: View, low: Array, high: Array) -> list[int]:
    """The coordinates along which codevectors differ most, in rising order."""
    spread = view.codevectors.std(axis=0) / np.maximum(high - low, 1e-300)
    return sorted(np.argsort(-spread, kind="stable")[:MOST_COORDINATES].tolist())


def _maps(
    view: View, shown: list[int], low: Array, high: Array, margins: Any, locate: Any
) -> tuple[list[dict[str, Any]], str]:
    """Labels, margins and cells over every two coordinates; for continuous labels also their range."""
    found = []
    for x, y in combinations(shown, 2):
        points = Plane((x, y), view.centre(), low[[x, y]], high[[x, y]]).grid(SIZE)
        asked = points if view.n_valued is None else points[:, : view.n_valued]
        decide = view.decisions or (None if view.has_classes else view.values)
        labels = None if decide is None else np.asarray(decide(asked), dtype=float)
        clear = None if margins is None else margins(asked)
        cells = np.zeros(len(points), dtype=int) if locate is None else locate(points)
        found.append((x, y, labels, clear, cells))
    known = [labels for _, _, labels, _, _ in found if labels is not None]
    ends = (min(map(np.min, known)), max(map(np.max, known))) if known else (0.0, 1.0)
    widest = max((np.quantile(one, 0.9) for *_, one, _ in found if one is not None), default=1.0)
    maps = [
        {
            "x": x,
            "y": y,
            "label": _packed(_numbered(labels, view.has_classes, ends), "u1"),
            "margin": _packed(_scaled_margins(clear, widest), "u1"),
            "cell": _packed(cells, "<u2" if cells.max() < 2**16 else "<u4"),
        }
        for x, y, labels, clear, cells in found
    ]
    return maps, f"from {ends[0]:.4g} (blue) to {ends[1]:.4g} (orange)" if known else ""


def _most_varied(maps: list[dict[str, Any]], classes: bool) -> int:
    """Index of the map to show first: the one in which decisions differ most."""
    if not maps:
        return 0
    labels = [np.frombuffer(base64.b64decode(one["label"]), np.uint8) for one in maps]
    if not classes:
        return int(np.argmax([one.std() for one in labels]))
    return int(np.argmin([np.bincount(one).max() for one in labels]))


def _numbered(labels: Any, classes: bool, ends: tuple[float, float]) -> NDArray[Any]:
    """Labels as codes up to 254, continuous ones scaled to that range; 255 for no label."""
    if labels is None:
        return np.full(SIZE * SIZE, NONE)
    if classes:
        return np.where((labels < 0) | (labels > LARGEST), NONE, labels)
    return LARGEST * (labels - ends[0]) / max(ends[1] - ends[0], 1e-300)


def _scaled_margins(margins: Any, widest: float) -> NDArray[Any]:
    """Margins as codes up to 255, which stands for `widest` and more, and for all without margins."""
    if margins is None:
        return np.full(SIZE * SIZE, 255)
    return np.asarray(255 * np.sqrt(np.clip(margins / max(widest, 1e-300), 0.0, 1.0)))


def _packed(numbers: NDArray[Any], dtype: str) -> str:
    return base64.b64encode(np.asarray(numbers).astype(dtype).tobytes()).decode()


def _units(view: View) -> list[float]:
    """The length that counts as the distance 1 along each coordinate; 1e12 where it does not count."""
    if view.distance is None:
        return [1.0] * view.n_features
    start = view.codevectors[0]
    low, high = view.limits()
    steps = 1e-3 * np.where(high > low, high - low, 1.0)
    apart = view.distance(start + np.diag(steps))[:, 0]
    return _short(np.where(apart > 0.0, steps / np.sqrt(np.maximum(apart, 1e-300)), 1e12))


def _level(view: View) -> dict[str, Any]:
    classes = view.labels.tolist() if view.labels is not None and view.has_classes else None
    return {"title": view.title, "codevectors": _short(view.codevectors), "labels": classes}


def _frame(frame: Frame, numbers: list[Any]) -> dict[str, Any]:
    shares = [(int(i), round(float(w), 3)) for i, w in frame.shares[:6]]
    return {
        "state": _short(np.asarray(frame.state)),
        "text": frame.text,
        "note": frame.note,
        "shares": shares,
        "cell": str(numbers[shares[0][0]]) if shares else None,
    }


def _short(numbers: Any) -> Any:
    """Numbers as nested lists, rounded to five significant digits."""
    array = np.asarray(numbers, dtype=float)
    if array.ndim > 0:
        return [_short(one) for one in array]
    return float(f"{float(array):.5g}")


def _explained(model: Any, view: View, x: NDArray[np.float64]) -> Frame:
    """The explanation of the model's decision for a sample, as a frame of the report."""
    shares, lines = [], [named_values(x, view.feature_names)]
    if view.distance is not None:
        apart = view.distance(x[None])[0]
        nearest = np.argsort(apart, kind="stable")[:3].tolist()
        shares = [(i, 1.0 if i == nearest[0] else 0.1) for i in nearest]
        lines += [f"divergence {apart[i]:.4g} from codevector {i}" for i in nearest]
    if hasattr(model, "tree_"):
        if hasattr(model, "apply"):
            shares = [(int(call_unnamed(model.apply, x[None])[0]), 1.0)]
        return Frame(x.tolist(), str(explain(model, x, view.feature_names)), "", shares)
    note = decision_text(call_unnamed(model.predict, x[None])[0])
    return Frame(x.tolist(), "\n".join([*lines, f"prediction: {note}"]), note, shares)
