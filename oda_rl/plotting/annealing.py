"""How a codebook came about: cells, distortion and temperature as the annealing went on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl.plotting import style
from oda_rl.plotting.codebooks import plot_learning_curve

# What the records of the estimators call what gets less, and what that is
ERRORS = {
    "distortion": "distortion",
    "unexplained": "unexplained part of the variance",
    "loss": "loss on samples left out",
}


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
        What has been learned, or the records of its `history_`. Records need a `distortion` (or
        `unexplained`, or `loss`) and `n_samples_seen`; those of annealing also have `temperature` and
        `n_codevectors`.
    returns : (steps, returns), optional
        Environment steps at the ends of episodes, and their returns. By default those that an agent's
        environments remember, if there are any; none for a model that was read from a file.
    axes : sequence of matplotlib.axes.Axes, optional
        Where to draw, as many as there are pictures; a new figure if not given.
    which : sequence of {"cells", "error", "temperature", "return"}, optional
        What to draw; all that there is by default.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        Those of cells, distortion and temperature, and of the return if there is one. The distortion
        alone, against samples, of a history without temperatures.

    Raises
    ------
    ValueError
        If there is no history, nothing known of what is wanted, or the wrong number of axes.

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl import ODAPartition
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = ODAPartition(max_codevectors=5, random_state=0).fit(X)
    >>> cells, distortion, temperature = plot_annealing(model)
    """
    records = model if isinstance(model, list) else getattr(model, "history_", None)
    if not records:
        raise ValueError(
            "there is no history to draw: it is that of finished temperatures, which only annealing has."
        )
    if returns is None and hasattr(model, "learning_curve"):
        returns = model.learning_curve()
    known: dict[str, Any] = {"error": _draw_error}
    if hasattr(records[0], "temperature"):
        known = {"cells": _draw_cells, "error": _draw_error, "temperature": _draw_temperature}
    if returns is not None and np.size(returns[0]):
        known["return"] = lambda ax, _: plot_learning_curve(*returns, ax=ax)
    unknown = [name for name in which or () if name not in known]
    if unknown:
        raise ValueError(f"which must be of {list(known)} for this model, got {unknown}.")
    drawn = [known[name] for name in which or known]
    panels = _panels(axes, len(drawn))
    for ax, draw in zip(panels, drawn, strict=True):
        draw(ax, records)
        ax.grid(True, color="#e3e6e9", linewidth=0.6)
        ax.set_axisbelow(True)
    return panels


def _panels(axes: Sequence[Any] | None, n: int) -> NDArray[Any]:
    from matplotlib import pyplot as plt

    if axes is None:
        columns = min(n, 3) if n != 4 else 2
        size = (4.2 * columns, 3.3 * -(-n // columns))
        _, made = plt.subplots(
            -(-n // columns), columns, figsize=size, layout="constrained", squeeze=False
        )
        return np.asarray(made).ravel()
    given = np.asarray(axes, dtype=object).ravel()
    if len(given) != n:
        raise ValueError(f"axes must be {n}, one for each picture; got {len(given)}.")
    return given


def _draw_cells(ax: Any, records: list[Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    temperatures = [record.temperature for record in records]
    cells = [record.n_codevectors for record in records]
    ax.step(temperatures, cells, where="post", color=style.PALETTE[0])
    ax.plot(temperatures, cells, ".", color=style.PALETTE[0])
    _cool(ax)
    ax.set_ylabel("codevectors")
    if max(cells) > 20:
        ax.set_yscale("log")
        style.plain_log_axis(ax.yaxis)
    else:
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_error(ax: Any, records: list[Any]) -> None:
    from matplotlib.ticker import EngFormatter

    name = next(name for name in ERRORS if hasattr(records[0], name))
    errors = np.array([getattr(record, name) for record in records], dtype=float)
    if hasattr(records[0], "temperature"):
        ax.plot([record.temperature for record in records], errors, ".-", color=style.PALETTE[5])
        _cool(ax)
    else:
        ax.plot([record.n_samples_seen for record in records], errors, ".-", color=style.PALETTE[5])
        ax.set_xlabel("samples")
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.set_ylabel(ERRORS[name])
    known = errors[np.isfinite(errors)]
    if len(known) and known.min() > 0.0 and known.max() > 10.0 * known.min():
        ax.set_yscale("log")
        style.plain_log_axis(ax.yaxis)


def _draw_temperature(ax: Any, records: list[Any]) -> None:
    from matplotlib.ticker import EngFormatter

    samples = [record.n_samples_seen for record in records]
    ax.plot(samples, [record.temperature for record in records], ".-", color=style.PALETTE[2])
    ax.set_yscale("log")
    style.plain_log_axis(ax.yaxis)
    ax.set_ylabel("temperature")
    ax.set_xlabel("samples learned from by the annealer")
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))


def _cool(ax: Any) -> None:
    """Temperatures from left to right as they fall."""
    ax.set_xscale("log")
    style.plain_log_axis(ax.xaxis)
    ax.set_xlabel("temperature (falling)")
    if not ax.xaxis_inverted():
        ax.invert_xaxis()
