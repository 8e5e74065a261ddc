"""Discrete observations: a table of states, equal to one in NumPy, and at the optimum of small tasks."""

import gymnasium as gym
import numpy as np
import pytest
from environments import StatesEnv
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from oda_rl.agents import TwoTimescaleAC, TwoTimescaleQ, UniformGridQ
from oda_rl.agents.callbacks import CodebookCallback
from oda_rl.agents.explain import explain_observation
from oda_rl.agents.learner import DivergenceError


def argmax(values, draw):
    """A largest value; ties are broken by a number in [0, 1)."""
    best = np.flatnonzero(values == values.max())
    return best[int(draw * len(best))]


def votes(rewards):
    """By how many the most frequent reward outnumbers all others, or less (Boyer and Moore)."""
    usual, lead = None, 0
    for reward in rewards:
        usual = reward if lead == 0 else usual
        lead += 1 if reward == usual else -1
    return lead


def by_value(states, values):
    """States in the order of falling values, by a Shell sort."""
    found, gap = list(states), len(states) // 2
    while gap > 0:
        for i in range(gap, len(found)):
            state, j = found[i], i
            while j >= gap and values[found[j - gap]] < values[state]:
                found[j] = found[j - gap]
                j -= gap
            found[j] = state
        gap //= 2
    return found


