import numpy as np
import pytest
from environments import identity_env, track_env
from gymnasium import spaces
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from oda_rl.agents import TwoTimescaleAC
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl.arrays import Sizes
from oda_rl.agents.codebook_rl.rank_correlations import MOST_COORDINATES
from oda_rl.agents.codebook_rl.recording import WarmUpRecord
from oda_rl.agents.config import TwoTimescaleACConfig

N = 1000
CODEC = ActionCodec(spaces.Discrete(3))
OPTIONS = np.random.default_rng(0).integers(3, size=N)
POINTS = np.random.default_rng(2).uniform(-1.0, 1.0, (N, 1))
LOSSES = np.random.default_rng(1).uniform(-1.0, 0.0, N)


def make_record(rewards, ends=0, n_observed=1, actions=CODEC, options=OPTIONS):
    record = WarmUpRecord(Sizes.of(n_observed, actions, 1, TwoTimescaleACConfig()), N)
    record.begin(0, np.zeros(n_observed))
    for i, (option, reward) in enumerate(zip(options, rewards, strict=True)):
        record.add(0, np.atleast_1d(option), reward, i < ends, np.ones(n_observed))
    return record


@pytest.mark.parametrize("n_observed", [1, MOST_COORDINATES + 1])
@pytest.mark.parametrize("offset", [-2.0, -1000.0])
def test_losses_that_differ_have_the_least_in_common(offset, n_observed):
    rewards = LOSSES + offset
    record = make_record(rewards, n_observed=n_observed)
    assert record.find_common_loss(1.0, CODEC) == rewards.max()
    assert record.find_common_loss(-1.0, CODEC) == 0.0
    assert make_record(-rewards, n_observed=n_observed).find_common_loss(-1.0, CODEC) == rewards.max()


@pytest.mark.parametrize(
    "rewards",
    [
        LOSSES,  # the least is next to nothing
        LOSSES + 2.0,
        np.full(N, -1.0),
        -1.0 + 1.2e-16 * (LOSSES < -0.6),  # all equal but for rounding
        np.where(LOSSES > -0.3, -10.0, -1.0),  # most steps cost 1
        -1.0 - 0.1 * (OPTIONS == 1),  # what costs is an action
        np.where(np.arange(N) == 7, 0.0, -1000.0 + LOSSES),
    ],
)
def test_there_may_be_a_goal_where_losses_have_nothing_in_common(rewards):
    assert make_record(rewards).find_common_loss(1.0, CODEC) == 0.0


@pytest.mark.parametrize(
    ("rewards", "ends", "wanted"),
    [
        (LOSSES, 0, True),
        (LOSSES - 0.1 * OPTIONS, 0, True),
        (LOSSES, 1, False),  # an end
        (0.1 * LOSSES - OPTIONS, 0, False),  # most of it is the actions'
        (np.where(np.arange(N) % 3 == 0, LOSSES, 0.0), 0, False),  # most rewards are 0
        (np.full(N, -1.0), 0, False),
    ],
)
def test_dense_rewards(rewards, ends, wanted):
    assert make_record(rewards, ends).is_dense(CODEC) is wanted
    codec = ActionCodec(spaces.Box(-1.0, 1.0, (1,)))
    assert not make_record(rewards, ends, actions=codec, options=POINTS).is_dense(codec)


@pytest.mark.parametrize(
    ("rewards", "wanted"),
    [
        (-0.1 * OPTIONS, True),
        (-1.0 - 0.1 * OPTIONS, True),
        (0.3 - 0.1 * OPTIONS, False),  # a gain
        (np.full(N, -1.0), False),
        (LOSSES, False),
        (np.where(np.arange(N) == 7, -3.0, -0.1 * OPTIONS), False),  # a loss of another kind
    ],
)
@pytest.mark.parametrize("n_observed", [1, MOST_COORDINATES + 1])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_only_actions_cost(rewards, wanted, sign, n_observed):
    rewards = np.concatenate([[5.0], rewards[1:]])
    record = make_record(sign * rewards, ends=1, n_observed=n_observed)
    assert record.only_actions_cost(sign, CODEC) is wanted
    assert not make_record(sign * rewards).only_actions_cost(sign, CODEC), (
        "5 is a gain unless it is an end's"
    )
    assert not make_record([], options=[]).only_actions_cost(sign, CODEC)


