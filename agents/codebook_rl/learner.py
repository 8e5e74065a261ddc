"""The two-timescale learner: Q-learning over aggregate states that an annealer refines."""

from typing import Any, ClassVar, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from oda_rl._schema import Schema
from oda_rl._types import Array
from oda_rl._validation import LARGEST
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl import joint_step, step
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.acting import ActingLearner, TDErrorMonitor
from oda_rl.agents.codebook_rl.arrays import (
    Sizes,
    Table,
    fill_numbers,
    make_memory,
    make_numbers,
    make_scratch,
    make_units,
)
from oda_rl.agents.codebook_rl.branches import BranchStorage, BranchTree
from oda_rl.agents.codebook_rl.rules import q_lambda, table_q
from oda_rl.agents.codebook_rl.schema import codebook_schema
from oda_rl.agents.codebook_rl.slow_timescale import SlowTimescale
from oda_rl.agents.compiled_rollout import BEGIN, PAUSED, RECALL, STEP, ObserveFunction, Rollout, run
from oda_rl.agents.config import CodebookConfig, TwoTimescaleConfig
from oda_rl.agents.observation_scale import ObservationScale
from oda_rl.agents.warm_up import plan_warm_up

OBSERVE_NUMBERED = ObserveFunction(step.observe_numbered)
OBSERVE_JOINT = ObserveFunction(joint_step.observe_joint)
OBSERVE_TABLE = ObserveFunction(table_q.observe_table)
NO_COUNTS = np.empty(0, dtype=np.int64)