class Table:
    """Watkins' Q(lambda) with dutch traces, George and Powell's stepsizes, and a novelty beside it.

    The novelty of a pair, and its value where it has always had one outcome, are made anew when it is
    visited, and again as the last pairs are gone through backward, ten for each step. Values of pairs
    with up to four outcomes are computed from below; if that is often, they else only rise. `settled` is
    0 or how much rarer that is, as nothing changes.
    """

    def __init__(self, n_states, n_actions, seed, lam, gamma_halving):
        self.q = np.zeros((n_states, n_actions))
        self.novelty = np.full((n_states, n_actions), 1.0 / 0.03)
        self.visits, self.noise = np.zeros_like(self.q), np.ones_like(self.q)
        self.drift, self.square, self.trace = (np.zeros_like(self.q) for _ in range(3))
        self.rng, self.lam = np.random.default_rng(seed), lam
        self.gamma_halving, self.known = gamma_halving, 0
        self.exploring, self.exploratory = False, False
        self.outcomes, self.last, self.recent, self.waiting = {}, {}, [], 0
        self.rewards, self.mean, self.dense = [], 0.0, None  # whether rewards are dense, once known
        self.in_step = 0  # 1 while a step is learned from
        self.shares, self.settled, self.next_from_below, self.first_novelty = {}, 0, 0, 0.0

    @property
    def gamma(self):
        gamma = min(1 - 0.003 / (1 + self.known / self.gamma_halving), 0.999)
        return gamma - (gamma - 0.96) * np.exp(-self.steps / 10_000) if self.dense else gamma

    @property
    def steps(self):
        return self.known + self.in_step

    @property
    def centre(self):
        return self.mean if self.dense else 0.0

    def follow(self, reward, terminated):
        """Whether rewards are dense, and the mean of the first, until an episode terminates."""
        if terminated:
            self.q += max(self.centre, 0.0) / (1 - self.gamma)
            self.dense = False
        if self.dense is None:
            self.rewards.append(reward)
            self.mean = np.mean(self.rewards)
            if len(self.rewards) == 1000:
                self.dense = votes(self.rewards) <= 100

    def choose(self, state, values, begins):
        draws = self.rng.random(4)
        if begins or draws[0] < 0.01:
            self.exploring = draws[1] < 2 * 0.03 * self.novelty[state].max()
            if begins:
                self.first_novelty += 0.1 * (self.novelty[state].max() - self.first_novelty)
        action = argmax(self.novelty[state] if self.exploring else values, draws[3])
        self.exploratory = values[action] < values.max()
        return action

    def stepsize(self, pair, error):
        self.visits[pair] += 1
        n = self.visits[pair]
        self.drift[pair] += n**-0.9 * (error - self.drift[pair])
        self.square[pair] += n**-0.9 * (error**2 - self.square[pair])
        alpha = 1 / n
        if n > 1 and self.square[pair] > 0:
            noise = 1 - self.drift[pair] ** 2 / self.square[pair]
            alpha = max(alpha, 1 - noise / (1 + self.noise[pair]))
        self.noise[pair] = (1 - alpha) ** 2 * self.noise[pair] + alpha**2
        return alpha

    def renew(self, pair):
        after, reward = self.last[pair]
        end = after is None
        newest = self.first_novelty if end else self.novelty[after].max()
        self.novelty[pair] = self.visits[pair] ** -0.5 + 0.97 * newest
        if self.settled and self.is_known(pair):
            value = self.expected(pair, self.q.max(axis=1))
            if value > self.q[pair] or self.visits[pair] == 1:
                self.q[pair] = value
            elif self.q[pair] - value > 1e-3 * abs(self.q[pair]):
                left = self.next_from_below - self.steps
                self.next_from_below, self.settled = self.steps + left / self.settled, 1
        elif len(self.outcomes[pair]) == 1:
            self.q[pair] = reward - self.centre + self.gamma * (0 if end else self.q[after].max())

    def look_back(self, ended):
        self.renew(self.recent[-1])
        if ended or self.waiting == 100:
            for pair in self.recent[-1 : -1 - min(2000, 10 * self.waiting) : -1]:
                self.renew(pair)
            self.waiting = 0

    def learn(self, pair, reward, best, after):
        self.in_step = 1
        self.follow(reward, after is None)
        error = reward - self.centre + self.gamma * (0.0 if after is None else best) - self.q[pair]
        self.trace *= 0.0 if self.exploratory else self.gamma * self.lam
        alpha = self.stepsize(pair, error)
        if self.dense and self.visits[pair] > 25:
            self.mean += 0.01 * alpha * error
        self.record(pair, after, reward, alpha)
        if not (self.settled and self.is_known(pair)):
            self.trace[pair] += alpha * (1 - self.trace[pair])
        self.q += error * self.trace
        self.outcomes.setdefault(pair, set()).add((after, reward))
        self.last[pair] = after, reward
        self.recent.append(pair)
        self.waiting += 1
        self.known, self.in_step = self.known + 1, 0

    def record(self, pair, after, reward, alpha):
        """The share and the mean reward of each outcome of a pair."""
        rate, own = max(1 / self.visits[pair], min(alpha, 0.05)), self.shares.setdefault(pair, {})
        for end, (share, gain) in list(own.items()):
            own[end] = share * (1 - rate), gain
            if share * (1 - rate) < 1e-3:
                del own[end]
        if after in own or len(own) < 4:
            share, gain = own.get(after, (0, 0))
            own[after] = share + rate, (share * gain + rate * reward) / (share + rate)

    def is_known(self, pair):
        return sum(share for share, _ in self.shares.get(pair, {}).values()) >= 0.99

    def expected(self, pair, values):
        gamma, found, total = self.gamma, 0.0, 0.0
        for after, (share, gain) in self.shares[pair].items():
            found += share * (gain + (0.0 if after is None else gamma * values[after]))
            total += share
        return found / total

    def compute_from_below(self):
        """Value iteration from below over what is known of the pairs."""
        n_states, n_actions = self.q.shape
        known = {s: [(s, a) for a in range(n_actions) if self.is_known((s, a))] for s in range(n_states)}
        pairs = [pair for own in known.values() for pair in own]
        visited = by_value(np.flatnonzero(self.visits.any(axis=1)), self.q.max(axis=1))
        lowest = min([0, *(r for own in self.shares.values() for _, r in own.values())])
        kept = self.q.copy()
        for pair in pairs:
            kept[pair] = lowest / (1 - self.gamma)
        values, change, n_sweeps = kept.max(axis=1), np.inf, 0
        while n_sweeps < 300 and change > 1e-3 * abs(self.q).max():
            before, n_sweeps = values.copy(), n_sweeps + 1
            for s in visited:
                values[s] = max([values[s], *(self.expected(pair, values) for pair in known[s])])
            change = (values - before).max()
        pause = n_actions * max(len(visited) * (1 + n_sweeps), n_states / 10) / 100
        settles = change <= 1e-3 * abs(self.q).max()
        before = self.q.copy()
        for pair in pairs if settles else ():
            self.q[pair] = self.expected(pair, values)
        quiet = abs(self.q - before).max() <= 1e-3 * abs(before).max()
        rarer = min(max(2 * self.settled * quiet, 1), 20_000 / pause)
        self.settled = rarer if settles and pause <= 1000 else 0
        self.next_from_below = self.steps + pause * (self.settled or 1)

    def run(self, env, seed, n_steps):
        state, _ = env.reset(seed=seed)
        action = self.choose(state, self.q[state], True)
        for _ in range(n_steps):
            after, reward, terminated, truncated, _ = env.step(action)
            values = self.q[after].copy()  # the next action is chosen by the values before this step
            self.learn((state, action), reward, values.max(), None if terminated else int(after))
            self.look_back(terminated or truncated)
            if self.dense:
                self.settled = 0
            elif self.steps >= self.next_from_below:
                self.compute_from_below()
            if terminated or truncated:
                self.trace[:] = 0.0
                self.rng.random(4)
                after, _ = env.reset()
                values = self.q[after]
            action = self.choose(after, values, terminated or truncated)
            state = after


