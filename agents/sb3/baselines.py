"""The baselines: linear Sarsa(lambda) and Q(lambda) over several features, and kernel Q-learning."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.hyperparameters import Config
from oda_rl.agents.linear_q.config import (
    FourierConfig,
    KernelQConfig,
    LinearConfig,
    SOMConfig,
    TileCodingConfig,
    UniformGridConfig,
)
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.agents.sb3.policy import CodebookPolicy
from oda_rl.envs.spaces import check_discrete_action_space

if TYPE_CHECKING:
    from oda_rl.agents.kernel_q import KernelLearner
    from oda_rl.agents.linear_q.learner import LinearLearner


class LinearAlgorithm(OnlineAlgorithm):
    """Base class of the linear baselines, Q(x, a) = w_a . phi(x), with one kernel for all features phi.

    All observation spaces of the package are supported, and Discrete actions. Discrete observations are
    one-hot encoded, except in a grid. The `n_cells` features cover a range of each coordinate:
    `observation_low` to `observation_high`, the bounds of the space, or the range seen in a warm-up.
    `learner` has the `weights`, the `features` and the `range`.
    """

    policy_aliases: ClassVar[dict[str, Any]] = {"LinearPolicy": CodebookPolicy}
    config_class: ClassVar[type[Config]] = LinearConfig
    learner_path = "linear_q.learner.LinearLearner"
    _check_action_space = staticmethod(check_discrete_action_space)
    learner: "LinearLearner"


class UniformGridQ(LinearAlgorithm):
    """Watkins' Q(lambda) over the cells of a uniform grid, without adaptive state aggregation.

    References
    ----------
    Sutton and Barto, "Reinforcement Learning: An Introduction", second edition, Sections 6.5 and 12.10.
    Mavridis and Baras, "Annealing Optimization for Progressive Learning with Stochastic Approximation",
    Section V-B, compares its agent with this method.

    Examples
    --------
    >>> from oda_rl.agents import UniformGridQ
    >>> model = UniformGridQ(env="CartPole-v1", bins=(2, 2, 5, 5), seed=0)
    >>> model = model.learn(total_timesteps=5_000)
    >>> model.n_cells
    100
    """

    config_class = UniformGridConfig
    knows_tables = True


class SOMQ(LinearAlgorithm):
    """Watkins' Q(lambda) over the cells of a self-organising map.

    The map first unfolds under random actions: the cell nearest to an observation moves towards it, and
    so do its neighbours on a lattice, within a radius that shrinks. Then the values are learned, and the
    map follows the agent on the slower of two timescales. The number of cells never changes.

    References
    ----------
    Kohonen, "Self-Organizing Maps", for the map.
    Mavridis and Baras, "Vector Quantization for Adaptive State Aggregation in Reinforcement Learning",
    American Control Conference 2021. "Annealing Optimization for Progressive Learning with Stochastic
    Approximation", Section V-B, compares its agent with this method.

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

    An observation lies in one tile of each of several displaced grids, the tilings. Displacements are
    asymmetric; an angle wraps around.

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

    The functions are cos(pi c . u), where u is the observation scaled to [0, 1] and c a vector of
    integers up to `order`. The stepsize of each is divided by the length of c.

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


class KernelQ(OnlineAlgorithm):
    """Q-learning in a reproducing kernel Hilbert space, with few points and an adaptive bandwidth.

    Q(x, a) = sum_j w_ja k(d_j, x), with one dictionary d for all actions. It is trained by functional
    stochastic gradient descent on the squared temporal-difference error, with a fixed target and
    mini-batches of steps. Matching pursuit drops points within an error budget (POLK). The bandwidth is
    a Markov chain that follows the derivative of the error (BARRETTE). Observations are scaled by their
    ranges, Discrete ones are one-hot encoded; actions are Discrete.

    Attributes
    ----------
    n_cells : int
        Points of the dictionary.
    n_parameters : int
        Numbers stored to act.
    bandwidth_history_ : ndarray of shape (n_batches,)
        The bandwidth after each mini-batch, as a fraction of the ranges of the coordinates.
    learner : KernelLearner
        What has been learned: `learner.machine`, `learner.dictionary`, `learner.range`.

    References
    ----------
    Koppel, Bedi and Krishnamurthy, "A Dynamical Systems Perspective on Online Bayesian Nonparametric
    Estimators with Adaptive Hyperparameters", Algorithm 1, here with the temporal-difference error. The
    likelihood of its eq. 9 is not used, because successive observations are too similar for it.

    Examples
    --------
    >>> from oda_rl.agents import KernelQ
    >>> model = KernelQ(env="CartPole-v1", seed=0).learn(total_timesteps=1_000)
    >>> 1 < model.n_cells <= 300
    True
    """

    policy_aliases: ClassVar[dict[str, Any]] = {"KernelPolicy": CodebookPolicy}
    config_class = KernelQConfig
    learner_path = "kernel_q.KernelLearner"
    _check_action_space = staticmethod(check_discrete_action_space)
    learner: "KernelLearner"

    @property
    def learning_rate(self) -> float:
        """The hyperparameter `stepsize`, under the name that SB3 uses."""
        config: Any = self.config
        return float(config.stepsize)

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self.set_hyperparameters(stepsize=value)

    @property
    def bandwidth_history_(self) -> NDArray[np.float64]:
        """The bandwidth after each mini-batch, as a fraction of the ranges of the coordinates."""
        return self.learner.bandwidth_history
