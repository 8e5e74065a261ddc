"""When an actor is lost or stuck, and that it then holds its actions and doubts its preferences."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from oda_rl.agents import TwoTimescaleAC, TwoTimescaleACConfig
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl import state as layout
from oda_rl.agents.codebook_rl.actor_learner import ActorCriticLearner

NUMBERS, BOX = spaces.Discrete(5), spaces.Box(-1.0, 1.0, (2,))
HOLD = 6


def paid(learner, reward, ends):
    """A reward that is given as such, or as a function of the learner and of whether an episode ends."""
    return reward(learner, ends) if callable(reward) else reward


def make_learner(space=NUMBERS, told=True, reward=-1.0, last=None):
    """A learner at the beginning of an episode, whose warm-up has seen an episode end or has not."""
    config = TwoTimescaleACConfig(
        warmup_steps=30, growth_cells=4, max_cells=4, growth_steps=100, growth_hold=HOLD
    )
    learner = ActorCriticLearner(1, ActionCodec(space), 1, np.full(1, -1.0), np.ones(1), config, seed=0)
    rng, n = np.random.default_rng(0), 0
    learner.begin(0, np.zeros(1))
    while not learner.numbers.counters[layout.PHASE]:
        n += 1
        ends = told and n % 10 == 0
        is_last = n == learner.config.warmup_steps - 3  # three episodes begin with another
        given = last if is_last and last else paid(learner, reward, ends)
        learner.step(0, rng.uniform(-1, 1, 1), given, ends, ends)
        if ends:
            learner.begin(0, rng.uniform(-1, 1, 1))
    learner.step(0, np.zeros(1), paid(learner, reward, False), False, True)
    learner.begin(0, np.zeros(1))
    return learner


def play(learner, n_episodes, reward, terminated=False, last=None, length=40):
    """Episodes of the usual reward, but for the last one of each; returns actions and gradients."""
    rng, found = np.random.default_rng(1), []
    for _ in range(n_episodes):
        for t in range(length):
            found.append((learner.command(0).copy(), learner.memory.direction[0].copy()))
            ended = t == length - 1
            given = last if ended and last is not None else paid(learner, reward, terminated and ended)
            learner.step(0, rng.uniform(-1, 1, 1), given, terminated and ended, ended)
        learner.begin(0, rng.uniform(-1, 1, 1))
    return found


def is_lost(learner):
    return bool(learner.memory.lost[0])


@pytest.mark.parametrize("space", [NUMBERS, BOX])
def test_a_lost_actor_holds_its_actions(space):
    learner = make_learner(space, told=False)
    play(learner, 1, -1.0)
    assert is_lost(learner)
    held = [not direction.any() for _, direction in play(learner, 20, -1.0, length=200)]
    lengths = np.diff(np.flatnonzero(~np.array(held)))
    assert set(lengths[:-1]) == set(range(1, HOLD + 1))
    learner = make_learner(space, told=False)
    play(learner, 1, -1.0)
    commands, directions = zip(*play(learner, 1, -1.0), strict=True)
    for before, after, direction in zip(commands[:-1], commands[1:], directions[1:], strict=True):
        if not direction.any():
            np.testing.assert_array_equal(after, before)


def test_an_actor_that_has_seen_an_end_is_lost_after_many_blank_episodes():
    learner = make_learner(told=True)
    play(learner, 3, -1.0)
    assert not is_lost(learner)
    assert all(direction.any() for _, direction in play(learner, 2, -1.0))
    play(learner, 5, -1.0)
    assert is_lost(learner)
    play(learner, 10, -1.0, terminated=True, length=20)
    assert not is_lost(learner), "most episodes tell something"
    assert 0.0 < learner.figures()["rollout/blank_episodes"] < 0.5


def test_who_stays_within_bounds_until_time_is_over_is_not_lost():
    learner = make_learner(reward=1.0)
    play(learner, 5, 1.0, terminated=True, length=20)
    play(learner, 20, 1.0)
    assert not is_lost(learner), "blank episodes have the larger return"


def preferences(learner):
    return float(np.abs(learner.action_values(np.linspace(-1.0, 1.0, 9)[:, None])).max())


@pytest.mark.parametrize(("told", "decays"), [(False, True), (True, False)])
def test_a_lost_actor_that_is_nearly_sure_doubts_all_its_preferences(told, decays):
    learner = make_learner(told=told)
    play(learner, 1, -1.0)
    assert is_lost(learner) is not told
    book, n_basis = learner.slow.codebook, int(learner.numbers.counters[layout.N_BASIS])
    book["q"][:], book["rate"][:] = 0.0, 0.0  # so small that little is learned
    book["q"][2 * n_basis] = 30.0  # the preference for an action, the same everywhere
    assert preferences(learner) == pytest.approx(30.0)
    play(learner, 4, -1.0)
    assert (preferences(learner) < 0.85 * 30.0) is decays
    assert (preferences(learner) > 0.99 * 30.0) is not decays


@pytest.mark.parametrize(
    ("space", "length", "decays"), [(NUMBERS, 40, True), (NUMBERS, 10, False), (BOX, 40, False)]
)
def test_where_an_actor_is_stuck_its_preferences_decay(space, length, decays):
    """By the shares of cells at the end of a truncated episode that cost more than terminated ones."""
    learner = make_learner(space)
    play(learner, 3, -1.0, terminated=True, length=20)
    book, n_basis = learner.slow.codebook, int(learner.numbers.counters[layout.N_BASIS])
    book["q"][:], book["rate"][:] = 0.0, 0.0  # so small that little is learned
    book["q"][2 * n_basis] = 30.0  # the preference for an action, the same everywhere
    points = np.linspace(-1.0, 1.0, 9)[:, None]
    learner.begin(0, np.full(1, -0.5))
    for t in range(length):
        learner.step(0, np.full(1, -0.5 if t < length - 2 else 0.9), -1.0, False, t == length - 1)
    left, right = learner.action_values(points)[[0, -1], 2] / 30.0
    if decays:
        assert right < 0.85 < left < 0.9, "the codebook has two cells, whose shares overlap"
    else:
        assert min(left, right) > 0.99


def cost(learner, ends):
    """A gain at the end, if there is one; otherwise the cost of the action."""
    return 5.0 if ends else -0.01 * float(np.abs(learner.command(0)).sum())


@pytest.mark.parametrize("space", [NUMBERS, BOX])
def test_where_only_actions_cost_an_episode_without_an_end_is_blank(space):
    learner = make_learner(space, reward=cost)
    play(learner, 5, cost, terminated=True, length=20)
    assert not is_lost(learner)
    play(learner, 8, cost)
    assert is_lost(learner)
    play(learner, 8, cost, terminated=True, length=20)
    assert not is_lost(learner)
    learner = make_learner(space, reward=lambda *given: min(cost(*given), 0.0))
    play(learner, 12, cost)
    assert not is_lost(learner), "no end of the warm-up was a gain"


def test_any_other_reward_tells_something():
    learner = make_learner(told=False, reward=0.0)
    play(learner, 1, 0.0)
    assert is_lost(learner)
    play(learner, 10, 0.0, last=1.0)
    assert not is_lost(learner)


def test_a_rare_reward_at_the_end_of_the_warm_up_is_not_the_usual_one():
    learner = make_learner(told=True, last=5.0)
    assert learner.numbers.figures[layout.USUAL_REWARD] == -1.0
    play(learner, 8, -1.0)
    assert is_lost(learner)


class FarGoal(gym.Env):
    """A goal at the end of a corridor, 40 steps away: whoever draws each step anew hardly gets there."""

    def __init__(self, action_space):
        self.observation_space = spaces.Box(0.0, 1.0, (1,))
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = 0.0, 0
        return np.array([self.x], np.float32), {}

    def step(self, action):
        push = action - 1 if isinstance(self.action_space, spaces.Discrete) else action[0]
        self.x = float(np.clip(self.x + 0.025 * push, 0.0, 1.0))
        self.t += 1
        arrived = self.x > 0.99
        return np.array([self.x], np.float32), float(arrived), arrived, self.t >= 150, {}


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.Box(-1.0, 1.0, (1,))])
def test_a_goal_that_is_rarely_reached_is_learned(space):
    model = TwoTimescaleAC(env=FarGoal(space), seed=0).learn(40_000)
    assert evaluate_policy(model, Monitor(FarGoal(space)), 5)[0] == 1.0
