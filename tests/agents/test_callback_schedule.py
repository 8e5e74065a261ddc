"""Callbacks that promise to be due rarely miss nothing."""

import numpy as np
import pytest
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    ConvertCallback,
    EveryNTimesteps,
    LogEveryNTimesteps,
)

import oda_rl.envs  # noqa: F401
from oda_rl.agents import TwoTimescaleQ
from oda_rl.agents.callbacks import CodebookCallback, SnapshotCallback
from oda_rl.agents.sb3.callback_schedule import (
    ALWAYS,
    NEVER,
    calls_until_due,
    count_calls,
    may_use_envs,
)

QUICK = {"warmup_steps": 200, "growth_steps": 1000, "growth_cells": 10, "max_cells": 20}


class Seldom(BaseCallback):
    def __init__(self, every):
        super().__init__()
        self.every, self.seen = every, []

    @property
    def due_every(self):
        return self.every

    def _on_step(self):
        if self.n_calls % self.every == 0:
            self.seen.append((self.n_calls, self.num_timesteps))
        return True


class Often(Seldom):
    """Does something at every step, although its parent does not."""

    def _on_step(self):
        self.seen.append((self.n_calls, self.num_timesteps))
        return True


def test_which_callbacks_may_use_the_environments():
    log, codebook = LogEveryNTimesteps(100), CodebookCallback()
    assert not may_use_envs(CallbackList([log, codebook, ConvertCallback(None)]))
    assert may_use_envs(CallbackList([log, CallbackList([Seldom(100)])]))
    assert may_use_envs(ConvertCallback(lambda *_: True))
    assert may_use_envs(EveryNTimesteps(100, codebook))


def test_calls_until_due():
    seldom = Seldom(100)
    assert calls_until_due(seldom, 0) == 100
    count_calls(seldom, 30)
    assert calls_until_due(seldom, 30) == 70
    assert calls_until_due(Often(100), 0) == ALWAYS
    assert calls_until_due(ConvertCallback(None), 0) == NEVER
    assert calls_until_due(ConvertCallback(lambda *_: True), 0) == ALWAYS
    log = LogEveryNTimesteps(500)
    assert calls_until_due(log, 450) == 50
    both = CallbackList([seldom, log])
    assert calls_until_due(both, 480) == 20
    assert calls_until_due(CallbackList([both, Often(7)]), 480) == ALWAYS
    count_calls(both, 5)
    assert (both.n_calls, seldom.n_calls, log.n_calls) == (5, 35, 5)


def test_a_callback_is_made_of_functions_and_lists():
    calls = []
    model = TwoTimescaleQ(env="CartPole-v1", seed=0)
    model.learn(3, callback=[lambda *_: calls.append(1) or True, ConvertCallback(None)])
    assert len(calls) == 3
    for wrong in (3, "log", CallbackList, [lambda *_: True, 3]):
        with pytest.raises(TypeError, match="callback must be a function, a BaseCallback, or a list"):
            model.learn(3, callback=wrong)
    assert len(calls) == 3


@pytest.mark.parametrize("env_id", ["CartPole-v1", "oda_rl/CartPole-v1"])
def test_nothing_is_missed(env_id):
    seldom, event = Seldom(300), Seldom(1)
    TwoTimescaleQ(env=env_id, seed=0, **QUICK).learn(
        2_000, callback=[seldom, EveryNTimesteps(450, event)]
    )
    assert seldom.seen == [(n, n) for n in range(300, 2_001, 300)]
    assert [step for _, step in event.seen] == [450, 900, 1350, 1800]
    assert seldom.n_calls == 2_000


def test_who_is_always_due_is_always_called():
    often, seldom = Often(300), Seldom(300)
    TwoTimescaleQ(env="CartPole-v1", seed=0, **QUICK).learn(700, callback=[seldom, often])
    assert often.seen == [(n, n) for n in range(1, 701)]
    assert seldom.seen == [(300, 300), (600, 600)]


@pytest.mark.parametrize("env_id", ["CartPole-v1", "oda_rl/CartPole-v1"])
def test_callbacks_change_nothing_that_is_learned(env_id):
    alone, watched = (TwoTimescaleQ(env=env_id, seed=0, **QUICK) for _ in range(2))
    alone.learn(5_000)
    watched.learn(5_000, callback=[CodebookCallback(700), SnapshotCallback(900)])
    np.testing.assert_array_equal(alone.learner.q_values, watched.learner.q_values)
