import numpy as np
from gymnasium import spaces

from oda_rl.agents import TwoTimescaleConfig
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl import state as layout
from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner


def stepsizes(n_steps, **options):
    """Alpha of the one cell, and beta per step of the environment, at ten times in equal ratios."""
    config = TwoTimescaleConfig(
        warmup_steps=50, growth_steps=1, max_cells=1, local_model="constant", flattening=0.0, **options
    )
    bound = np.ones(1)
    learner = TwoTimescaleLearner(1, ActionCodec(spaces.Discrete(1)), 1, -bound, bound, config, seed=0)
    points = np.random.default_rng(0).uniform(-1, 1, (n_steps, 1))
    learner.begin(0, points[0])
    alpha, beta = [], []
    times = np.geomspace(n_steps / 100, n_steps - 1, 10).astype(int)
    for t, point in enumerate(points):
        learner.step(0, point, 0.0, False, False)
        if t in times:
            work = learner.numbers
            n = work.counters[layout.SLOW_STEPS]
            alpha.append(learner.codebook["rate"][0, 0])
            slow = 1.0 / (config.slow_a + config.slow_b * n)
            interval = config.slow_every * (1.0 + learner.n_learned / config.slow_doubling)
            beta.append(slow / interval)
    return np.array(alpha), np.array(beta)


def test_decaying_stepsizes_have_two_timescales():
    """alpha falls slower than 1/t and faster than 1/sqrt(t), beta at least as 1/t: beta/alpha -> 0."""
    alpha, beta = stepsizes(
        100_000, learning_rate_min=0.0, learning_rate_power=0.8, min_temperature=1.0, slow_doubling=500.0
    )
    decades = 2.0
    assert -1.0 < np.log10(alpha[-1] / alpha[0]) / decades < -0.5
    assert np.log10(beta[-1] / beta[0]) / decades < -0.9
    assert (np.diff(beta / alpha) < 0).all()


def test_constant_stepsizes():
    alpha, beta = stepsizes(20_000, learning_rate_power=0.0, slow_b=0.0, slow_doubling=1e12)
    np.testing.assert_allclose(alpha, 0.1)
    np.testing.assert_allclose(beta, 0.05)
