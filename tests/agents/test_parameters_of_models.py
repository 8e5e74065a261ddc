"""`get_parameters` and `set_parameters`: what one agent has learned, taken over by another."""

import gymnasium as gym
import numpy as np
import pytest
from quick_models import assert_same_learning, make_model
from stable_baselines3.common.callbacks import BaseCallback

import oda_rl.agents as agents
from oda_rl.agents import TwoTimescaleAC, TwoTimescaleQ, UniformGridQ

KINDS = [
    (TwoTimescaleQ, {"warmup_steps": 200, "growth_steps": 500}, "CartPole-v1"),
    (TwoTimescaleAC, {"warmup_steps": 200}, "oda_rl/Acrobot-v1"),
    (TwoTimescaleQ, {"warmup_steps": 200}, "MountainCarContinuous-v0"),
    (TwoTimescaleQ, {}, "FrozenLake-v1"),
    (UniformGridQ, {}, "CartPole-v1"),
    (agents.TileCodingSarsa, {}, "oda_rl/CartPole-v1"),
    (agents.KernelQ, {"warmup_steps": 200, "max_points": 20}, "CartPole-v1"),
]


@pytest.mark.parametrize(("kind", "options", "env_id"), KINDS)
@pytest.mark.parametrize("steps", [0, 600])
def test_another_agent_acts_as_the_first_one_did(kind, options, env_id, steps):
    """Whether it has learned something itself or not; and the parameters are copies."""
    first = kind(env=env_id, seed=0, **options).learn(1200)
    env = gym.make(env_id)
    env.observation_space.seed(0)
    seen = np.array([env.observation_space.sample() for _ in range(200)])
    expected = first.predict(seen, deterministic=True)[0]
    parameters = first.get_parameters()
    first.learn(800, reset_num_timesteps=False)
    second = kind(env=env_id, seed=1, **options)
    if steps:
        second.learn(steps)
    policy = second.policy
    for _ in range(2):  # what the second learns is not learned by what it was given
        second.set_parameters(parameters)
        assert second.num_timesteps >= steps
        assert second.policy is policy
        np.testing.assert_array_equal(policy.predict(seen, deterministic=True)[0], expected)
        second.learn(500, reset_num_timesteps=False)


def test_from_a_file(tmp_path):
    model = make_model().learn(1500)
    model.save(tmp_path / "model")
    other = make_model(seed=7)
    other.set_parameters(tmp_path / "model")
    assert str(other.cells()) == str(model.cells())
    with pytest.raises(FileNotFoundError):
        other.set_parameters(tmp_path / "nothing")
    for given in (3, None):
        with pytest.raises(
            TypeError, match=f"load_path_or_dict must be .* or a binary file, got {given}"
        ):
            other.set_parameters(given)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "oda_rl/CartPole-v1"])
def test_by_a_callback(env_id):
    """The action that is chosen for the episode under way is the next one that is made."""
    taken, chosen = [], []

    class Record(gym.ActionWrapper):
        def action(self, action):
            taken.append(int(action))
            return action

    class GoBack(BaseCallback):
        def _on_step(self):
            if len(chosen) > len(taken) // 100:
                return True
            self.model.set_parameters(kept)
            chosen.append((len(taken), self.model.next_actions[0]))
            return True

    kept = make_model().learn(1500).get_parameters()
    model = make_model(env=Record(gym.make(env_id)), seed=3)
    model.set_parameters(kept)
    model.learn(2000, callback=GoBack())
    compared = [(taken[at], int(model.decode(0, action))) for at, action in chosen if at < len(taken)]
    assert len(compared) > 10
    assert all(done == wanted for done, wanted in compared)
    assert len({done for done, _ in compared}) == 2
    assert model.num_timesteps == 2000


def test_of_another_agent():
    """Nothing is changed."""
    model = make_model().learn(700)
    before = model.get_parameters()
    for given, message in (
        ({}, "must have the keys"),
        ({**before, "policy": {}}, "must have the keys"),
        (make_model(env="MountainCar-v0").get_parameters(), "action_space"),
        (make_model(local_model="constant").learn(700).get_parameters(), "local_model"),
        ({**before, "learner": {}}, "do not fit"),
    ):
        with pytest.raises(ValueError, match=message):
            model.set_parameters(given)
    assert_same_learning(model, make_model().learn(700))
