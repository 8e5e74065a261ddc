"""The picture of a training: the learning curve and the codebook."""

from pathlib import Path
from typing import Any

import numpy as np

from common.pictures import plt, save
from oda_rl.agents.callbacks import KeepBestCallback
from oda_rl.agents.explain.agent_view import learning_curve
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.plotting import plot_codebook, plot_learning_curve


def draw(
    folder: Path,
    env_id: str,
    model: OnlineAlgorithm,
    keeper: KeepBestCallback | None,
    dimensions: tuple[int, int] | None,
) -> None:
    """Draw the learning curve, and the codebook as `plot_codebook` does, into `training.png`."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    evaluations: tuple[Any, Any] = ((), ())
    if keeper is not None and keeper.evaluations_timesteps:
        evaluations = (keeper.evaluations_timesteps, np.mean(keeper.evaluations_results, axis=1))
    plot_learning_curve(*learning_curve(model), *evaluations, ax=left)
    left.set_title(f"{env_id}: learning")
    view = model.view()
    if len(view.codevectors):
        plot_codebook(view, dimensions, ax=right)
    else:  # there are too many
        right.set_axis_off()
    right.set_title(f"{model.n_cells} cells: greedy action, and area by visits")
    save(figure, folder / "training.png", dpi=110)
