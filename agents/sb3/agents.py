"""The two-timescale agents: Q-learning, and an actor-critic."""

from typing import TYPE_CHECKING, Any, ClassVar, Self

from oda_rl.agents.actions import MOST_COMBINATIONS, ActionCodec
from oda_rl.agents.config import TwoTimescaleACConfig, TwoTimescaleConfig
from oda_rl.agents.observations import ObservationCodec
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

if TYPE_CHECKING:
    from oda_rl.agents.codebook_rl.actor_learner import ActorCriticLearner
    from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner
    from oda_rl.agents.learner import Learner


# Hyperparameters of `TwoTimescaleQ.papers`.
AS_PRINTED: dict[str, Any] = {
    "codebook": "per_action",
    "local_model": "constant",
    "softness": 0.0,
    "trace_decay": 0.0,
    "flattening": 0.0,
    "growth_steps": 20_000,
    "growth_cells": 250,
    "max_cells": 250,
    "learning_rate_min": 0.03,
    "hold": 10,
}


class CodebookAlgorithm(OnlineAlgorithm):
    """Base class of the two-timescale agents, with discrete actions or those of a bounded Box."""

    config_class: ClassVar[Any]
    knows_tables = True

    @property
    def gamma(self) -> float:
        """The initial discount factor in use; its default is larger for a table of Q values."""
        learner = vars(self).get("learner")
        return self.config.find("gamma", False) if learner is None else float(learner.gamma)

    @gamma.setter
    def gamma(self, value: float | None) -> None:
        self.set_hyperparameters(gamma=value)

    def _learner_options(self) -> dict[str, Any]:
        return {**super()._learner_options(), "kinds": self.observations.kinds}

    def decode(self, env: int, action: int) -> Any:
        """Convert a discrete `action`, or the continuous one that was chosen, for environment `env`."""
        return self.actions.decode(self.learner.command(env) if self.actions.is_continuous else action)


class TwoTimescaleQ(CodebookAlgorithm):
    """Q-learning over the cells of a codebook that annealing refines during the training.

    Two stochastic approximations run at once. The fast one is Watkins' Q(lambda) over soft aggregate
    states, Q(x, a) = sum_i p(mu_i | x) Q_i(x, a). The slow one is online deterministic annealing of the
    observations, which moves the codevectors mu_i and splits a cell when the temperature falls below the
    critical temperature of the cell; the new cells inherit the Q values.

    Observations may be Boxes of any shape, bounded or not, Discrete, MultiDiscrete, MultiBinary, and
    Dicts and Tuples of these. If an observation is entirely discrete, with few enough combinations, each
    state is a cell: the agent is then tabular Q(lambda), which learns from the first step on. Discrete,
    MultiDiscrete and MultiBinary actions are enumerated, and a cell has a value for each. An action from
    a bounded Box is part of a codevector's location. The greedy one is found by a search that starts at
    the action of the best cell and moves between the actions of the cells near the observation. Within a
    cell Q is linear in the action, so that actions between the bounds are found only where cells differ
    in their actions. By default they do so only where actions do not affect what is observed next;
    elsewhere `TwoTimescaleAC` is the better agent for a Box.

    With `tree=True` the codebook is divided into branches, and a step uses only the few nearest ones. A
    step with a thousand cells then computes about forty distances and takes about as long as one with a
    hundred cells without a tree. `learner.n_distances` is the number of distances per observation,
    `learner.tree` holds the branches.

    Attributes
    ----------
    n_cells : int
        Codevectors in use.
    n_parameters : int
        Numbers stored to act.
    learner : TwoTimescaleLearner
        What has been learned: `learner.codevectors` in the environment's own units, `learner.q_values`.

    References
    ----------
    Mavridis and Baras, "Annealing Optimization for Progressive Learning with Stochastic Approximation",
    Section IV, Algorithm 2 and Theorem 6; with rewards and a maximum in place of costs and a minimum.
    `TwoTimescaleQ.papers` makes the agent of the paper. The tree is that of "Multi-Resolution Online
    Deterministic Annealing", Section V and Algorithm 5; `oda_rl.agents.codebook_rl.branches.BranchTree`
    explains how it differs.

    Examples
    --------
    >>> from oda_rl.agents import TwoTimescaleQ
    >>> model = TwoTimescaleQ(env="CartPole-v1", seed=0)
    >>> model = model.learn(total_timesteps=5_000)
    >>> action, _ = model.predict([0.0, 0.0, 0.05, 0.0], deterministic=True)
    >>> int(action) in (0, 1)
    True
    """

    config_class = TwoTimescaleConfig
    learner_path = "codebook_rl.learner.TwoTimescaleLearner"
    learner: "TwoTimescaleLearner"

    @classmethod
    def papers(cls, env: Any, **options: Any) -> Self:
        """Make the agent of the paper: nearest cells with a single value each, without traces.

        Codevectors are pairs of an observation and an action, with one codebook for each action. They
        follow the visits (no flattening), and Q(h) moves towards r + gamma max Q(h') with the stepsize
        alpha alone. The paper does not specify alpha, the exploration, the cost and the first
        temperature. Here alpha falls to 0.03, and random actions are held for up to ten steps. Q starts
        at the value of being rewarded for ever, which amounts to Q = 0 with a cost of failure alone. A
        uniform first codebook would collapse at a high temperature, so the codebook is first annealed
        under random actions.

        Parameters
        ----------
        env : environment, vectorised environment or str
            With discrete actions.
        **options
            All other arguments; they take precedence over the settings of the paper.

        Returns
        -------
        TwoTimescaleQ
        """
        return cls(env=env, **(AS_PRINTED | options))


