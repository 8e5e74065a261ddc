"""The agent: Q-learning on a codebook that grows while it learns."""

from typing import Any

from gymnasium import spaces
from stable_baselines3.common.type_aliases import GymEnv

from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner
from oda_rl.agents.config import TwoTimescaleConfig
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.agents.sb3.policy import CodebookPolicy


class TwoTimescaleQ(OnlineAlgorithm):
    """Q-learning over the cells of a codebook that an annealer makes finer while it learns.

    Two stochastic approximations run at once. The fast one is Watkins' Q(lambda) over soft aggregate
    states, Q(x, a) = sum_i p(mu_i | x) Q_i(x, a). The slow one is online deterministic annealing of the
    observations, which moves the codevectors mu_i and splits a cell when the temperature falls below its
    critical one; the new cells inherit the Q values.

    Observations are flat Boxes, bounded or not. Discrete, MultiDiscrete and MultiBinary actions are
    numbered, and a cell has a value for each. The point of a bounded Box of actions is part of a
    codevector's location; the greedy one is found by moving from the best cell's action between its
    neighbours.

    With `tree=True` the codebook is divided into branches, and a step looks at the few nearest ones: a
    thousand cells then cost some forty distances and about as much time as a hundred without a tree.
    `learner.n_distances` tells how many, `learner.tree` holds the branches.

    Parameters
    ----------
    policy : str, default="CodebookPolicy"
        For the interface's sake; there is one policy.
    env : str, gymnasium.Env, VecEnv or None
        The environment to learn from, or the id of one. Several environments of a VecEnv take turns.
    tensorboard_log : str, optional
        Folder for TensorBoard.
    verbose : int, default=0
        0: silent, 1: logs to the terminal.
    seed : int, optional
        Same seed, same result, on one machine and version.
    stats_window_size : int, default=100
        Episodes over which returns are averaged for the log.
    device : str, default="cpu"
        For the interface's sake; there is nothing to put on a GPU.
    **hyperparameters
        The fields of `TwoTimescaleConfig`.

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
    `codebook="per_action"`, `softness=0` and `growth_steps=0` are nearest to the paper. The tree is that
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

    learner: TwoTimescaleLearner

    def __init__(
        self,
        policy: str | type[CodebookPolicy] = "CodebookPolicy",
        env: GymEnv | str | None = None,
        *,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        stats_window_size: int = 100,
        device: str = "cpu",
        _init_setup_model: bool = True,
        **hyperparameters: Any,
    ) -> None:
        super().__init__(
            policy,
            env,
            TwoTimescaleConfig(**hyperparameters),
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            seed=seed,
            stats_window_size=stats_window_size,
            device=device,
            _init_setup_model=_init_setup_model,
        )

    @classmethod
    def _check_action_space(cls, space: spaces.Space) -> None:
        ActionCodec(space)

    def decode(self, env: int, action: int) -> Any:
        """What environment `env` takes: a numbered action, or the point that was chosen."""
        return self.actions.decode(self.learner.command(env) if self.actions.is_joint else action)

    def _learner_class(self) -> type[TwoTimescaleLearner]:
        return TwoTimescaleLearner