@pytest.mark.parametrize(
    ("lam", "slippery", "halving"), [(0.0, True, np.inf), (0.8, True, 1000), (0.8, False, np.inf)]
)
def test_a_table_of_frozen_lake_is_that_of_numpy(lam, slippery, halving):
    env = gym.make("FrozenLake-v1", is_slippery=slippery)
    model = TwoTimescaleQ(env=env, seed=3, trace_decay=lam, gamma_halving=halving).learn(4_000)
    twin = Table(16, 4, 3, lam, halving)
    twin.run(gym.make("FrozenLake-v1", is_slippery=slippery), 3, 4_000)
    np.testing.assert_allclose(model.learner.q_values, twin.q, atol=1e-9)
    np.testing.assert_array_equal(model.learner.codebook["visits"].T, twin.visits)
    np.testing.assert_allclose(model.learner.codebook["novelty"].T, twin.novelty, atol=1e-9)


class Stock(gym.Env):
    """A stock of up to nine items: orders cost, items are sold and held; it can end at a step."""

    def __init__(self, price, end=None):
        self.observation_space, self.action_space = spaces.Discrete(10), spaces.Discrete(4)
        self.price, self.end, self.t = price, end, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock = int(self.np_random.integers(10))
        return self.stock, {}

    def step(self, action):
        self.t += 1
        stock = min(self.stock + int(action), 9)
        sold = min(stock, int(self.np_random.integers(4)))
        self.stock = stock - sold
        reward = self.price * sold - int(action) - 0.3 * self.stock
        return self.stock, reward, self.t == self.end, self.t % 50 == 0, {}


@pytest.mark.parametrize(("price", "end"), [(2.0, None), (3.0, 3000), (0.5, 3000), (3.0, 500)])
def test_a_table_of_dense_rewards_is_that_of_numpy(price, end):
    """Values leave out the mean reward, unless an episode has terminated."""
    model = TwoTimescaleQ(env=Stock(price, end), seed=1).learn(4_000)
    twin = Table(10, 4, 1, 0.0, np.inf)
    twin.run(Stock(price, end), 1, 4_000)
    assert twin.dense is (end is None)
    np.testing.assert_allclose(model.learner.q_values, twin.q, atol=1e-9)
    np.testing.assert_array_equal(model.learner.codebook["visits"].T, twin.visits)


