"""Plots of the history of an annealing, and of the returns of a run."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl.inspect.model import view_of
from oda_rl.plotting import style

# Fields of the records that may hold the error
ERRORS = ("distortion", "unexplained", "loss")
# Fields of the records that curves show, with the labels of their axes
LABELS = {
    "distortion": "distortion",
    "unexplained": "unexplained part of the variance",
    "loss": "loss on samples left out",
    "n_codevectors": "codevectors",
    "temperature": "temperature",
}
# Colours of the curves in the palette; that of errors is another one.
COLOURS, ERROR_COLOUR = {"n_codevectors": 0, "temperature": 2}, 5
# Pictures of an annealing that are drawn only on request
ON_REQUEST = ("bifurcation", "phase")


def plot_learning_curve(
    steps: ArrayLike,
    returns: ArrayLike,
    evaluation_steps: ArrayLike = (),
    evaluation_returns: ArrayLike = (),
    window: int = 20,
    ax: Any = None,
) -> Any:
    """Draw the returns of a run's episodes, their moving average, and greedy evaluations.

    Parameters
    ----------
    steps, returns : array-like of shape (n_episodes,)
        Environment steps at the end of each episode, and its return.
    evaluation_steps, evaluation_returns : array-like of shape (n_evaluations,), optional
        Environment steps and mean returns of the evaluations.
    window : int, default=20
        Number of episodes in the moving average.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
    """
    ax = style.new_axes(ax)
    from matplotlib.ticker import EngFormatter

    x, y = np.asarray(steps, dtype=float), np.asarray(returns, dtype=float)
    ax.plot(x, y, ".", color="C7", markersize=3, alpha=0.35, label="episodes")
    if len(y) >= window:
        mean = np.convolve(y, np.full(window, 1.0 / window), mode="valid")
        ax.plot(x[window - 1 :], mean, color="C0", label=f"mean of {window} episodes")
    if np.size(evaluation_steps):
        ax.plot(evaluation_steps, evaluation_returns, "o-", color="C1", markersize=4, label="greedy")
    ax.set_xlabel("environment steps")
    ax.set_ylabel("return")
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    if not len(x) and not np.size(evaluation_steps):  # numbers of steps would be made up
        ax.set(xticks=[], yticks=[])
        ax.text(0.5, 0.5, "no episode has ended", transform=ax.transAxes, ha="center", va="center")
        return ax
    ax.legend(loc="best", frameon=False, markerscale=2)
    return ax


def plot_annealing(
    model: Any,
    returns: tuple[ArrayLike, ArrayLike] | None = None,
    axes: Sequence[Any] | None = None,
    which: Sequence[str] | None = None,
) -> NDArray[Any]:
    """Draw the history of an annealing: cells and distortion against temperature, temperature, return.

    Parameters
    ----------
    model : estimator, agent or list of records
        A fitted model, or the records of its `history_`. Records need a `distortion` (or `unexplained`,
        or `loss`) and `n_samples_seen`; those of annealing also have `temperature` and `n_codevectors`.
    returns : (steps, returns), optional
        Environment steps at the ends of episodes, and their returns. By default those that the monitors
        of an agent's environments have stored, if any; none for a model that was read from a file.
    axes : sequence of matplotlib.axes.Axes, optional
        Where to draw, as many as there are pictures; a new figure if not given.
    which : sequence of {"cells", "error", "temperature", "return", "bifurcation", "phase"}, optional
        What to draw; by default all but the last two. "bifurcation" shows codevectors along their most
        widely spread coordinate against the temperature, for records with codevectors. "phase" shows
        the expected distortion D and the entropy H against it (eqs. 2 and 3), whose slopes change at
        phase transitions, for records with an entropy.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        The axes of cells, distortion and temperature, and of the return if there is one. For a history
        without temperatures, only those of the distortion against the number of samples.

    Raises
    ------
    ValueError
        If there is no history, `which` has a picture that the model does not offer, or the number of
        axes is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl import ODAPartition
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = ODAPartition(max_codevectors=5, random_state=0).fit(X)
    >>> cells, distortion, temperature = plot_annealing(model)
    """
    if isinstance(model, list):
        records = model
    else:
        view = view_of(model)
        records, returns = list(view.history), view.returns if returns is None else returns
    pictures = _available_pictures(records)
    if returns is not None and np.size(returns[0]):
        pictures["return"] = partial(plot_learning_curve, *returns)
    unknown = [name for name in which or () if name not in pictures]
    if unknown:
        raise ValueError(f"which must be a subset of {list(pictures)} for this model, got {unknown}.")
    chosen = which or [name for name in pictures if name not in ON_REQUEST]
    drawn = [pictures[name] for name in chosen]
    panels = _panels(axes, len(drawn))
    for ax, draw in zip(panels, drawn, strict=True):
        draw(ax=ax)
        ax.grid(True, color="#e3e6e9", linewidth=0.6)
        ax.set_axisbelow(True)
    return panels


def _available_pictures(records: list[Any]) -> dict[str, Callable[..., Any]]:
    """The pictures that these records allow, as functions by name."""
    fields = records[0]._fields if records else ()
    error = next((name for name in ERRORS if name in fields), None)
    if error is None or ("temperature" in fields and "n_codevectors" not in fields):
        raise ValueError(
            "no history to plot: only models trained by annealing have one, once a temperature is "
            "finished."
        )
    curve = partial(_draw_curve, records=records)
    if "temperature" not in fields:
        return {"error": partial(curve, x="n_samples_seen", y=error, x_label="samples")}
    pictures: dict[str, Callable[..., Any]] = {
        "cells": partial(curve, x="temperature", y="n_codevectors"),
        "error": partial(curve, x="temperature", y=error),
        "temperature": partial(
            curve, x="n_samples_seen", y="temperature", x_label="samples learned from by the annealer"
        ),
    }
    if "codevectors" in fields:
        pictures["bifurcation"] = partial(_draw_bifurcations, records=records)
    if "entropy" in fields:
        pictures["phase"] = partial(_draw_phase, records=records)
    return pictures


def _draw_bifurcations(ax: Any, records: list[Any]) -> None:
    """Draw codevectors, along their most widely spread coordinate, against the temperature."""
    widest = int(np.argmax(np.ptp(records[-1].codevectors, axis=0)))
    for record in records:
        places = record.codevectors[:, widest]
        ax.plot(np.full(len(places), record.temperature), places, ".", color=style.PALETTE[0])
    _cool_to_the_right(ax)
    ax.set_ylabel(f"codevectors, coordinate {widest}")


def _draw_phase(ax: Any, records: list[Any]) -> None:
    """Draw expected distortion and entropy against the temperature, each with its own axis."""
    temperature = [record.temperature for record in records]
    expected = [record.expected_distortion for record in records]
    ax.plot(temperature, expected, ".-", color=style.PALETTE[5])
    ax.set_ylabel("expected distortion D", color=style.PALETTE[5])
    _cool_to_the_right(ax)
    other = ax.twinx()
    other.plot(temperature, [record.entropy for record in records], ".-", color=style.PALETTE[0])
    other.set_ylabel("entropy H", color=style.PALETTE[0])


def _cool_to_the_right(ax: Any) -> None:
    ax.set_xlabel("temperature (falling)")
    ax.set_xscale("log")
    style.plain_log_axis(ax.xaxis)
    if not ax.xaxis_inverted():
        ax.invert_xaxis()


def _panels(axes: Sequence[Any] | None, n: int) -> NDArray[Any]:
    if axes is None:
        columns = min(n, 3) if n != 4 else 2
        rows = -(-n // columns)
        size = (4.2 * columns, 3.3 * rows)
        made = style.pyplot().subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)[
            1
        ]
        return np.asarray(made).ravel()
    given = np.asarray(axes, dtype=object).ravel()
    if len(given) != n:
        raise ValueError(f"axes must be {n} axes, one for each plot, got {len(given)}.")
    return given


def _draw_curve(ax: Any, records: list[Any], x: str, y: str, x_label: str = "") -> None:
    """Draw a field of the records against another: cells as steps, wide ranges logarithmic."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    along, values = (np.array([getattr(r, field) for r in records], dtype=float) for field in (x, y))
    colour = style.PALETTE[COLOURS.get(y, ERROR_COLOUR)]
    cells = y == "n_codevectors"
    if cells:
        ax.step(along, values, where="post", color=colour)
    ax.plot(along, values, "." if cells else ".-", color=colour)
    ax.set_ylabel(LABELS[y])
    if x == "temperature":
        _cool_to_the_right(ax)
    else:
        ax.set_xlabel(x_label)
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    finite = values[np.isfinite(values)]
    wide = len(finite) > 0 and finite.min() > 0.0 and finite.max() > 10.0 * finite.min()
    if y == "temperature" or (max(values) > 20 if cells else wide):
        ax.set_yscale("log")
        style.plain_log_axis(ax.yaxis)
    elif cells:
        ax.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
