"""Polish a small table: optimise its numbers for the return, by an evolution strategy."""

from dataclasses import replace
from typing import Any

import numpy as np

from oda_rl._types import Array
from oda_rl._validation import check_at_least, whole_number
from oda_rl.agents.distill.play import Judge
from oda_rl.agents.distill.policy import DistilledPolicy
from oda_rl.agents.policy_program import PolicyProgram
from oda_rl.agents.sb3.env_origin import find_plain_id
from oda_rl.agents.sb3.evaluation import make_evaluation_envs

# Episodes that score a point of the search, and episodes that decide which table is kept
EPISODES, FOR_CHOICE = 20, 200
# Generations between such decisions, and the first standard deviation, in the units of `Numbers`
EVERY, SPREAD = 10, 0.3
# Visited states, from which the units of `Numbers` and the visits of cells are found
N_STATES = 2000


def polish(student: DistilledPolicy, *, steps: int = 3_000_000, seed: int = 0) -> DistilledPolicy:
    """Optimise the numbers of a table for its return.

    A small table cannot always reproduce its teacher; the best imitation is then not the best policy
    that such a table can express. An evolution strategy (CMA-ES) searches around its numbers. Each
    candidate is scored by twenty episodes, new ones in each generation. Two hundred other episodes
    decide which table is kept. The number of cells, and the numbers that are 0, do not change. If the
    search is interrupted (Ctrl-C), the student has the best table so far.

    Parameters
    ----------
    student : DistilledPolicy
        From `distill` or `shrink`; its table is replaced by the best one. Its `num_timesteps` grows by
        the steps made.
    steps : int, default=3_000_000
        Environment steps: these take seconds if it has compiled dynamics, otherwise minutes.
    seed : int, default=0
        Same seed, same result.

    Returns
    -------
    DistilledPolicy
        The student.

    Raises
    ------
    TypeError, ValueError
        If `student` is not a `DistilledPolicy`, `steps` is not positive, or the student has no
        environment or has not been distilled.

    References
    ----------
    N. Hansen: "The CMA Evolution Strategy: A Tutorial", arXiv:1604.00772.

    Examples
    --------
    >>> from oda_rl.agents.distill import distill
    >>> clumsy = lambda observation: int(observation[2] > 0)
    >>> student = distill(clumsy, "CartPole-v1", max_cells=1, rounds=1, steps_per_round=500)
    >>> better = polish(student, steps=200_000)
    >>> float(better.predict([0.0, 0.0, 0.01, -1.0])[0])
    0.0
    """
    env_id = _check_student(student)
    check_at_least(1, steps=steps)
    seed = whole_number("seed", seed, 0)
    learner, states = student.learner, _states(student, seed)
    numbers, kept = Numbers(learner.program, states), learner.program
    start = numbers.vector()
    if not len(start):  # a constant action: there is nothing to optimise
        return student
    search = CovarianceAdaptation(start, SPREAD, np.random.default_rng(seed))
    tried, chosen = Judge(env_id, EPISODES, seed), Judge(env_id, FOR_CHOICE, seed - FOR_CHOICE)
    is_over = False
    try:
        best = chosen(student)
        while not is_over:
            tried.seed += EPISODES
            worth = []
            for point in search.ask():
                learner.program = numbers.program(point)
                worth.append(tried(student))
            search.tell(np.array(worth))
            is_over = tried.n_steps + chosen.n_steps >= steps
            if is_over or search.generation % EVERY == 0:
                learner.program = numbers.program(search.mean)
                found = chosen(student)
                if found > best:
                    best, kept, states = found, learner.program, _states(student, seed)
    finally:  # also if interrupted
        learner.use_program(kept, learner.known, states)
        student.num_timesteps += tried.n_steps + chosen.n_steps
        tried.close()
        chosen.close()
    return student


def _check_student(student: Any) -> str:
    """The id of the environment of a distilled policy."""
    if not isinstance(student, DistilledPolicy):
        raise TypeError(f"student must be a DistilledPolicy, as distill returns it, got {student!r}.")
    if student.env_id is None:
        raise ValueError(
            "student must have an environment with an id: distill it again, or load it with env=..."
        )
    if student.learner.n_learned == 0:
        raise ValueError("student must have been distilled, but its table is empty.")
    return find_plain_id(student, "the environment of student")


