"""Which cells of a model speak for an observation, and what they say: the arithmetic of explanations."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.codebook_rl import behaviour
from oda_rl.agents.codebook_rl.association import associate, shares_of_all, value_temperature
from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner
from oda_rl.agents.linear_q.learner import LinearLearner

Array = NDArray[np.float64]

# The squared distance of a cell that nobody listens to
SILENT = 1e120


class Voices(NamedTuple):
    """What all cells say of one observation.

    `share` (n_cells,) sums to one, or to one for each action in a codebook for each action; `says`
    (n_actions, n_cells) is the value of each action according to each cell, and 0 where a cell does not
    know the action; `distance` (n_cells,) is squared, in scaled units.
    """

    share: Array
    says: Array
    distance: Array

    @property
    def values(self) -> Array:
        """Q of every action, of shape (n_actions,)."""
        found: Array = self.says @ self.share
        return found


def listen(learner: TwoTimescaleLearner, observation: Array) -> Voices:
    """The voices on numbered actions: Q(x, a) = sum_i p(mu_i | x) Q_i(x, a).

    Parameters
    ----------
    learner : TwoTimescaleLearner
        With numbered actions, past its warm-up.
    observation : ndarray of shape (n_observed,)
        In the environment's own units.
    """
    sizes, book = learner.sizes, learner.codebook
    z = (observation - learner.scale.centre) / learner.scale.scale
    distance = _distances(book.location[:, : len(book)], z)
    share = np.zeros(len(book))
    temperature = learner.config.softness * learner.temperature
    heard = np.where(learner.active_cells(observation), distance, SILENT)
    labels = book.labels if sizes.n_labels > 1 else np.zeros(len(book), dtype=np.int64)
    alone = associate(heard, labels, sizes.n_labels, len(book), temperature, share)
    if alone >= 0:
        share = np.eye(len(book))[alone]
    parts = book["q"].reshape(sizes.n_actions, sizes.n_basis, -1)
    says = parts[:, 0] + np.einsum("ajk,j->ak", parts[:, 1:], z[: sizes.n_basis - 1])
    if sizes.n_labels > 1:
        says = np.where(book.labels == np.arange(sizes.n_actions)[:, None], says, 0.0)
    return Voices(share, says, distance)


def listen_to_pairs(learner: TwoTimescaleLearner, observation: Array, action: Array) -> Voices:
    """The voices on one continuous action: Q(x, u) = sum_i p(mu_i | x, u) Q_i(x, u).

    Parameters
    ----------
    learner : TwoTimescaleLearner
        With continuous actions, past its warm-up.
    observation, action : ndarray of shape (n_observed,) and (n_joint,)
        In the environment's own units.

    Returns
    -------
    Voices
        With one action.
    """
    sizes, book = learner.sizes, learner.codebook
    n = sizes.n_observed
    z = (observation - learner.scale.centre) / learner.scale.scale
    u = (action - learner.actions.centre) / learner.actions.scale * learner.config.action_weight
    location = book.location[:, : len(book)]
    temperature = value_temperature(learner.numbers.settings)
    apart = _distances(location[:n], z)
    distance = apart + _distances(location[n:], u)
    apart = np.where(learner.active_cells(observation), apart, SILENT)
    near = np.flatnonzero(apart <= apart.min() + behaviour.NEAR * temperature)
    share, part = np.zeros(len(book)), np.zeros(len(near))
    shares_of_all(distance[near], len(near), temperature, part)
    share[near] = part
    basis = np.concatenate([[1.0], z, u, np.outer(u, z).ravel()])
    says = basis[: sizes.n_basis] @ book["q"]
    return Voices(share, says[None, :], distance)


def listen_to_linear(learner: LinearLearner, observation: Array) -> Voices:
    """The voice of the one cell of a grid or map that an observation lies in; no distances."""
    share = np.zeros(learner.n_cells)
    share[learner.encode(observation)[1]] = 1.0
    return Voices(share, learner.weights.T.copy(), np.full(learner.n_cells, np.nan))


def _distances(location: Array, z: Any) -> Array:
    found: Array = ((location - z[:, None]) ** 2).sum(axis=0)
    return found