@pytest.mark.parametrize(
    ("rewards", "wanted"),
    [
        (-0.1 * POINTS[:, 0] ** 2, True),
        (-0.1 * (POINTS[:, 0] - 1.0) ** 2 + 0.01 * LOSSES, True),
        (-0.1 * POINTS[:, 0] ** 2 + LOSSES, False),  # most of it is not the actions'
        (0.05 - 0.1 * POINTS[:, 0] ** 2, False),  # gains
        (LOSSES, False),
        (np.full(N, -1.0), False),
    ],
)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_only_continuous_actions_cost(rewards, wanted, sign):
    codec = ActionCodec(spaces.Box(-1.0, 1.0, (1,)))
    record = make_record(sign * np.concatenate([[5.0], rewards[1:]]), 1, actions=codec, options=POINTS)
    assert record.only_actions_cost(sign, codec) is wanted


def test_the_usual_reward_is_the_most_frequent_one():
    found = make_record([0.0, 1.0, 0.0, 1.0, 0.0, 5.0], options=OPTIONS[:6]).find_usual_reward()
    assert found == (0.0, 0.5)
    assert make_record([1.0, 2.0, 2.0, 1.0, 3.0], options=OPTIONS[:5]).find_usual_reward() == (1.0, 0.6)
    assert make_record(LOSSES).find_usual_reward()[0] == LOSSES[-1]
    assert make_record([], options=[]).find_usual_reward() == (0.0, 0.0)


def test_the_best_stretch_has_the_largest_mean():
    record = make_record([0.0, 3.0, 0.0, 1.0, 1.0, -8.0], options=OPTIONS[:6])
    assert [record.find_best_stretch(1.0, length) for length in (1, 2, 4)] == [3.0, 1.5, 1.25]
    assert [record.find_best_stretch(-1.0, length) for length in (1, 2, 4)] == [8.0, 3.5, 1.5]
    assert record.find_best_stretch(1.0, 100) == -0.5, "of all six"
    assert make_record([], options=[]).find_best_stretch(1.0, 4) == 0.0


def test_a_stretch_is_one_of_a_single_environment():
    record = WarmUpRecord(Sizes.of(1, CODEC, 2, TwoTimescaleACConfig()), N)
    for env in (0, 1) * 4:
        record.add(env, np.zeros(1), 5.0 * env, False, np.ones(1))
    assert record.find_best_stretch(1.0, 4) == 5.0


@pytest.mark.parametrize("n", [N, 400])
@pytest.mark.parametrize("matters", ["not", "by itself", "by its product", "by its size"])
@pytest.mark.parametrize("curved", [True, False])
def test_when_actions_only_matter_for_the_reward(n, matters, curved):
    rng, actions = np.random.default_rng(3), ActionCodec(spaces.Box(-1.0, 1.0, (1,)))
    x, u = rng.normal(size=n + 1), rng.uniform(-1.0, 1.0, n)
    effects = {"not": 0.0 * u, "by itself": u, "by its product": u * x[:-1], "by its size": u * u}
    record = WarmUpRecord(Sizes.of(1, actions, 1, TwoTimescaleACConfig()), n)
    for i in range(n):
        record.begin(0, x[i : i + 1])
        reward = u[i] * x[i] - curved * u[i] ** 2 + 0.5 * rng.normal()
        record.add(0, u[i : i + 1], reward, False, x[i + 1 : i + 2] + effects[matters][i])
    assert record.is_contextual() is (curved and matters == "not" and n == N)


def test_nothing_is_in_common_where_an_episode_ended_or_nothing_is_known():
    assert make_record(LOSSES - 1000.0, ends=1).find_common_loss(1.0, CODEC) == 0.0
    assert make_record([], options=[]).find_common_loss(1.0, CODEC) == 0.0


def test_the_price_of_points_is_none_in_common():
    actions = ActionCodec(spaces.Box(-1.0, 1.0, (1,)))
    points = np.random.default_rng(2).uniform(-1.0, 1.0, N)
    told = {"actions": actions, "options": points}
    assert make_record(-1.0 - points**2, **told).find_common_loss(1.0, actions) == 0.0
    assert make_record(LOSSES - 1.0 - 0.1 * points**2, **told).find_common_loss(1.0, actions) < -1.0


@pytest.mark.parametrize("offset", [-10.0, -1000.0])
@pytest.mark.parametrize(("make_env", "least"), [(identity_env, 19.0), (track_env, -0.5)])
def test_a_loss_that_all_rewards_have_in_common_tells_nothing(make_env, least, offset):
    """Values that begin at 0 left 18.5 and 3.7 of 20 for numbers, -1.8 and -2.1 for points."""
    model = TwoTimescaleAC(env=make_env(offset=offset), seed=100).learn(15_000)
    mean, _ = evaluate_policy(model, Monitor(make_env()), 20)
    assert mean > least
