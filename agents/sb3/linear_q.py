"""The baselines as SB3 algorithms."""

from typing import Any, ClassVar

from stable_baselines3.common.type_aliases import GymEnv

from oda_rl.agents.linear_q.config import (
    FourierConfig,
    LinearConfig,
    SOMConfig,
    TileCodingConfig,
    UniformGridConfig,
)
from oda_rl.agents.linear_q.learner import LinearLearner
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.agents.sb3.policy import CodebookPolicy


class LinearAlgorithm(OnlineAlgorithm):
    """What the baselines have in common: Q(x, a) = w_a . phi(x), one kernel for all features phi.

    For flat Box observations and Discrete actions. The features divide up a range of each coordinate:
    `observation_low` and `observation_high`, the bounds of the space, or what a warm-up has seen.

    Parameters
    ----------
    policy : str, default="LinearPolicy"
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
        The fields of `config_class`.

    Attributes
    ----------
    config_class : type
        The hyperparameters.
    n_cells : int
        Cells, tiles of all tilings, or functions of the basis.
    n_parameters : int
        Numbers stored to act.
    learner : LinearLearner
        What has been learned: `learner.weights`, `learner.features`, `learner.range`.

    Raises
    ------
    TypeError
        If a hyperparameter is unknown.
    ValueError
        If one is outside its range, there would be too many features, or a space of the environment is
        not supported.
    """

    policy_aliases: ClassVar[dict[str, Any]] = {"LinearPolicy": CodebookPolicy}
    config_class: ClassVar[type[LinearConfig]]

    def __init__(
        self,
        policy: str | type[CodebookPolicy] = "LinearPolicy",
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

    def _learner_class(self) -> type[LinearLearner]:
        return LinearLearner


class UniformGridQ(LinearAlgorithm):
    """Watkins' Q(lambda) over the cells of a uniform grid: no aggregation of states.

    Parameters and attributes are those of `LinearAlgorithm`; the hyperparameters are the fields of
    `UniformGridConfig`, among them `bins`, one number or one for each coordinate.

    References
    ----------
    Sutton and Barto, "Reinforcement Learning: An Introduction", second edition, Sections 6.5 and 12.10.
    Mavridis and Baras, "Annealing Optimization for Progressive Learning with Stochastic Approximation",
    Section V-B, compares with it.

    Examples
    --------
    >>> from oda_rl.agents import UniformGridQ
    >>> model = UniformGridQ(env="CartPole-v1", bins=(2, 2, 5, 5), seed=0)
    >>> model = model.learn(total_timesteps=5_000)
    >>> model.n_cells
    100
    """

    config_class = UniformGridConfig


class SOMQ(LinearAlgorithm):
    """Watkins' Q(lambda) over the cells of a self-organising map.

    The map first unfolds under random actions: the cell nearest to an observation is drawn towards it,
    and so are its neighbours on a lattice, ever fewer of them. Then the values are learned, and the map
    follows the agent on the slower of two timescales. The number of its cells never changes.

    Parameters and attributes are those of `LinearAlgorithm`; the hyperparameters are the fields of
    `SOMConfig`, among them `n_cells`, one number or the sides of the lattice.

    References
    ----------
    Kohonen, "Self-Organizing Maps", for the map.
    Mavridis and Baras, "Vector Quantization for Adaptive State Aggregation in Reinforcement Learning",
    American Control Conference 2021, which "Annealing Optimization for Progressive Learning with
    Stochastic Approximation", Section V-B, compares with.

    Examples
    --------
    >>> from oda_rl.agents import SOMQ
    >>> model = SOMQ(env="CartPole-v1", n_cells=(2, 2, 5, 5), map_steps=1_000, seed=0)
    >>> model = model.learn(total_timesteps=5_000)
    >>> model.learner.codevectors.shape
    (100, 4)
    """

    config_class = SOMConfig


class TileCodingSarsa(LinearAlgorithm):
    """Sarsa(lambda) with tile coding.

    Each of several displaced grids, the tilings, has one tile that an observation lies in. Displacements
    are asymmetric; an angle wraps around.

    Parameters and attributes are those of `LinearAlgorithm`; the hyperparameters are the fields of
    `TileCodingConfig`, among them `tilings`, and `tiles`, one number or one for each coordinate.

    References
    ----------
    Sutton and Barto, "Reinforcement Learning: An Introduction", second edition, Sections 9.5.4 and 12.7.

    Examples
    --------
    >>> from oda_rl.agents import TileCodingSarsa
    >>> model = TileCodingSarsa(env="MountainCar-v0", tilings=8, tiles=10, seed=0)
    >>> model = model.learn(total_timesteps=5_000)
    >>> model.n_parameters  # 8 x 11 x 11 tiles, 3 actions, and the range of 2 coordinates
    2908
    """

    config_class = TileCodingConfig


class FourierSarsa(LinearAlgorithm):
    """Sarsa(lambda) with the Fourier basis.

    The functions are cos(pi c . u), u the observation in [0, 1] and c vectors of whole numbers up to
    `order`. The stepsize of each is divided by the length of c.

    Parameters and attributes are those of `LinearAlgorithm`; the hyperparameters are the fields of
    `FourierConfig`, among them `order` and `coupled`.

    References
    ----------
    Konidaris, Osentoski and Thomas, "Value Function Approximation in Reinforcement Learning using the
    Fourier Basis", AAAI 2011.

    Examples
    --------
    >>> from oda_rl.agents import FourierSarsa
    >>> model = FourierSarsa(env="CartPole-v1", order=3, seed=0)
    >>> model = model.learn(total_timesteps=5_000)
    >>> model.n_cells
    256
    """

    config_class = FourierConfig
