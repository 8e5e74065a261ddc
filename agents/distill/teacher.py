"""A common interface to any policy: its actions, and how much depends on them in each state."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.observations import ObservationCodec
from oda_rl.agents.sb3.gymnasium_vector import row_of

# Largest weight of a state, as a multiple of the mean weight
HEAVIEST = 10.0


class Teacher:
    """A policy of any kind: returns its actions, and what is lost by taking others.

    Parameters
    ----------
    policy : object
        An agent of this package, a model of SB3, anything else with SB3's `predict`, or a callable that
        returns the action for one observation.
    observations : ObservationCodec
        The observations of the environment.
    actions : ActionCodec
        The actions of the environment.

    Raises
    ------
    TypeError
        If `policy` is none of these.
    """

    def __init__(self, policy: Any, observations: ObservationCodec, actions: ActionCodec) -> None:
        if not (callable(policy) or hasattr(policy, "predict")):
            raise TypeError(
                "the teacher must be an agent, a model with SB3's predict method, or a callable; got "
                f"{policy!r}."
            )
        self.policy, self.observations, self.actions = policy, observations, actions
        self._decided = {} if actions.is_continuous else _numbers_of(actions)
        own = getattr(getattr(policy, "observations", None), "normalization", None)
        scaler = getattr(policy, "get_vec_normalize_env", lambda: None)()
        self._normalise = (lambda seen: seen) if scaler is None else scaler.normalize_obs
        if own is not None:  # known of an agent from a file, too
            self._normalise = own.redo

    def label(self, observations: Any, n: int) -> tuple[NDArray[Any], Array, Array | None]:
        """The teacher's actions at `n` observations, which are as a VecEnv returns them.

        Returns
        -------
        labels : ndarray of shape (n,) or (n, size)
            Indices of discrete actions, int64, or continuous actions.
        weights : ndarray of shape (n,)
            What the worst action would lose: the range of the teacher's Q values, or of its
            log-probabilities. 1 if it has neither.
        values : ndarray of shape (n, n_actions), or None
            These Q values or log-probabilities; None if it has neither or actions are continuous.

        Raises
        ------
        ValueError
            If the environment does not accept the teacher's actions.
        """
        seen = self._normalise(observations)
        taken = self._act(seen, n)
        if self.actions.is_continuous:
            if taken.shape[1] != len(self.actions.centre) or not np.isfinite(taken.astype(float)).all():
                raise self._refused(taken[0])
            return taken.astype(np.float64), np.ones(n), None
        keys = [tuple(one.tolist()) for one in taken]
        if unknown := [one for one in keys if one not in self._decided]:
            raise self._refused(unknown[0])
        labels = np.array([self._decided[one] for one in keys])
        values = self._values(seen, n)
        return labels, np.ones(n) if values is None else np.ptp(values, axis=1), values

    def predict(self, observation: Any, state: Any = None, **_: Any) -> tuple[NDArray[Any], Any]:
        """The actions at several observations, with the interface that `evaluate_policy` of SB3 uses."""
        first = observation
        while isinstance(first, dict | tuple):
            first = first[next(iter(first)) if isinstance(first, dict) else 0]
        return self.actions.decode_many(self.label(observation, len(first))[0]), state

    def _act(self, seen: Any, n: int) -> NDArray[Any]:
        if hasattr(self.policy, "predict"):
            return np.asarray(self.policy.predict(seen, deterministic=True)[0]).reshape(n, -1)
        return np.array([np.ravel(self.policy(row_of(seen, i))) for i in range(n)])

    def _refused(self, action: Any) -> ValueError:
        space = self.actions.space
        return ValueError(f"the teacher must return actions in {space}, got {list(action)}.")

    def _values(self, seen: Any, n: int) -> Array | None:
        """Q values or log-probabilities of discrete actions, (n, n_actions); None if there are none."""
        if hasattr(self.policy, "learner"):
            rows, _ = self.policy.observations.read(seen)
            return np.asarray(self.policy.learner.action_values(rows))
        inner: Any = getattr(self.policy, "policy", None)
        if not (hasattr(inner, "q_net") or hasattr(inner, "get_distribution")):
            return None
        import torch

        with torch.no_grad():
            tensor, _ = inner.obs_to_tensor(seen)
            if hasattr(inner, "q_net"):
                return inner.q_net(tensor).cpu().numpy().astype(np.float64)
            distribution: Any = inner.get_distribution(tensor).distribution
            logits = getattr(distribution, "logits", None)
            return None if logits is None else logits.cpu().numpy().astype(np.float64)


def balanced(weights: Array) -> Array:
    """Scale weights to a mean of 1, then cut them at `HEAVIEST`."""
    mean = weights.mean()
    return np.minimum(weights / mean, HEAVIEST) if mean > 0.0 else np.ones_like(weights)


def _numbers_of(actions: ActionCodec) -> dict[tuple[Any, ...], int]:
    """The index of each discrete action, by the action as the environment takes it."""
    taken = actions.decode_many(np.arange(actions.n_actions))
    return {tuple(np.ravel(one).tolist()): i for i, one in enumerate(taken)}