class TwoStocks(gym.Env):
    """Two goods, up to 49 of each, of which 0, 10 or 20 are ordered: 2,500 states, nine actions."""

    def __init__(self):
        self.observation_space, self.action_space = spaces.MultiDiscrete([50, 50]), spaces.Discrete(9)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stocks, self.t = self.np_random.integers(50, size=2).tolist(), 0
        return np.array(self.stocks), {}

    def step(self, action):
        reward, self.t = 0.0, self.t + 1
        for i, tens in enumerate(divmod(int(action), 3)):
            stock = min(self.stocks[i] + 10 * tens, 49)
            sold = min(stock, int(self.np_random.poisson((6.0, 9.0)[i])))
            self.stocks[i] = stock - sold
            reward += 2.0 * sold - 10.0 * tens - (tens > 0) - 0.05 * self.stocks[i]
        return np.array(self.stocks), reward, False, self.t == 50, {}


def test_values_of_many_pairs_do_not_lift_the_mean_reward_that_they_leave_out():
    model = TwoTimescaleQ(env=TwoStocks(), seed=100).learn(30_000)
    env = Monitor(TwoStocks())
    env.reset(seed=1)
    assert evaluate_policy(model, env, 40)[0] > 350.0


def test_a_table_has_another_discount_unless_one_is_given(tmp_path):
    model = TwoTimescaleQ(env="FrozenLake-v1", seed=0)
    assert (model.gamma, model.learner.gamma, TwoTimescaleQ(env="CartPole-v1").gamma) == (
        0.997,
        0.997,
        0.99,
    )
    model.gamma = 0.9
    model.save(tmp_path / "model.npz")
    assert (model.gamma, TwoTimescaleQ.load(tmp_path / "model.npz").learner.gamma) == (0.9, 0.9)
    model.gamma = None
    assert model.gamma == 0.997


def value(env, policy, gamma=1.0, horizon=1000):
    """The mean return of a policy from the transitions of a task of Gymnasium, or the best one's."""
    model, states = env.unwrapped.P, range(int(env.observation_space.n))
    values = np.zeros(len(states))
    for _ in range(horizon):
        q = [
            [
                sum(p * (r + gamma * values[s2] * (not end)) for p, s2, r, end in model[s][a])
                for a in model[s]
            ]
            for s in states
        ]
        values = np.array([max(row) if policy is None else row[policy[s]] for s, row in enumerate(q)])
    return float(np.array(env.unwrapped.initial_state_distrib) @ values)


def test_a_table_finds_the_best_policy_of_frozen_lake():
    env = gym.make("FrozenLake-v1")
    model = TwoTimescaleQ(env="FrozenLake-v1", seed=0).learn(50_000)
    policy, _ = model.predict(np.arange(16), deterministic=True)
    # of 100 steps at most; no policy that does not count them has more than 99.5 % of the best return
    assert value(env, policy, horizon=100) > 0.99 * value(env, None, horizon=100)


def test_a_table_dives_for_the_treasure():
    """bsuite's rule: in one of ten of the first 10,000 episodes the diver goes right all the way."""
    env = gym.make("oda_rl/DeepSea-v0", size=30)
    model, good = TwoTimescaleQ(env=env, seed=0), []
    for _ in range(30):  # hundreds of episodes
        model.learn(3_000, reset_num_timesteps=False)
        good.append(np.mean([episode["r"] > 0.5 for episode in model.ep_info_buffer]))
    assert np.mean(good) > 0.1
    diagonal = model.predict(np.arange(30) * 31, deterministic=True)[0]
    np.testing.assert_array_equal(diagonal, np.diag(env.unwrapped.rightward))


