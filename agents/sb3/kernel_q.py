"""Kernel Q-learning as an SB3 algorithm."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback

from oda_rl.agents.kernel_q.config import KernelQConfig
from oda_rl.agents.kernel_q.learner import KernelLearner
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.agents.sb3.policy import CodebookPolicy
from oda_rl.rkhs.functional_sgd import FIRST_STATE


class KernelQ(OnlineAlgorithm):
    """Q-learning in a reproducing kernel Hilbert space, with few points and a bandwidth that adapts.

    Q(x, a) = sum_j w_ja k(d_j, x), one dictionary d for all actions. Functional stochastic gradients of
    the squared temporal-difference error, the target held fixed, in mini-batches of steps; matching
    pursuit drops points within a budget (POLK), and the bandwidth is a Markov chain that follows the
    derivative of the error (BARRETTE). For flat Box observations, which are scaled by their ranges, and
    Discrete actions.

    Parameters
    ----------
    policy : str, default="KernelPolicy"
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
        The fields of `KernelQConfig`.

    Attributes
    ----------
    n_cells : int
        Points of the dictionary.
    n_parameters : int
        Numbers stored to act.
    bandwidth_history_ : ndarray of shape (n_batches,)
        The bandwidth after each mini-batch, in parts of the ranges.
    learner : KernelLearner
        What has been learned: `learner.machine`, `learner.dictionary`, `learner.range`.

    Raises
    ------
    TypeError
        If a hyperparameter is unknown.
    ValueError
        If one is outside its range, or a space of the environment is not supported.

    References
    ----------
    Koppel, Bedi and Krishnamurthy, "A Dynamical Systems Perspective on Online Bayesian Nonparametric
    Estimators with Adaptive Hyperparameters", Algorithm 1, of which this is the same with the
    temporal-difference error. The likelihood of eq. 9 is of no use here: observations that follow one
    another are too much alike.

    Examples
    --------
    >>> from oda_rl.agents import KernelQ
    >>> model = KernelQ(env="CartPole-v1", seed=0).learn(total_timesteps=3_000)
    >>> 1 < model.n_cells <= 300
    True
    """

    policy_aliases: ClassVar[dict[str, Any]] = {"KernelPolicy": CodebookPolicy}
    config_class: ClassVar[type[KernelQConfig]] = KernelQConfig
    learner: KernelLearner

    def __init__(
        self,
        policy: str | type[CodebookPolicy] = "KernelPolicy",
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
            self.config_class(**hyperparameters),
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            seed=seed,
            stats_window_size=stats_window_size,
            device=device,
            _init_setup_model=_init_setup_model,
        )

    @property
    def bandwidth_history_(self) -> NDArray[np.float64]:
        """The bandwidth after each mini-batch, in parts of the ranges."""
        return self.learner.machine.records[:, FIRST_STATE]

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 100,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        callback_every: int = 1,
    ) -> Self:
        """Learn from the environment; all is as for the other agents but `callback_every`.

        Parameters
        ----------
        total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar
            As for `TwoTimescaleQ.learn`.
        callback_every : int, default=1
            For the interface's sake: every environment is stepped from Python, and callbacks are called
            when they look.

        Returns
        -------
        self
        """
        return super().learn(
            total_timesteps,
            callback,
            log_interval,
            tb_log_name,
            reset_num_timesteps,
            progress_bar,
            callback_every=1,
        )

    def _learner_class(self) -> type[KernelLearner]:
        return KernelLearner
