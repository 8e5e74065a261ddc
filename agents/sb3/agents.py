"""The two-timescale agents: Q-learning, and an actor-critic."""

from typing import TYPE_CHECKING, Any, Self

from gymnasium import spaces

from oda_rl.agents.actions import MOST_COMBINATIONS, ActionCodec
from oda_rl.agents.config import TwoTimescaleACConfig, TwoTimescaleConfig
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

if TYPE_CHECKING:
    from oda_rl.agents.codebook_rl.actor_learner import ActorCriticLearner
    from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner


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
    """What the two-timescale agents have in common: actions are numbered, or points of a Box."""

    @classmethod
    def _check_action_space(cls, space: spaces.Space) -> None:
        ActionCodec(space, cls.most_actions)

    def decode(self, env: int, action: int) -> Any:
        """What environment `env` takes: a numbered action, or the point that was chosen."""
        return self.actions.decode(self.learner.command(env) if self.actions.is_continuous else action)


class TwoTimescaleQ(CodebookAlgorithm):
    """Q-learning over the cells of a codebook that an annealer makes finer while it learns.

    Two stochastic approximations run at once. The fast one is Watkins' Q(lambda) over soft aggregate
    states, Q(x, a) = sum_i p(mu_i | x) Q_i(x, a). The slow one is online deterministic annealing of the
    observations, which moves the codevectors mu_i and splits a cell when the temperature falls below its
    critical one; the new cells inherit the Q values.

    Observations may be Boxes of any shape, bounded or not, Discrete, MultiDiscrete, MultiBinary, and
    Dicts and Tuples of these. Where all is discrete, and there are few enough combinations, each state
    is a cell: then this is tabular Q(lambda), which learns from the first step on. Discrete,
    MultiDiscrete and MultiBinary actions are numbered, and a cell has a value for each. The point of a
    bounded Box of actions is part of a codevector's location; the greedy one is found by moving from
    the best cell's action between its neighbours.

    With `tree=True` the codebook is divided into branches, and a step uses the few nearest ones: a
    thousand cells then cost some forty distances and about as much time as a hundred without a tree.
    `learner.n_distances` tells how many, `learner.tree` holds the branches.

    Attributes
    ----------
    n_cells : int
        Codevectors in use.
    n_parameters : int
        Numbers stored to act.
    learner : TwoTimescaleLearner
        What has been learned: `learner.codevectors` in the environment's own units, `learner.q_values`.

    Raises
    ------
    TypeError
        If a hyperparameter is unknown.
    ValueError
        If one is outside its range, or a space of the environment is not supported.

    References
    ----------
    Mavridis and Baras, "Annealing Optimization for Progressive Learning with Stochastic Approximation",
    Section IV, Algorithm 2 and Theorem 6; with rewards and a maximum in place of costs and a minimum.
    `TwoTimescaleQ.papers` makes the agent as it is printed. The tree is that
    of "Multi-Resolution Online Deterministic Annealing", Section V and Algorithm 5, as
    `oda_rl.agents.codebook_rl.branches.BranchTree` explains.

    Examples
    --------
    >>> from oda_rl.agents import TwoTimescaleQ
    >>> model = TwoTimescaleQ(env="CartPole-v1", seed=0)
    >>> model = model.learn(total_timesteps=10_000)
    >>> action, _ = model.predict([0.0, 0.0, 0.05, 0.0], deterministic=True)
    >>> int(action) in (0, 1)
    True
    """

    config_class = TwoTimescaleConfig
    knows_tables = True
    learner_path = "codebook_rl.learner.TwoTimescaleLearner"
    learner: "TwoTimescaleLearner"

    @classmethod
    def papers(cls, env: Any, **options: Any) -> Self:
        """The agent as the paper prints it: nearest cells, one number for each, no traces.

        Codevectors are pairs of an observation and an action, a codebook for each action. They follow
        the visits (no flattening), and Q(h) moves towards r + gamma max Q(h') by alpha alone. The paper
        leaves open alpha, how actions are tried, the cost and the first temperature. Here alpha falls
        to 0.03; random actions are held for up to ten steps; Q begins at the value of a reward for ever,
        which is a cost of failure alone and Q = 0; and in the place of a uniform first codebook, which
        would fall together at a high temperature, it is annealed first, under random actions.

        Parameters
        ----------
        env : environment, vectorised environment or str
            With numbered actions.
        **options
            All other arguments, which come before these.

        Returns
        -------
        TwoTimescaleQ
        """
        return cls(env=env, **(AS_PRINTED | options))


class TwoTimescaleAC(CodebookAlgorithm):
    """An actor and a critic over the cells of a codebook that an annealer makes finer while they learn.

    Three stochastic approximations run at once. The critic learns the value of states by TD(lambda),
    the actor the preferences of which its probabilities are the softmax, by the errors of the critic;
    both are functions sum_i p(mu_i | x) f_i(x), f_i linear in x, over soft aggregate states. The third,
    online deterministic annealing of the observations, moves the codevectors mu_i and splits cells; the
    new ones inherit preferences and values.

    There is no share of random actions to be set, no optimism, and nothing that depends on the length
    of a run: what is learned gets better with more steps. `predict` takes the most probable action (of
    a distribution over a Box a point between its mean and its mode), or, if it is not to be
    deterministic, draws one.

    Observations are those of `TwoTimescaleQ`, a cell for each state where they are discrete; the scale
    of Boxes is learned from the bounds and from what a warm-up shows. Discrete, MultiDiscrete and
    MultiBinary actions are numbered; of several parts each is drawn by preferences of its own. For a
    bounded Box of actions the actor learns the two parameters of a Beta distribution for each
    coordinate, values begin at the largest reward that ended an episode while the codebook grew, and the
    discount rises while the critic explains returns well.

    Attributes
    ----------
    n_cells : int
        Codevectors in use.
    n_parameters : int
        Numbers stored to act.
    learner : ActorCriticLearner
        What has been learned: `learner.codevectors` in the environment's own units,
        `learner.probabilities(observations)` or `learner.distributions(observations)`, and
        `learner.state_values(observations)`.

    Raises
    ------
    TypeError
        If a hyperparameter is unknown.
    ValueError
        If one is outside its range, or a space of the environment is not supported.

    References
    ----------
    Sutton and Barto, "Reinforcement Learning: An Introduction", second edition, Section 13.6, for
    actor-critic with eligibility traces. Mavridis and Baras, "Annealing Optimization for Progressive
    Learning with Stochastic Approximation", for the codebook; `TwoTimescaleQ` is its agent.

    Examples
    --------
    >>> from oda_rl.agents import TwoTimescaleAC
    >>> model = TwoTimescaleAC(env="CartPole-v1", seed=0)
    >>> model = model.learn(total_timesteps=10_000)
    >>> action, _ = model.predict([0.0, 0.0, 0.05, 0.0], deterministic=True)
    >>> int(action) in (0, 1)
    True
    """

    config_class = TwoTimescaleACConfig
    knows_tables = True
    most_actions = MOST_COMBINATIONS
    learner_path = "codebook_rl.actor_learner.ActorCriticLearner"
    learner: "ActorCriticLearner"