class Numbers:
    """The nonzero numbers of a table as one vector, in units in which all have a similar influence.

    Locations are in standard deviations of the states, and preferences in standard deviations of their
    differences. The scale and the temperature are logarithms.

    Parameters
    ----------
    program : PolicyProgram
        The table.
    states : ndarray of shape (n, d)
        States from which the units are found.
    """

    def __init__(self, program: PolicyProgram, states: Array) -> None:
        self.origin = program
        wide = states.std(axis=0)
        wide = np.where(wide > 1e-9, wide, 1.0)
        found = program.action_values(states)
        centred = found if program.actions is None else found - found.mean(axis=1, keepdims=True)
        worth = max(float(centred.std()), 1e-9)
        along = worth / wide[: program.slopes.shape[2]]  # empty for constant cells
        self.units = {"codevectors": wide, "values": worth, "slopes": along}
        self.chosen = {name: getattr(program, name) != 0.0 for name in self.units}
        self.apart = np.isfinite(program.scale)

    def vector(self) -> Array:
        """The numbers of the table in these units."""
        origin = self.origin
        parts = [
            (getattr(origin, name) / self.units[name])[chosen] for name, chosen in self.chosen.items()
        ]
        parts.append(np.log(origin.scale[self.apart]))
        warm = origin.temperature > 0.0
        return np.concatenate([*parts, [np.log(origin.temperature)] if warm else []])

    def program(self, vector: Array) -> PolicyProgram:
        """The table with the numbers of `vector`."""
        sizes = [int(chosen.sum()) for chosen in (*self.chosen.values(), self.apart)]
        *parts, scales, rest = np.split(vector, np.cumsum(sizes))
        arrays: dict[str, Any] = {}
        for (name, chosen), part in zip(self.chosen.items(), parts, strict=True):
            array = np.zeros(chosen.shape)
            array[chosen] = part
            arrays[name] = array * self.units[name]
        scale = self.origin.scale.copy()
        scale[self.apart] = np.exp(scales)
        warm = float(np.exp(rest[0])) if len(rest) else 0.0
        return replace(self.origin, scale=scale, temperature=warm, **arrays)


class CovarianceAdaptation:
    """CMA-ES: draws points about a mean, then adapts mean and covariance to the better half of them.

    Parameters
    ----------
    mean : ndarray of shape (n,)
        The starting point, in units in which all coordinates have about the same influence.
    sigma : float
        Standard deviation of the first points along each coordinate.
    rng : numpy.random.Generator
        Draws the points.

    Attributes
    ----------
    mean : ndarray of shape (n,)
        The best guess.
    n_points : int
        Points per generation, 4 + 3 ln n, rounded down.

    References
    ----------
    N. Hansen: "The CMA Evolution Strategy: A Tutorial", arXiv:1604.00772, Figure 6 and Table 1, with
    positive weights only.
    """

    def __init__(self, mean: Array, sigma: float, rng: np.random.Generator) -> None:
        n = len(mean)
        self.mean, self.sigma, self.rng = mean.copy(), sigma, rng
        self.n_points = 4 + int(3 * np.log(n))
        parents = self.n_points // 2
        weights = np.log(0.5 * (self.n_points + 1)) - np.log(np.arange(1, parents + 1))
        self.weights = weights / weights.sum()
        self.mass = mass = 1.0 / (self.weights**2).sum()
        self.c_path = (4 + mass / n) / (n + 4 + 2 * mass / n)
        self.c_sigma = (mass + 2) / (n + mass + 5)
        self.c_one = 2 / ((n + 1.3) ** 2 + mass)
        self.c_many = min(1 - self.c_one, 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass))
        self.damping = 1 + 2 * max(0.0, np.sqrt((mass - 1) / (n + 1)) - 1) + self.c_sigma
        self.expected = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))  # length of a normal vector
        self.covariance = np.eye(n)
        self.path, self.path_sigma = np.zeros(n), np.zeros(n)
        self.generation = 0

    def ask(self) -> Array:
        """Draw the points of a generation, (n_points, n)."""
        values, self.axes = np.linalg.eigh(self.covariance)
        self.lengths = np.sqrt(np.maximum(values, 1e-20))
        drawn = self.rng.standard_normal((self.n_points, len(self.mean)))
        self.steps = (drawn * self.lengths) @ self.axes.T
        return self.mean + self.sigma * self.steps

    def tell(self, worth: Array) -> None:
        """Update the distribution; `worth` (n_points,) are the points' scores, larger is better."""
        best = self.steps[np.argsort(-worth, kind="stable")[: len(self.weights)]]
        step = self.weights @ best
        self.mean = self.mean + self.sigma * step
        self.generation += 1
        white = self.axes @ ((self.axes.T @ step) / self.lengths)
        c, n = self.c_sigma, len(self.mean)
        self.path_sigma = (1 - c) * self.path_sigma + np.sqrt(c * (2 - c) * self.mass) * white
        length = np.linalg.norm(self.path_sigma)
        usual = length / np.sqrt(1 - (1 - c) ** (2 * self.generation))
        is_steady = usual < (1.4 + 2 / (n + 1)) * self.expected
        c = self.c_path
        self.path = (1 - c) * self.path + is_steady * np.sqrt(c * (2 - c) * self.mass) * step
        lost = (1 - is_steady) * c * (2 - c)
        kept = 1 - self.c_one - self.c_many + self.c_one * lost
        self.covariance = (
            kept * self.covariance
            + self.c_one * np.outer(self.path, self.path)
            + self.c_many * (best.T * self.weights) @ best
        )
        self.sigma *= float(np.exp(self.c_sigma / self.damping * (length / self.expected - 1)))


def _states(student: DistilledPolicy, seed: int) -> Array:
    """States that the student visits, (n, d)."""
    envs = make_evaluation_envs(str(student.env_id), 20, seed)
    seen: Any = envs.reset()
    found = []
    for _ in range(N_STATES // envs.num_envs):
        found.append(student.observations.read(seen)[0].astype(np.float64))
        seen, *_ = envs.step(student.act(found[-1]))
    envs.close()
    return np.concatenate(found)
