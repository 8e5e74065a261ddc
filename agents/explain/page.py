"""A report of an agent as one page: its cells, its decisions, and an episode step by step."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.distill.formulas import formula_table, with_formulas
from oda_rl.agents.distill.policy import DistilledPolicy
from oda_rl.agents.explain.decision import explain_observation
from oda_rl.agents.explain.reports import (
    explanation_sheets,
    explanation_summary,
    policy_sheet,
    policy_summary,
)
from oda_rl.agents.explain.table import PolicyTable, explain_policy
from oda_rl.agents.sb3.env_origin import find_environment
from oda_rl.agents.sb3.evaluation import LONGEST
from oda_rl.inspect.model import View
from oda_rl.inspect.page import Frame, margins_of, write_page
from oda_rl.inspect.table import counted

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

# Largest number of steps of the episode that are shown
MOST_FRAMES = 300


def play_episode(
    model: "OnlineAlgorithm", env_id: str, seed: int = 0, most: int = MOST_FRAMES, **kwargs: Any
) -> tuple[list[Frame], float]:
    """Play an episode of the greedy policy, and explain its decision at each step.

    Parameters
    ----------
    model : OnlineAlgorithm
        An agent with cells.
    env_id : str
        The environment.
    seed : int, default=0
        Seed of the episode.
    most : int
        Largest number of steps that are explained. In an environment without a time limit, an episode
        is broken off after ten thousand steps.
    **kwargs
        Keyword arguments of `gymnasium.make`.

    Returns
    -------
    frames : list of Frame
        One for each step.
    total : float
        The return of the whole episode.
    """
    frames: list[Frame] = []
    table, total = explain_policy(model), 0.0
    with gym.make(env_id, **kwargs) as env:
        seen, _ = env.reset(seed=seed)
        for step in range(LONGEST if env.spec is None else env.spec.max_episode_steps or LONGEST):
            action, _ = model.predict(seen, deterministic=True)
            if step < most:
                frames.append(_explained(model, table, seen, total))
            seen, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
    return frames, total


def readability(model: "OnlineAlgorithm", frames: Sequence[Frame]) -> str:
    """Say how much one has to read to understand a policy and an episode of it.

    Parameters
    ----------
    model : OnlineAlgorithm
        An agent with cells.
    frames : sequence of Frame
        An episode of its policy.

    Returns
    -------
    str
        The counts of numbers that determine the decisions and of cells; the effective number of active
        cells, the mean over steps of 1 / sum_i p_i^2; and the share of steps in which the most active
        cell is one of the five that are so most often.
    """
    active = [1.0 / sum(w**2 for _, w in one.shares) for one in frames if one.shares]
    _, often = np.unique([one.shares[0][0] for one in frames if one.shares], return_counts=True)
    by_five = np.sort(often)[::-1][:5].sum() / max(often.sum(), 1)
    return (
        f"{counted(model.n_parameters, 'number')}, {counted(model.n_cells, 'cell')}; "
        f"{np.mean(active) if active else np.nan:.2g} cells per decision; the five most used cells "
        f"decide {100 * by_five:.0f} % of the episode"
    )


def write_report(
    model: "OnlineAlgorithm",
    path: str | os.PathLike[str],
    env_id: str | None = None,
    levels: Sequence[View] = (),
    seed: int = 0,
) -> Path:
    """Write one HTML page about an agent; the page needs no server and no network.

    Parameters
    ----------
    model : TwoTimescaleAC, TwoTimescaleQ, UniformGridQ, SOMQ or DistilledPolicy
        Trained, or loaded from a file.
    path : str or path
        The file to write.
    env_id : str, optional
        Environment of the episode; by default the one that the agent was trained on. If that cannot be
        made again, the page has no episode, and names the reason.
    levels : sequence of View
        The growing codebook, such as `SnapshotCallback.views()`, for the slider.
    seed : int, default=0
        Seed of the episode.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ValueError
        If the model has learned nothing yet, or has no cells.
    """
    table, view, seen = explain_policy(model), model.view(), model.observations
    sheet = policy_sheet(table)

    def margins(points: NDArray[np.float64]) -> NDArray[np.float64]:
        return margins_of(model.learner.action_values(seen.nearest(points)))

    frames: list[Frame] = []
    kwargs: dict[str, Any] = {}
    about = [policy_summary(table)]
    if isinstance(model, DistilledPolicy):
        formulas = formula_table(model)
        sheet = with_formulas(model, formulas, sheet)
        about.append(f"{formulas.title}.")
    title = "An episode"
    if env_id is None and model.env_id is not None:
        try:
            env_id, kwargs = find_environment(model, exactly=False)
        except ValueError as error:
            about.append(f"There is no episode: {error}")
    if env_id is not None:
        frames, total = play_episode(model, env_id, seed, **kwargs)
        about.append(f"{readability(model, frames)}.")
        title = f"An episode with the return {total:.4g}"
    return write_page(
        path,
        sheet,
        view,
        about=about,
        margins=None if model.actions.is_continuous else margins,
        levels=levels,
        frames=frames,
        frames_title=title,
        frame_word="step",
    )


def _explained(model: "OnlineAlgorithm", table: PolicyTable, seen: Any, total: float) -> Frame:
    why = explain_observation(model, seen)
    sheets = explanation_sheets(table, why, 5, 4)
    text = "\n\n".join([explanation_summary(table, why), *map(str, sheets)])
    shares = [(one.number, one.weight) for one in why.contributions]
    note = f"{table.name_of(why.action)}, return so far {total:.4g}"
    return Frame(why.point.tolist(), text, note, shares)
