"""What `CodebookCallback` writes to TensorBoard in addition to numbers."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EvalCallback
from stable_baselines3.common.logger import HParam, Image, Logger, TensorBoardOutputFormat

from oda_rl._interrupts import interrupts_wait
from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner
from oda_rl.agents.linear_q.learner import LinearLearner
from oda_rl.inspect.planes import informative_dimensions, make_plane

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

# Metrics of a run in the HParams tab, if they have been logged
METRICS = ("rollout/ep_rew_mean", "time/fps")
# Least number of dimensions of points that the Projector can show
PROJECTED = 3
# Size of pictures in inches, pixels per inch, and the position of the axes in fractions of the figure
SIZE, DPI, INSIDE = (4.8, 3.8), 80, (0.16, 0.14, 0.82, 0.73)


class Board:
    """Writes pictures, histograms, hyperparameters and the codebook of a run to TensorBoard.

    `writer` is SB3's. `dimensions` are those of the pictures; if None, the most informative ones at the
    first drawing.
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

    def write_histograms(self) -> None:
        """Write values, visits and TD errors of the cells, as far as the learner has them."""
        for name, numbers in cell_figures(self.model.learner).items():
            known = numbers[np.isfinite(numbers)]
            if len(known):
                self._write(f"cells/{name}", known)

    def write_pictures(self) -> None:
        """Write pictures of the greedy actions with the codebook, values, and cells by temperature.

        None in the warm-up, and none of observations of one number, which have no plane.
        """
        if self.model.observations.n_features == 1 or not self.model.learner.is_scaled:
            return
        if self.dimensions is None:
            view = self.model.view()
            self.dimensions = informative_dimensions(view, view.n_valued or view.n_features)
        for name, picture in draw_pictures(self.model, self.dimensions).items():
            self._write(f"codebook/{name}", Image(picture, "HWC"))

    def write_hyperparameters(self, callback: BaseCallback | None) -> None:
        """Write the configuration, and the names of the metrics that these callbacks log."""
        model = self.model
        settings = {
            "algorithm": type(model).__name__,
            "env_id": str(model.env_id),
            "seed": -1 if model.seed is None else model.seed,
            **{name: _plain(getattr(model, name)) for name in model.config.to_dict()},
        }
        metrics = [*METRICS]
        if isinstance(model.learner, TwoTimescaleLearner):
            metrics.append("oda/n_codevectors")
        if any(isinstance(other, EvalCallback) for other in _all_callbacks(callback)):
            metrics.append("eval/mean_reward")
        self._write("hparams", HParam(settings, dict.fromkeys(metrics, 0.0)))

    def write_codebook(self) -> None:
        """Write the codevectors for the Projector tab, in the units in which distances are measured."""
        table = codebook_table(self.model)
        if table is None:
            return
        points, header, rows = table
        options: Any = {"metadata": rows, "metadata_header": header, "tag": "codebook"}
        self.writer.writer.add_embedding(points, global_step=self.model.num_timesteps, **options)

    def _write(self, key: str, value: Any) -> None:
        self.writer.write({key: value}, {key: ()}, self.model.num_timesteps)


def find_writer(logger: Logger) -> TensorBoardOutputFormat | None:
    """SB3's writer to TensorBoard, if the logger has one."""
    formats = (f for f in logger.output_formats if isinstance(f, TensorBoardOutputFormat))
    return next(formats, None)


def cell_figures(learner: Any) -> dict[str, NDArray[np.float64]]:
    """Figures of the cells by name: `q` (or `preferences`) of all actions, `log10_visits`, `td_error`.

    Figures that a learner does not store are left out. Visits are given as logarithms, because a few
    cells have most of them; cells that were never visited are left out.
    """
    if isinstance(learner, TwoTimescaleLearner):
        known = "preferences" if learner.sizes.has_critic else "q"
        found, visits = {known: learner.q_values.ravel()}, learner.codebook["visits"].sum(axis=0)
        if learner.td_errors is not None:
            found["td_error"] = learner.td_errors
    elif isinstance(learner, LinearLearner):
        found, visits = {"q": learner.weights.ravel()}, learner.visits
    else:
        return {}
    if visits is not None and visits.any():
        found["log10_visits"] = np.log10(visits[visits > 0.0])
    return found


