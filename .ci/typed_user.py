"""What a user may write: mypy knows the types of the installed package, as it has `py.typed`."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from oda_rl import ODAClassifier, ODAPartition, __version__
from oda_rl.agents import TwoTimescaleAC

samples = np.random.default_rng(0).normal(size=(50, 2))
assert_type(__version__, str)
assert_type(ODAPartition(max_codevectors=4).fit(samples), ODAPartition)
assert_type(ODAClassifier(random_state=0).fit(samples, samples[:, 0] > 0), ODAClassifier)
cells: NDArray[np.int64] = ODAPartition(max_codevectors=4).fit(samples).predict(samples)

# the README's lines
model = TwoTimescaleAC(env="CartPole-v1", seed=0, tensorboard_log="logs")
model.learn(total_timesteps=200_000, progress_bar=True)
model.save("cartpole.npz")
model = TwoTimescaleAC.load("cartpole.npz", env="CartPole-v1")
action, _ = model.predict([0.0, 0.0, 0.05, 0.0], deterministic=True)
assert_type(action, NDArray[Any])
