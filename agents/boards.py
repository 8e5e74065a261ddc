"""What `CodebookCallback` writes to TensorBoard besides numbers."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.logger import HParam, Image, Logger, TensorBoardOutputFormat

from oda_rl.plotting.planes import make_plane
from oda_rl.plotting.views import View, telling_dimensions

if TYPE_CHECKING:
    from oda_rl.agents.algorithm import OnlineAlgorithm

# What the HParams tab shows of a run, if it has been logged
METRICS = ("rollout/ep_rew_mean", "time/fps")
PANEL, DPI = (4.6, 3.7), 72
MARGINS = {"left": 0.06, "right": 0.985, "bottom": 0.14, "top": 0.9, "wspace": 0.3}


class Board:
    """The TensorBoard of a run.

    Parameters
    ----------
    model : OnlineAlgorithm
        What learns.
    writer : TensorBoardOutputFormat
        SB3's.
    dimensions : (int, int) or None
        Of the picture; those that tell most when it is first drawn, if None.
    """

    def __init__(
        self,
        model: "OnlineAlgorithm",
        writer: TensorBoardOutputFormat,
        dimensions: tuple[int, int] | None,
    ) -> None:
        self.model = model
        self.writer = writer
        self.dimensions = dimensions
        self._embedded = -1

    def write_histograms(self) -> None:
        """Values, visits and TD errors of the cells, as far as the learner knows them."""
        for name, numbers in cell_figures(self.model.learner).items():
            known = numbers[np.isfinite(numbers)]
            if len(known):
                self._write(f"cells/{name}", known)

    def write_picture(self) -> None:
        """Greedy actions with the codebook, values, and cells against temperature, side by side."""
        if self.dimensions is None:
            view = self.model.view()
            self.dimensions = telling_dimensions(view, view.n_valued or view.n_features)
        self._write("oda/codebook", Image(draw_board(self.model, self.dimensions), "HWC"))

    def write_hyperparameters(self, callback: BaseCallback) -> None:
        """The configuration, and which of the logged numbers are the result."""
        model = self.model
        settings = {
            "algorithm": type(model).__name__,
            "env_id": str(model.env_id),
            "seed": -1 if model.seed is None else model.seed,
            **{name: _plain(value) for name, value in model.config.to_dict().items()},
        }
        metrics = [*METRICS]
        if model.history_:
            metrics.append("oda/n_codevectors")
        if any(isinstance(other, EvalCallback) for other in _siblings(callback)):
            metrics.append("eval/mean_reward")
        self._write("hparams", HParam(settings, dict.fromkeys(metrics, 0.0)))

    def write_codebook(self) -> None:
        """The codevectors for the Projector tab, in the units in which distances are measured."""
        model: Any = self.model
        table = codebook_table(model)
        if table is None or self._embedded == model.num_timesteps:
            return
        self._embedded = model.num_timesteps
        points, header, rows = table
        self.writer.writer.add_embedding(
            points,
            metadata=rows,
            metadata_header=header,
            tag="codebook",
            global_step=model.num_timesteps,
        )

    def _write(self, key: str, value: Any) -> None:
        self.writer.write({key: value}, {key: ()}, self.model.num_timesteps)


def find_writer(logger: Logger) -> TensorBoardOutputFormat | None:
    """SB3's writer to TensorBoard, if the logger has one."""
    formats = (f for f in logger.output_formats if isinstance(f, TensorBoardOutputFormat))
    return next(formats, None)


def cell_figures(learner: Any) -> dict[str, NDArray[np.float64]]:
    """By name, numbers of the cells: `q` of all actions, `log10_visits`, `td_error`.

    What a learner does not keep is left out. Visits are told by their logarithm, as a few cells have
    most of them; cells that were never visited are left out.
    """
    found: dict[str, NDArray[np.float64]] = {}
    if hasattr(learner, "codebook"):
        found["q"] = learner.q_values.ravel()
        visits = learner.codebook["visits"].sum(axis=0)
    else:
        found["q"] = learner.weights.ravel()
        visits = learner.workspace.visits if learner.workspace.visits.size > 1 else np.empty(0)
    if visits.any():
        found["log10_visits"] = np.log10(visits[visits > 0.0])
    errors = getattr(learner, "td_errors", None)
    if errors is not None:
        found["td_error"] = errors
    return found


def codebook_table(
    model: "OnlineAlgorithm",
) -> tuple[NDArray[np.float64], list[str], list[list[str]]] | None:
    """The codevectors in scaled units, of shape (n_cells, n_features), and what to tell of each.

    Returns
    -------
    points, header, rows
        A row has the greedy action, visits, value and level of a cell; None without a codebook. The
        level is that of the cell in a tree, or else the number of the temperature since which there have
        been so many cells.
    """
    learner: Any = model.learner
    if not hasattr(learner, "codebook") or not learner.n_cells:
        return None
    view = model.view()
    assert view.values is not None
    assert view.labels is not None
    actions = [view.label_names[a] if view.has_classes else f"{a:.3g}" for a in view.labels]
    visits = learner.codebook["visits"].sum(axis=0)
    values = view.values(view.codevectors)
    levels = cell_levels(learner)
    rows = [
        [action, f"{visit:.0f}", f"{value:.4g}", str(level)]
        for action, visit, value, level in zip(actions, visits, values, levels, strict=True)
    ]
    return learner.codebook.codevectors, ["action", "visits", "value", "level"], rows


def cell_levels(learner: Any) -> list[int]:
    """The level of every cell: in a tree, or when the codebook first had so many."""
    own = getattr(learner, "cell_levels", None)
    if own is not None:
        return [int(level) for level in own]
    reached = [level.n_codevectors for level in learner.annealer.history]
    return [int(np.argmax([k > i for k in (*reached, np.inf)])) for i in range(learner.n_cells)]


def draw_board(model: "OnlineAlgorithm", dimensions: tuple[int, int]) -> NDArray[np.uint8]:
    """The picture of `Board.write_picture`, of shape (height, width, 3)."""
    # pyplot would choose a backend, and keep the figure
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from oda_rl.plotting import plot_annealing, plot_policy_map, plot_value_map

    view: View = model.view()
    place = make_plane(view, dimensions, None, most=view.n_valued).at
    history = model.history_
    n_panels = 3 if history else 2
    figure = Figure((n_panels * PANEL[0], PANEL[1]), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots(1, n_panels, gridspec_kw=MARGINS)  # a layout engine takes twice the time
    plot_policy_map(view, dimensions, place, codebook=True, resolution=80, ax=axes[0])
    plot_value_map(view, dimensions, place, levels=16, resolution=50, ax=axes[1])
    if history:
        plot_annealing(history, axes=axes[2:], which=("cells",))
    canvas.draw()
    picture: NDArray[np.uint8] = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    return picture


def _siblings(callback: BaseCallback) -> list[BaseCallback]:
    """The callbacks of the list that this one is in."""
    return list(getattr(callback.parent, "callbacks", [callback]))


def _plain(value: Any) -> Any:
    """A hyperparameter as the HParams tab knows it."""
    return value if isinstance(value, bool | int | float | str) else str(value)