@pytest.mark.parametrize("start", [-2, 2**60])
@pytest.mark.parametrize("kind", [TwoTimescaleQ, TwoTimescaleAC, UniformGridQ])
def test_agents_learn_from_a_discrete_space_that_begins_anywhere(kind, start, tmp_path):
    space = spaces.Discrete(5, start=start)
    model = kind(env=StatesEnv(space, lambda state: int(state - start)), seed=0, gamma=0.5).learn(6_000)
    observed = np.arange(start, start + 5)
    np.testing.assert_array_equal(model.predict(observed, deterministic=True)[0], observed - start)
    assert model.predict(start + 3, deterministic=True)[0] == 3
    model.save(tmp_path / "model.npz")
    again = kind.load(tmp_path / "model.npz", env=StatesEnv(space, lambda state: int(state - start)))
    np.testing.assert_array_equal(again.predict(observed, deterministic=True)[0], observed - start)
    again.learn(100, reset_num_timesteps=False)
    with pytest.raises(ValueError, match="not in Discrete"):
        model.predict(start + 5)
    assert model.observations.names(None) == ["state" if start < 0 else f"state - {start}"]


PRODUCTS = {
    "MultiDiscrete": (spaces.MultiDiscrete([2, 3], start=[1, 0]), lambda s: int(s[1] + s[0] - 1)),
    "far away": (spaces.MultiDiscrete([2, 3], start=[0, -(2**60)]), lambda s: int(s[1] + s[0] + 2**60)),
    "MultiBinary": (spaces.MultiBinary(3), lambda s: int(s.sum())),
    "Tuple": (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), lambda s: int(s[0] + s[1])),
    "Dict": (
        spaces.Dict(a=spaces.Discrete(2), b=spaces.MultiBinary(2)),
        lambda s: int(s["a"] + s["b"].sum()),
    ),
}


def test_both_two_timescale_agents_learn_the_same_table(tmp_path):
    plain, other = (
        kind(env="FrozenLake-v1", seed=0).learn(20_000) for kind in (TwoTimescaleQ, TwoTimescaleAC)
    )
    np.testing.assert_array_equal(other.learner.q_values, plain.learner.q_values)
    assert (other.gamma, other.n_parameters) == (plain.gamma, plain.n_parameters)
    other.save(tmp_path / "model.npz")
    again = TwoTimescaleAC.load(tmp_path / "model.npz", env="FrozenLake-v1")
    again.learn(1_000, reset_num_timesteps=False)
    other.learn(1_000, reset_num_timesteps=False)
    np.testing.assert_array_equal(again.learner.q_values, other.learner.q_values)


class PartsEnv(gym.Env):
    """Any of twelve states; each of three parts of the action that is wrong in it costs a third."""

    right = np.arange(12)[:, None] // [1, 3, 6] % [3, 2, 2]

    def __init__(self):
        self.observation_space, self.action_space = spaces.Discrete(12), spaces.MultiDiscrete([3, 2, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.state = 0, int(self.np_random.integers(12))
        return self.state, {}

    def step(self, action):
        reward, self.state = np.mean(action == self.right[self.state]), int(self.np_random.integers(12))
        self.t += 1
        return self.state, reward - 1.0, False, self.t == 10, {}


def test_an_actor_learns_actions_of_several_parts_where_all_returns_are_losses(tmp_path):
    model = TwoTimescaleAC(env=PartsEnv(), seed=0).learn(6_000)
    assert (model.gamma, model.n_cells) == (0.99, 12)
    states = np.arange(12)
    np.testing.assert_array_equal(model.predict(states, deterministic=True)[0], PartsEnv.right)
    drawn, _ = model.predict(np.repeat(states, 50), deterministic=False)
    assert (drawn == np.repeat(PartsEnv.right, 50, axis=0)).mean() > 0.9
    model.save(tmp_path / "model.npz")
    again = TwoTimescaleAC.load(tmp_path / "model.npz", env=PartsEnv())
    np.testing.assert_array_equal(again.predict(states, deterministic=True)[0], PartsEnv.right)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_table_has_a_cell_for_each_combination(name, tmp_path):
    space, right = PRODUCTS[name]
    model = TwoTimescaleQ(env=StatesEnv(space, right), seed=0, gamma=0.5).learn(4_000)
    assert model.n_cells == np.prod(model.observations.counts)
    model.save(tmp_path / "model.npz")
    envs = make_vec_env(lambda: StatesEnv(space, right), 2)
    model = TwoTimescaleQ.load(tmp_path / "model.npz", env=envs)
    for _ in range(20):
        observation = space.sample()
        assert model.predict(observation, deterministic=True)[0] == right(observation)
    together = model.env.reset()
    assert model.predict(together, deterministic=True)[0].shape == (2,)
    model.learn(100)


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "Blackjack-v1"])
def test_a_table_in_tensorboard(env_id, tmp_path):
    model = TwoTimescaleQ(env=env_id, seed=0, tensorboard_log=str(tmp_path))
    model.learn(1_000, callback=CodebookCallback())
    assert any(path.stat().st_size > 1_000 for path in tmp_path.rglob("events*"))