class TwoTimescaleLearner(ActingLearner):
    """Learns from one transition at a time, independent of environments and of SB3.

    It has three phases. *Scaling*: the scale of the observations, and which coordinates are noise, are
    estimated under random actions, each held for a few steps. *Growing*: still under random actions,
    every observation updates the annealer, and cells split. *Learning*: values start at an optimistic
    bound, Q-learning runs at every step, and the annealer at ever rarer steps.

    On a tree, a step uses and changes only the cells of the `near_branches` nearest branches, except
    that a slow step lets the weights of cells and the frequencies of visits decay in all branches.

    Observations have `n_observed` coordinates between `low` and `high` (n_observed,), which may be
    infinite; `n_envs` environments take turns. Every cell has a value for each discrete action;
    continuous actions are part of the location.
    """

    # Overridden by learners with another rule
    config_class: ClassVar[Any] = TwoTimescaleConfig
    rule: ClassVar[Any] = q_lambda
    table_rule: ClassVar[Any] = table_q
    scale_class: ClassVar[type[ObservationScale]] = ObservationScale

    def __init__(
        self,
        n_observed: int,
        actions: ActionCodec,
        n_envs: int,
        low: NDArray[Any],
        high: NDArray[Any],
        config: CodebookConfig,
        seed: int | None = None,
        counts: NDArray[np.int64] = NO_COUNTS,
        kinds: NDArray[np.int64] | None = None,
    ) -> None:
        n_states = int(np.prod(counts)) if len(counts) else 0
        self.sizes = Sizes.of(n_observed, actions, n_envs, config, n_states)
        given = None if n_states else config.observation_scale
        self.scale = self.scale_class(low, high, plan_warm_up(config.warmup_steps), given, kinds)
        self.counts = counts
        super().__init__(actions, self.scale, config.growth_hold, config, self.sizes.n_draws, seed)
        self.slow = SlowTimescale(self.sizes, config, self.rng)
        self.numbers = make_numbers()
        self.memory = self._new_memory()
        self._scratch = make_scratch(self.sizes)
        self._observation = np.zeros(n_observed)
        fill_numbers(self.numbers, self.sizes, config, self.horizon)
        if n_states:
            self._open_table()

    @classmethod
    def smallest(cls, seed: int = 0, joint: bool = False, table: bool = False) -> Self:
        """A learner with one coordinate and few (or continuous) actions, to compile its kernels."""
        config = cls.config_class(
            warmup_steps=4, growth_steps=1, growth_cells=2, max_cells=2, samples_per_cell=1
        )
        # of two parts, as an actor has a table only for these
        actions = ActionCodec(spaces.Box(-1.0, 1.0, (1,)) if joint else spaces.MultiDiscrete([2, 2]))
        counts = np.array([3]) if table else NO_COUNTS
        return cls(1, actions, 1, np.full(1, -1.0), np.ones(1), config, seed, counts)

    # -- what is monitored -----------------------------------------------------------------------

    def watch_errors(self, wanted: bool = True) -> None:
        """Start or stop recording `td_errors`, at some of the steps; does not affect what is learned."""
        if wanted == (self._monitor is not None):
            return
        figures = self.numbers.figures[: names.N_FIGURES].copy()
        self._monitor = TDErrorMonitor(figures, self.sizes.capacity) if wanted else None
        self.numbers = self.numbers._replace(figures=self._monitor.figures if self._monitor else figures)
        if self._storage:
            self._make_table()

    # -- learning --------------------------------------------------------------------------------

    def set_horizon(self, total_timesteps: int) -> None:
        """Set the length of the run: exploration falls, and the warm-up ends, after a fraction of it."""
        super().set_horizon(total_timesteps)
        self.scale.plan(plan_warm_up(self.config.warmup_steps, self.horizon))
        fill_numbers(self.numbers, self.sizes, self.config, self.horizon)

    def use(self, config: Any) -> None:
        """Use other hyperparameters, as `Learner.use`; stepsizes of cells scale with `learning_rate`."""
        least, most = self.n_cells, config.plan_growth(self.sizes.n_joint > 0).max_cells
        if most < least and most != self.slow.plan.max_cells:
            raise ValueError(
                f"max_cells must be at least {least}, the number of cells in use, got {most}."
            )
        ratio = config.learning_rate / self.config.learning_rate
        super().use(config)
        self.slow.use(config)
        if self._storage and ratio != 1.0:
            sizes = self.sizes
            rates = slice(sizes.n_rows + sizes.n_actions, sizes.n_rows + 2 * sizes.n_actions)
            held = self._storage.branches.payload[:, rates]
            np.minimum(held * ratio, 1.0, out=held)  # rates may exceed the initial learning_rate
            common = self.numbers.figures[names.COMMON_RATE] * ratio
            self.numbers.figures[names.COMMON_RATE] = min(common, 1.0)

    def command(self, env: int) -> Array:
        """The action chosen for environment `env`, as a compiled environment takes it, in its units."""
        return np.asarray(self.memory.command[env])

    def finish_call(self, code: int, observation: NDArray[Any], reward: float) -> None:
        """Do what compiled code leaves to Python: raise its error, or finish an annealing level."""
        super().finish_call(code, observation, reward)
        if self.numbers.counters[names.LEVEL_DONE]:
            self._finish_level()

    def _advance(
        self,
        env: int,
        observation: NDArray[Any],
        reward: float,
        terminated: bool,
        ended: bool,
        first: bool,
    ) -> int:
        self._observation[:] = observation
        event, draws = BEGIN if first else STEP, self.draws.draw()
        transition = float(reward), terminated, ended, event, draws
        code: int = self._observe.function(self._table.learning, env, self._observation, *transition)
        return self.next_action(env) if code == PAUSED else code

    def _run(self, env_step: Any, env_reset: Any, rollout: Rollout, n_steps: int) -> int:
        learning, block, command = self._table.learning, self.draws.block, self.memory.command
        made: int = run(self._observe, learning, env_step, env_reset, rollout, n_steps, block, command)
        return made

    @property
    def _observe(self) -> ObserveFunction:
        if self.sizes.is_table:
            return OBSERVE_TABLE
        return OBSERVE_JOINT if self.sizes.n_joint else OBSERVE_NUMBERED

    def _note_reward(self, reward: float, terminated: bool) -> None:
        figures, sign = self.numbers.figures, self.numbers.settings[names.SIGN]
        bounded = self._bound_reward(sign * reward)
        best = names.BEST_ENDING if terminated else names.BEST_GOING_ON
        figures[best] = max(figures[best], bounded)

    def _random_action(self, env: int, draws: Array) -> None:
        memory = self.memory
        if self.actions.is_continuous:
            reach, actions = self._reach, self.actions
            u = (2.0 * draws[names.N_DRAWS :] - 1.0) * reach
            memory.command[env] = (actions.centre + actions.scale / reach * u).astype(np.float32)
        else:
            super()._random_action(env, draws)
            memory.command[env] = self.actions.commands[memory.action[env]]

    # -- phases ----------------------------------------------------------------------------------

    def _end_warm_up(self) -> None:
        super()._end_warm_up()
        points = self.scale.freeze()
        self.slow.begin(points, self.action_weight)
        self.numbers.figures[names.REWARDS : names.REWARDS + len(self.rewards)] = self.rewards
        self.numbers.counters[names.PHASE] = names.GROWING
        self._begin_level()
        self._grow(points)

    def _grow(self, points: Array) -> None:
        """Hook to grow the codebook by the `points` of the warm-up; here later observations do that."""

    def _open_table(self) -> None:
        """Create a cell for each state, and learn from the first step on."""
        self.scale.count_from_low()
        self.slow.number_states(self.counts)
        self.table_rule.begin(self.slow.codebook, self.sizes, self.config.learning_rate, 0.0)
        self.numbers.counters[names.PHASE] = names.LEARNING
        self.numbers.figures[names.NEXT_SLOW] = np.inf
        self._load_cells()
        self._restore_active_cells()

    def _start_learning(self) -> None:
        """Give every cell the optimistic value, and begin the learning phase."""
        config = self.config
        value = config.optimism * self._largest_value()
        self.rule.begin(self.slow.codebook, self.sizes, config.learning_rate, value)
        self.numbers.figures[names.COMMON_RATE] = config.learning_rate
        self.numbers.counters[names.PHASE] = names.LEARNING
        self.slow.go_on()

    def _largest_value(self) -> float:
        """The optimistic value: the largest recurring reward for ever, or the best terminal reward."""
        for_ever = self._largest_recurring() / (1.0 - self.gamma)
        return float(min(max(for_ever, self.numbers.figures[names.BEST_ENDING]), LARGEST))

    def _finish_level(self) -> None:
        """Finish an annealing level: let the codebook change, and find the active cells again."""
        counters = self.numbers.counters
        before = self.codebook.codevectors
        self.slow.end_level(int(counters[names.SLOW_STEPS]), self.distortion)
        steps, growing = int(counters[names.STEPS]), counters[names.PHASE] == names.GROWING
        if growing and self.slow.is_grown(steps, self.horizon):
            self._start_learning()
        if self._monitor:
            self._monitor.follow(before, self.slow.codebook.codevectors)
        self._begin_level()

    def _begin_level(self) -> None:
        """Begin an annealing level with a codebook that has changed."""
        assert self.annealer is not None
        counters = self.numbers.counters
        counters[names.LEVEL_DONE] = 0
        counters[names.SLOW_STEPS] = self.annealer.n
        counters[names.LEVEL_LENGTH] = self.annealer.level_length
        self._load_cells()
        self._restore_active_cells()

    def _load_cells(self) -> None:
        """Load the cells of the codebook into the arrays of compiled code."""
        book, counters = self.slow.codebook, self.numbers.counters
        branch = self.tree.branch if self.tree else None
        if self.sizes.is_table:
            branch = np.arange(len(book)) // names.BRANCH_WIDTH
        self._storage = BranchStorage(self.sizes, book, branch)
        counters[names.N_CELLS] = book.n_cells
        counters[names.WIDTH] = self._storage.width
        self.numbers.settings[names.TEMPERATURE] = self.annealer.temperature if self.annealer else 1.0
        self._make_table()

    def _new_memory(self) -> names.Memory:
        return make_memory(self.sizes)

    def _restore_active_cells(self) -> None:
        """Find the active cells for the stored observations again."""
        draws = np.zeros(self.sizes.n_draws)
        for env in range(self.sizes.n_envs):
            self._observe.function(
                self._table.learning, env, self._observation, 0.0, False, False, RECALL, draws
            )
        self._scratch.tally[:] = 0

    def _make_table(self) -> None:
        """Make the table that compiled code takes; needed whenever an array has been replaced."""
        storage, numbers, memory = self._storage, self.numbers, self.memory
        assert storage is not None
        units = make_units(self.sizes, self.scale, self.actions, self._reach, self.counts)
        planes = self.tree.planes if self.tree else BranchTree(self.sizes.n_observed).planes
        groups = (numbers, units, storage.branches, planes, storage.ledger, memory)
        self._table = Table(self.sizes, self._scratch, *groups)

    # -- storing ---------------------------------------------------------------------------------

    @classmethod
    def schema(cls, config: Any, actions: ActionCodec, observations: Any, n_envs: int) -> Schema:
        """The schema of `get_state` in a model file."""
        return codebook_schema(config, actions, observations, n_envs)

    def get_state(self, under_way: bool = True) -> dict[str, Any]:
        """As `Learner.get_state`; if `under_way`, with traces and the steps still owed along them."""
        ledger: dict[str, Any] = {}
        if self._storage:
            self._storage.unload(self.slow.codebook, with_traces=not under_way)
            if under_way:
                ledger = {name: part.copy() for name, part in self._storage.ledger._asdict().items()}
        figures = self.numbers.figures
        return {
            **super().get_state(under_way),
            "counters": self.numbers.counters.copy(),
            "figures": figures[: names.N_FIGURES].copy(),
            "errors": figures[names.N_FIGURES :].copy(),
            "tally": self._scratch.tally.copy(),  # without the searches of threads that only act
            "slow": self.slow.get_state(under_way),
            "ledger": ledger,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`."""
        super().set_state(state)
        before = self.codebook.codevectors
        counters = self.numbers.counters
        counters[:] = state["counters"]
        self.numbers.figures[: names.N_FIGURES] = state["figures"]
        fill_numbers(self.numbers, self.sizes, self.config, self.horizon)
        self.slow.set_state(state["slow"], counters[names.PHASE] == names.LEARNING)
        self._storage = None
        self._set_errors(state["errors"], before)
        self._scratch.tally[:] = state["tally"] if state["memory"] else 0
        if self.annealer is None and not self.sizes.is_table:
            return
        self._load_cells()
        if state["memory"]:
            storage: Any = self._storage
            for name, part in state["ledger"].items():
                getattr(storage.ledger, name)[:] = part
        else:
            self._restore_active_cells()

    def _set_errors(self, errors: Array, before: Array) -> None:
        """Restore the TD errors of the cells; if none are stored, use those of nearest former cells."""
        if len(errors):
            self.watch_errors()
        if self._monitor and len(errors) == len(self.numbers.figures) - names.N_FIGURES:
            self.numbers.figures[names.N_FIGURES :] = errors
        elif self._monitor and not self.sizes.is_table:
            self._monitor.follow(before, self.slow.codebook.codevectors)

    def __getstate__(self) -> dict[str, Any]:
        """State for copy and pickle, without the table, which holds addresses."""
        return {name: value for name, value in self.__dict__.items() if name != "_table"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._storage:
            self._storage.bind(self.slow.codebook)
            self._make_table()
