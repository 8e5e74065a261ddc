"""An HTML report of an estimator or a tree: cells, decisions over the plane, explained samples."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.inspect.contributions import explain
from oda_rl.inspect.model import View, ask, view_of
from oda_rl.inspect.page import Frame, write_page
from oda_rl.inspect.text import amounts, plain

# Largest number of samples that are explained
MOST_SAMPLES = 100


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
            return np.ptp(np.sort(ask(model.predict_proba, points), axis=1)[:, -2:], axis=1)

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
        frames=[_frame(model, view, x) for x in samples],
    )


def _frame(model: Any, view: View, x: NDArray[np.float64]) -> Frame:
    """The explanation of the model's decision for a sample, as a frame of the report."""
    shares, lines = [], [amounts(x, view.feature_names)]
    if view.distance is not None:
        apart = view.distance(x[None])[0]
        nearest = np.argsort(apart, kind="stable")[:3].tolist()
        shares = [(i, 1.0 if i == nearest[0] else 0.1) for i in nearest]
        lines += [f"divergence {apart[i]:.4g} from codevector {i}" for i in nearest]
    if hasattr(model, "tree_"):
        if hasattr(model, "apply"):
            shares = [(int(ask(model.apply, x[None])[0]), 1.0)]
        return Frame(x.tolist(), str(explain(model, x, view.feature_names)), "", shares)
    note = plain(ask(model.predict, x[None])[0])
    return Frame(x.tolist(), "\n".join([*lines, f"prediction: {note}"]), note, shares)
