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
    dimensions: tuple[int, int],
) -> None:
    """Draw the learning curve, and the codebook in two dimensions, into `training.png` in the folder.

    A codebook with only one dimension is drawn with the values of the greedy actions against it.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    evaluations: tuple[Any, Any] = ((), ())
    if keeper is not None and keeper.evaluations_timesteps:
        evaluations = (keeper.evaluations_timesteps, np.mean(keeper.evaluations_results, axis=1))
    plot_learning_curve(*learning_curve(model), *evaluations, ax=left)
    left.set_title(f"{env_id}: learning")
    learner = model.learner
    n = learner.sizes.n_observed
    points = learner.codevectors[:, :n]
    if model.actions.is_continuous:
        actions = learner.greedy(points)[:, 0]
        names = ["greedy action"]
    else:
        actions = learner.q_values.argmax(axis=1)
        names = model.actions.names(env_id)
    plot_codebook(
        points,
        actions,
        learner.codebook["visits"].sum(axis=0),
        dimensions=dimensions,
        feature_names=model.observations.names(env_id),
        label_names=names,
        ax=right,
        values=learner.state_values(points),
    )
    right.set_title(f"{model.n_cells} cells: greedy action, and area by visits")
    save(figure, folder / "training.png", dpi=110)
