"""The learner of kernel Q-learning: a kernel machine with an output for each action."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.action_choice import begin_random, choose_numbered, falling
from oda_rl.agents.codebook_rl.learner import BadTransitionError
from oda_rl.agents.kernel_q.config import KernelQConfig
from oda_rl.agents.linear_q.learner import DivergenceError
from oda_rl.agents.linear_q.ranges import ObservationRange
from oda_rl.agents.random_blocks import DrawBlock
from oda_rl.rkhs.functional_sgd import LOSS
from oda_rl.rkhs.machine import KernelMachine

Array = NDArray[np.float64]
# Values beyond this are out of all bounds; numbers that one choice of an action uses.
LARGEST, N_DRAWS = 1e9, 4
# Mini-batches that the logged error is averaged over.
RECENT = 20


class Memory(NamedTuple):
    """What `choose_numbered` keeps of each environment."""

    action: NDArray[np.int64]
    held: NDArray[np.int64]
    exploratory: NDArray[np.bool_]


class KernelLearner:
    """Learns from one transition at a time; knows nothing of environments or SB3.

    Parameters
    ----------
    n_features, n_actions, n_envs : int
        Sizes of an observation, of the action space, and the number of environments that take turns.
    low, high : ndarray of shape (n_features,)
        Bounds of the observations; may be infinite.
    config : KernelQConfig
        The hyperparameters.
    seed : int or None
        Seeds the generator.

    Attributes
    ----------
    machine : KernelMachine
        Q(x, a), over observations scaled to [0, 1].
    range : ObservationRange
        What they are scaled by.
    """

    def __init__(
        self,
        n_features: int,
        n_actions: int,
        n_envs: int,
        low: NDArray[Any],
        high: NDArray[Any],
        config: KernelQConfig,
        seed: int | None = None,
    ) -> None:
        self.config = config
        self.n_actions = n_actions
        rng = np.random.default_rng(seed)
        # Acting outside of the training must not change the training.
        self._acting_rng, moving_rng = rng.spawn(2)
        self.range = ObservationRange(
            low, high, int(config.warmup_steps), config.observation_low, config.observation_high
        )
        self.machine = KernelMachine(n_features, n_actions, config.rules(), moving_rng)
        self.draws = DrawBlock(rng, N_DRAWS)
        self.memory = Memory(
            np.zeros(n_envs, dtype=np.int64),
            np.zeros(n_envs, dtype=np.int64),
            np.zeros(n_envs, dtype=np.bool_),
        )
        self.last = np.zeros((n_envs, n_features))
        self.known = np.zeros(n_envs, dtype=np.bool_)
        size = int(config.batch_size)
        # Transitions that wait: observation, action, reward, next observation, whether terminated.
        self.waiting = np.zeros((size, 2 * n_features + 3))
        self.n_waiting = 0
        self.n_steps = 0
        self.horizon = 1

    # -- looking ---------------------------------------------------------------------------------

    @property
    def n_cells(self) -> int:
        """Points of the dictionary."""
        return self.machine.n_points

    @property
    def n_parameters(self) -> int:
        """Numbers stored to act: points, their weights, ranges, and the bandwidth."""
        n_features = len(self.range.low)
        return self.n_cells * (n_features + self.n_actions) + 2 * n_features + 1

    @property
    def dictionary(self) -> Array:
        """The points, in the units of the observations, of shape (n_cells, n_features)."""
        return self.range.restore(self.machine.points)

    @property
    def is_scaled(self) -> bool:
        """Whether the warm-up is over."""
        return self.range.is_known

    @property
    def exploration_rate(self) -> float:
        """The share of random actions at present."""
        config = self.config
        if not self.is_scaled:
            return 1.0
        start, end = config.exploration_initial_eps, config.exploration_final_eps
        steps = config.exploration_fraction * self.horizon
        return float(falling(start, end, float(self.n_steps), steps))

    def figures(self) -> dict[str, float]:
        """What an SB3 algorithm logs of itself."""
        records = self.machine.records[-RECENT:]
        return {
            "rollout/exploration_rate": self.exploration_rate,
            "train/loss": float(records[:, LOSS].mean()) if len(records) else 0.0,
            "train/n_updates": len(self.machine.records),
            "kernel/bandwidth": self.machine.value_of("bandwidth"),
            "kernel/n_points": self.n_cells,
        }

    # -- learning --------------------------------------------------------------------------------

    def set_horizon(self, total_timesteps: int) -> None:
        """Tell how long the run will be: exploration falls over a fraction of it."""
        self.horizon = total_timesteps

    def begin(self, env: int, observation: NDArray[Any]) -> int:
        """Start an episode of environment `env`; returns the first action, from 0.

        Raises
        ------
        BadTransitionError
            If the observation is not finite.
        """
        self.memory.held[env] = 0
        self.known[env] = False
        self._check(observation, 0.0)
        return self._act(env, observation)

    def step(
        self, env: int, observation: NDArray[Any], reward: float, terminated: bool, ended: bool
    ) -> int:
        """Learn from what the last action of environment `env` led to; returns the next, from 0.

        Raises
        ------
        BadTransitionError
            If the observation or the reward is not finite.
        DivergenceError
            If the values have grown out of all bounds.
        """
        self._check(observation, reward)
        if self.is_scaled and self.known[env]:
            point = self._scaled(observation[None])[0]
            row = (*self.last[env], self.memory.action[env], reward, *point, terminated)
            self.waiting[self.n_waiting] = row
            self.n_waiting += 1
            self.n_steps += 1
            if self.n_waiting == len(self.waiting):
                self._learn()
        self.known[env] = False
        return 0 if ended and self.is_scaled else self._act(env, observation)

    def play(self, *_: Any) -> int:
        """Not for this learner: `KernelQ` steps every environment from Python."""
        raise TypeError("KernelQ has no loop with compiled environments; learn with callback_every=1.")

    def settle(self, code: int, observation: NDArray[Any], reward: float) -> None:
        """Nothing is left to Python by a kernel."""

    def next_action(self, env: int) -> int:
        """The action that was chosen for environment `env`."""
        return int(self.memory.action[env])

    def _check(self, observation: NDArray[Any], reward: float) -> None:
        for name, value in (("observation", np.asarray(observation)), ("reward", reward)):
            if not np.isfinite(value).all():
                raise BadTransitionError(
                    f"the environment returned the {name} {value}; it must be finite."
                )

    def _scaled(self, observations: NDArray[Any]) -> Array:
        """Observations in [0, 1], as far as they are within their ranges."""
        points = np.asarray(observations, dtype=np.float64)
        return np.ascontiguousarray((points - self.range.low) * self.range.inverse)

    def _act(self, env: int, observation: NDArray[Any]) -> int:
        """Choose the next action: greedy, or a random one that is held; at random in the warm-up."""
        if not self.is_scaled and self.range.observe(observation):
            self.range.freeze()
            self.memory.held[:] = 0
        draws = self.draws.draw()
        values, hold, likely = np.zeros(self.n_actions), int(self.config.warmup_hold), 1.0
        if self.is_scaled:
            point = self._scaled(observation[None])
            self.last[env], self.known[env] = point[0], True
            values, hold = self.machine(point)[0], int(self.config.hold)
            likely = begin_random(self.exploration_rate, hold)
        choose_numbered(env, draws, bool(draws[0] < likely), hold, values, self.memory)
        return self.next_action(env)

    def _learn(self) -> None:
        """One mini-batch: the outputs of the actions taken are drawn to their targets, others stay."""
        n_features, rows = self.last.shape[1], np.arange(self.n_waiting)
        parts = np.split(self.waiting, np.cumsum([n_features, 1, 1, n_features]), axis=1)
        points, action, reward, after, terminated = (np.ascontiguousarray(part) for part in parts)
        targets = self.machine(points)
        best = self.machine(after).max(axis=1)
        goal = reward[:, 0] + self.config.gamma * np.where(terminated[:, 0] > 0.0, 0.0, best)
        if not np.abs(goal).max() < LARGEST:
            raise DivergenceError(
                "the values have grown out of all bounds: lower stepsize, or raise regularization."
            )
        targets[rows, action[:, 0].astype(np.int64)] = goal
        self.machine.learn(points, targets, np.ones(len(points)))
        self.n_waiting = 0

    # -- acting ----------------------------------------------------------------------------------

    def greedy(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """The greedy actions for observations of shape (n, n_features); ties go to the first.

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        actions: NDArray[np.int64] = self.action_values(observations).argmax(axis=1)
        return actions

    def action_values(self, observations: NDArray[Any]) -> Array:
        """Q(x, a) for observations of shape (n, n_features), of shape (n, n_actions).

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        if not np.isfinite(observations).all():
            raise ValueError("observation contains NaN or infinity.")
        if not self.is_scaled:  # nothing has been learned
            return np.zeros((len(observations), self.n_actions))
        return self.machine(self._scaled(observations))

    def explore(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Replace a share of the actions by random ones: the exploration rate of the present."""
        rng = self._acting_rng
        random = rng.random(len(actions)) < self.exploration_rate
        return np.where(random, rng.integers(self.n_actions, size=len(actions)), actions)

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All that has been learned, as numbers for JSON and as arrays.

        Episodes under way are not part of it, but for their transitions that wait to be learned.
        """
        machine = self.machine.get_state()
        arrays = {
            name: machine.pop(name) for name in list(machine) if isinstance(machine[name], np.ndarray)
        }
        config: dict[str, Any] = {
            "is_scaled": self.is_scaled,
            "horizon": self.horizon,
            "n_steps": self.n_steps,
            "generator": self.draws.block_state,
            "row": self.draws.row,
            "machine": machine,
        }
        kept = {f"machine/{name}": array.copy() for name, array in arrays.items()}
        return config, kept | {
            "range/lower": self.range.lower.copy(),
            "range/upper": self.range.upper.copy(),
            "range/seen": self.range.seen[: self.range.n_seen].copy(),
            "waiting": self.waiting[: self.n_waiting].copy(),
        }

    def set_state(self, config: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from `get_state`; the number of environments may be another one."""
        self.horizon, self.n_steps = config["horizon"], config["n_steps"]
        self.draws.resume(config["generator"], config["row"])
        self.range.set_state(
            config["is_scaled"], arrays["range/lower"], arrays["range/upper"], arrays["range/seen"]
        )
        found = {
            name.removeprefix("machine/"): array
            for name, array in arrays.items()
            if name.startswith("machine/")
        }
        self.machine.set_state({**config["machine"], **found})
        self.n_waiting = len(arrays["waiting"])
        self.waiting[: self.n_waiting] = arrays["waiting"]