def codebook_table(
    model: "OnlineAlgorithm",
) -> tuple[NDArray[np.float64], list[str], list[list[str]]] | None:
    """The codevectors in scaled units (n_cells, at least 3), a header, and a row of strings for each.

    A row has the greedy action, visits, value and level of a cell; None without a codebook. The level is
    the index of the first temperature with enough cells to include this one. On a tree the branch takes
    its place, in a table of states the index of the state.
    """
    learner: Any = model.learner
    if not isinstance(learner, TwoTimescaleLearner) or not learner.is_scaled:
        return None
    view: Any = model.view()
    actions = [view.label_names[a] if view.has_classes else f"{a:.3g}" for a in view.labels]
    visits = learner.codebook["visits"].sum(axis=0)
    values = view.values(view.codevectors)
    origin, origins = cell_origins(learner)
    rows = [
        [action, f"{visit:.0f}", f"{value:.4g}", str(level)]
        for action, visit, value, level in zip(actions, visits, values, origins, strict=True)
    ]
    points = learner.codebook.codevectors
    missing = max(0, PROJECTED - points.shape[1])
    return np.pad(points, [(0, 0), (0, missing)]), ["action", "visits", "value", origin], rows


def cell_origins(learner: TwoTimescaleLearner) -> tuple[str, list[int]]:
    """The name of a column, and its value for each cell: its branch, its state, or its first level."""
    if learner.config.tree:  # the labels of cells are then their branches
        return "branch", learner.codebook.labels.tolist()
    if learner.annealer is None:
        return "state", list(range(learner.n_cells))
    reached = [level.n_codevectors for level in learner.annealer.history]
    born = [int(np.argmax([k > i for k in (*reached, np.inf)])) for i in range(learner.n_cells)]
    return "level", born


@interrupts_wait  # the first call imports matplotlib, which an interrupt would leave half imported
def draw_pictures(model: "OnlineAlgorithm", dimensions: tuple[int, int]) -> dict[str, NDArray[np.uint8]]:
    """Draw the pictures of `Board.write_pictures`: arrays (height, width, 3) by name."""
    from oda_rl.plotting import plot_annealing, plot_policy_map, plot_value_map

    view = model.view()
    place = make_plane(view, dimensions, None, most=view.n_valued).at
    policy: Any = {"codebook": True, "resolution": 80}
    drawn: dict[str, Callable[[Any], Any]] = {
        "greedy_actions": lambda ax: plot_policy_map(view, dimensions, place, ax=ax, **policy),
        "value": lambda ax: plot_value_map(view, dimensions, place, levels=16, resolution=50, ax=ax),
    }
    if view.history:
        drawn["cells_against_temperature"] = lambda ax: plot_annealing(
            list(view.history), axes=[ax], which=("cells",)
        )
    return {name: _draw(draw) for name, draw in drawn.items()}


def _draw(draw: Callable[[Any], Any]) -> NDArray[np.uint8]:
    """Draw a picture in the size in which TensorBoard shows it."""
    # pyplot would choose a backend and keep the figure in memory
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(SIZE, dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    draw(figure.add_axes(INSIDE))  # a layout engine takes twice the time
    canvas.draw()
    picture: NDArray[np.uint8] = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    return picture


def _all_callbacks(callback: Any) -> list[BaseCallback]:
    """The callback itself, or all callbacks of a list, including nested lists."""
    inner = callback.callbacks if isinstance(callback, CallbackList) else None
    return [callback] if inner is None else [one for part in inner for one in _all_callbacks(part)]


def _plain(value: Any) -> Any:
    """Convert a hyperparameter to a type that the HParams tab supports."""
    return value if isinstance(value, bool | int | float | str) else str(value)