def test_what_an_agent_tells_of_a_state():
    model = TwoTimescaleQ(env="Blackjack-v1", seed=0).learn(5_000)
    assert model.n_cells == 32 * 11 * 2
    explained = explain_observation(model, (20, 7, 0))
    assert explained.feature_names == ("player", "dealer", "usable ace")
    assert explained.action == 0
    assert model.cells().columns["player"][0] in range(4, 22)
    np.testing.assert_array_equal(explain_observation(model, [20, 7, 0]).sample, [20, 7, 0])


def test_states_that_no_action_was_taken_in_are_not_listed():
    model = TwoTimescaleQ(env="FrozenLake-v1", seed=0)
    assert len(model.learn(2_000).cells()["state"]) == 11  # neither holes nor the goal
    assert "11 cells (5 more were never visited)" in str(model.cells())


@pytest.mark.parametrize("n_envs", [1, 2])
def test_one_hot_observations_are_the_numbers_of_states(n_envs, tmp_path):
    flat = make_vec_env("FrozenLake-v1", n_envs, wrapper_class=gym.wrappers.FlattenObservation)
    model = TwoTimescaleQ(env=flat, seed=3).learn(3_000)
    numbered = TwoTimescaleQ(env=make_vec_env("FrozenLake-v1", n_envs), seed=3).learn(3_000)
    np.testing.assert_array_equal(model.learner.q_values[:16], numbered.learner.q_values)
    model.save(tmp_path / "model.npz")
    again, hot = TwoTimescaleQ.load(tmp_path / "model.npz"), np.eye(16, dtype=np.int64)
    expected = numbered.predict(np.arange(16), deterministic=True)[0]
    np.testing.assert_array_equal(again.predict(hot, deterministic=True)[0], expected)
    assert explain_observation(again, hot[4]).feature_names == ("state",)
    with pytest.raises(ValueError, match="not one-hot"):
        again.predict(np.ones(16, dtype=np.int64))


class Flags(gym.Env):
    """Eight flags, one of which is set at first, and another one after each step."""

    observation_space, action_space = spaces.Box(0, 1, (8,), np.int8), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.set = 1
        return np.eye(8, dtype=np.int8)[0], {}

    def step(self, action):
        self.set += 1
        return (np.arange(8) < self.set).astype(np.int8), 1.0, False, self.set == 8, {}


def test_flags_are_no_states():
    model = TwoTimescaleQ(env=Flags(), seed=0).learn(2_500)
    assert not model.observations.is_table
    assert model.observations.n_features == 8
    assert model.num_timesteps == 2_500
    assert len(model.ep_info_buffer) > 0


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # what callbacks are shown
def test_a_table_whose_values_grow_without_bound_is_an_error():
    class Growing(gym.RewardWrapper):
        n = 0

        def reward(self, reward):
            self.n += 1
            return 2.0 ** min(self.n, 1020)

    model = TwoTimescaleQ(env=Growing(gym.make("FrozenLake-v1")), seed=0)
    with pytest.raises(DivergenceError, match=r"step .*have diverged"):
        model.learn(2000)
    assert np.isfinite(model.learner.action_values(np.arange(16.0)[:, None])).all()
