"""The properties, reports and logs of an agent, and setting its hyperparameters."""

import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.utils import safe_mean

from oda_rl.agents.hyperparameters import Config, override
from oda_rl.agents.sb3 import normalization

if TYPE_CHECKING:
    from oda_rl.agents.sb3.env_origin import EnvOrigin
    from oda_rl.agents.sb3.policy import Observation
    from oda_rl.inspect.model import View
    from oda_rl.inspect.table import Table

# What a model has of its environment, or of its file
OF_ENVIRONMENT = frozenset(
    ("action_space", "actions", "learner", "n_envs", "observation_space", "observations", "policy")
)


class Readable(BaseAlgorithm):
    """The part of an `OnlineAlgorithm` that reports its state and manages its hyperparameters."""

    learner: Any
    observations: Any
    actions: Any
    policy: Any
    config: Any
    config_class: ClassVar[type[Config]]
    # Whether the learner can keep a table of states, given the `counts` of values of each coordinate
    knows_tables: ClassVar[bool] = False
    env_id: str | None
    env_origin: "EnvOrigin"
    gamma: float
    learning_rate: Any
    _make_learner: Any

    if not TYPE_CHECKING:  # else any name would count as known

        def __getattr__(self, name):
            # Called for what is missing, and for a property that needs it
            known = name in OF_ENVIRONMENT or hasattr(type(self), name)
            if "learner" not in vars(self) and known:
                raise AttributeError(
                    f"{type(self).__name__} has no {name} before it has an environment: make it with "
                    "env=..., or read it from a file.",
                    name=name,
                    obj=self,
                )
            return object.__getattribute__(self, name)  # raises the usual error

    @property
    def n_cells(self) -> int:
        """Codevectors in use."""
        return self.learner.n_cells

    @property
    def _can_keep_a_table(self) -> bool:
        """Whether the learner can keep a table of states with these actions."""
        return self.knows_tables and not self.actions.is_continuous

    @property
    def n_parameters(self) -> int:
        """Numbers stored to act, including the principal components of large observations."""
        components = getattr(self.observations, "components", {}).values()
        return self.learner.n_parameters + sum(own.mean.size + own.axes.size for own in components)

    def predict(
        self,
        observation: "Observation",
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Choose an action for an observation, or one for each of several, as `CodebookPolicy.predict`.

        It is that of SB3, whose types do not include lists, ints and tuples, which are accepted here.
        """
        return super().predict(cast(Any, observation), state, episode_start, deterministic)

    @property
    def history_(self) -> list[Any]:
        """One `Level` record of the annealer per finished temperature; empty without an annealer."""
        return list(getattr(getattr(self.learner, "annealer", None), "history", []))

    @property
    def observation_names(self) -> list[str]:
        """Names of the numbers of an observation, with the units of the environment if they are its."""
        changed = set(self.env_origin.lacks("actions", "rewards", "dynamics"))
        if self.observations.normalization is not None:  # undone
            changed -= normalization.NAMES
        return self.observations.names(None if changed else self.env_id)

    @property
    def action_names(self) -> list[str]:
        """Names of the discrete actions, or of the coordinates of a continuous action."""
        changed = self.env_origin.lacks("observations", "rewards", "dynamics")
        return self.actions.names(None if changed else self.env_id)

    def learning_curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Steps at the ends of the episodes so far, and their returns, each of shape (n_episodes,).

        They are read from the Monitors of the environments, so a model loaded from a file has none.
        """
        from oda_rl.agents.explain.agent_view import learning_curve

        return learning_curve(cast(Any, self))

    def cells(self) -> "Table":
        """The cells as a table: their states, greedy actions, values, margins and shares of the visits.

        Raises a ValueError if nothing has been learned yet, or the agent has no cells.
        """
        from oda_rl.agents.explain import explain_policy, policy_sheet

        return policy_sheet(explain_policy(cast(Any, self)))

    def view(self) -> "View":
        """The cells, values and greedy policy as a `View`, for `oda_rl.plotting`.

        Raises a ValueError if nothing has been learned yet.
        """
        from oda_rl.agents.explain.agent_view import view_of_agent

        return view_of_agent(cast(Any, self))

    @property
    def exploration_rate(self) -> float:
        """The share of random actions at present; it follows the hyperparameters of the exploration."""
        return self.learner.exploration_rate

    def __repr__(self) -> str:
        name, config, plain = type(self).__name__, self.config, self.config_class()
        shown: dict[str, Any] = {"env": self.env_id}
        if hasattr(self, "learner"):
            shown |= {"n_cells": self.n_cells, "num_timesteps": self.num_timesteps}
        shown |= {"gamma": self.gamma, "learning_rate": self.learning_rate}
        for one in fields(config):
            if getattr(config, one.name) != getattr(plain, one.name):
                shown[one.name] = getattr(config, one.name)
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in shown.items())})"

    def dump_logs(self) -> None:
        """Write the recorded statistics to the log, under SB3's own tags."""
        elapsed = max((time.time_ns() - self.start_time) / 1e9, 1e-9)
        steps = self.num_timesteps - self._num_timesteps_at_start
        if self.ep_info_buffer:
            self.logger.record("rollout/ep_rew_mean", safe_mean([i["r"] for i in self.ep_info_buffer]))
            self.logger.record("rollout/ep_len_mean", safe_mean([i["l"] for i in self.ep_info_buffer]))
        if self.ep_success_buffer:
            self.logger.record("rollout/success_rate", safe_mean(self.ep_success_buffer))
        for name, value in self.learner.figures().items():
            self.logger.record(name, value)
        self.logger.record("time/episodes", self._episode_num, exclude="tensorboard")
        self.logger.record("time/fps", int(steps / elapsed))
        self.logger.record("time/time_elapsed", int(elapsed), exclude="tensorboard")
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(step=self.num_timesteps)

    def set_hyperparameters(self, **given: Any) -> None:
        """Continue with other values of some hyperparameters, as `model.gamma = 0.995` does with one.

        Parameters
        ----------
        **given
            The new values by name; all are set together.

        Raises
        ------
        TypeError
            If there is no such hyperparameter.
        ValueError
            If a value is not accepted, or can no longer be changed. Then nothing is changed.
        """
        config = override(self.config, given, type(self).__name__)
        made = hasattr(self, "learner")
        if made:
            self.learner.use(config)
        self.config = config
        if made and "max_cells" in given:  # the sizes of all arrays depend on it
            state = self.learner.get_state()
            self.learner = self.policy.learner = self._make_learner()
            self.learner.set_state(state)
