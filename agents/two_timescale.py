"""The agent: Q-learning on a codebook that grows while it learns."""

from typing import Any

from stable_baselines3.common.type_aliases import GymEnv

from oda_rl.agents.algorithm import OnlineAlgorithm
from oda_rl.agents.config import TwoTimescaleConfig
from oda_rl.agents.learner import TwoTimescaleLearner
from oda_rl.agents.policies import CodebookPolicy


class TwoTimescaleQ(OnlineAlgorithm):
    """Two-timescale Q-learning."""

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

    def _make_learner(self) -> TwoTimescaleLearner:
        return TwoTimescaleLearner(
            len(self.observation_space.low),
            int(self.action_space.n),
            self.n_envs,
            self.observation_space.low,
            self.observation_space.high,
            self.config,
            self.seed,
        )