class TwoTimescaleAC(CodebookAlgorithm):
    """Actor-critic over the cells of a codebook that annealing refines during the training.

    Three stochastic approximations run at once. The critic learns state values by TD(lambda). The actor
    learns preferences, whose softmax gives the action probabilities, from the TD errors of the critic.
    Both are functions sum_i p(mu_i | x) f_i(x), f_i linear in x, over soft aggregate states. The third,
    online deterministic annealing of the observations, moves the codevectors mu_i and splits cells; the
    new ones inherit preferences and values.

    There is no share of random actions to set, no optimism, and no schedule that depends on the length
    of the run: what is learned improves with more steps. `predict` takes the most probable action, or
    draws one if `deterministic` is False. For a Box the deterministic action lies between the mean and
    the mode of its distribution.

    Observations are those of `TwoTimescaleQ`. If they are entirely discrete, each state is a cell, with
    Q values in place of an actor unless actions have several parts: a table has no errors of
    approximation, and Q values can be learned while the behaviour explores far more than an actor would.
    The scale of Boxes is estimated from their bounds and from a warm-up. Discrete, MultiDiscrete and
    MultiBinary actions are enumerated; each part of an action with several parts is drawn by its own
    preferences. For a bounded Box of actions the actor learns the two parameters of a Beta distribution
    for each coordinate, values start at the largest reward that ended an episode while the codebook
    grew, and the discount rises while the critic explains the returns well.

    Attributes
    ----------
    n_cells : int
        Codevectors in use.
    n_parameters : int
        Numbers stored to act.
    learner : ActorCriticLearner, or TwoTimescaleLearner for a table of states
        What has been learned: `learner.codevectors` in the environment's own units,
        `learner.probabilities(observations)` or `learner.distributions(observations)`, and
        `learner.state_values(observations)`; for a table of states `learner.q_values`.

    References
    ----------
    Sutton and Barto, "Reinforcement Learning: An Introduction", second edition, Section 13.6, for
    actor-critic with eligibility traces. Mavridis and Baras, "Annealing Optimization for Progressive
    Learning with Stochastic Approximation", for the codebook; `TwoTimescaleQ` is its agent.

    Examples
    --------
    >>> from oda_rl.agents import TwoTimescaleAC
    >>> model = TwoTimescaleAC(env="CartPole-v1", seed=0)
    >>> model = model.learn(total_timesteps=5_000)
    >>> action, _ = model.predict([0.0, 0.0, 0.05, 0.0], deterministic=True)
    >>> int(action) in (0, 1)
    True
    """

    config_class = TwoTimescaleACConfig
    most_actions = MOST_COMBINATIONS
    learner_path = "codebook_rl.actor_learner.ActorCriticLearner"
    learner: "ActorCriticLearner"

    @classmethod
    def _learner_class(cls, actions: ActionCodec, observations: ObservationCodec) -> "type[Learner]":
        if cls.config_class.learns_actor(actions, observations.is_table):
            return super()._learner_class(actions, observations)
        return TwoTimescaleQ._learner_class(actions, observations)
