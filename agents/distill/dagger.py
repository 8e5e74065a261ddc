"""Distil any policy into a small table of cells that imitates it."""

from contextlib import closing
from typing import Any

import numpy as np
from stable_baselines3.common.utils import configure_logger

from oda_rl._validation import whole_number
from oda_rl.agents.distill.fitting import FOR_PREFERENCES, Form, Records, find_form, fit_program
from oda_rl.agents.distill.play import Judge, Recorder, StatesJudge
from oda_rl.agents.distill.policy import DistilledPolicy
from oda_rl.agents.distill.teacher import Teacher
from oda_rl.agents.policy_program import PolicyProgram
from oda_rl.agents.sb3.env_origin import find_plain_id


def distill(
    teacher: Any,
    env: str,
    *,
    seed: int = 0,
    tensorboard_log: str | None = None,
    verbose: int = 0,
    **options: Any,
) -> DistilledPolicy:
    """Distil a policy, the teacher, into a small table of cells that imitates it.

    The method is DAgger. The first table is fitted to the teacher's actions in the states that the
    teacher itself visits. Each later round adds the teacher's actions in the states that the previous
    table visits, and fits a new table to everything recorded so far. In the end coarser tables, with
    half as many cells and so on, are fitted to all records. Each state is weighted by what is at stake
    in it: the range of the teacher's Q values, or of its log-probabilities (VIPER).

    The table with the best mean return is kept. With `judge="states"` it is the table that loses least,
    by these values, in states that the teacher visits in other episodes, where one step in ten is
    random. Of equally good tables the one with the fewest numbers is kept.

    Parameters
    ----------
    teacher : object
        An agent of this package, a model of SB3, anything else with SB3's `predict`, or a callable that
        returns the action for one observation.
    env : str
        Id of the environment, of which copies are made. For one with wrappers or keyword arguments,
        register a function that makes it.
    seed : int, default=0
        Same seed, same result.
    tensorboard_log : str, optional
        Folder for TensorBoard.
    verbose : int, default=0
        0: silent, 1: logs to the terminal.
    **options
        Hyperparameters of `DistilledPolicy`: `max_cells`, `rounds`, and others.

    Returns
    -------
    DistilledPolicy

    Raises
    ------
    TypeError, ValueError
        If the teacher is not a policy, `env` is an environment that its id alone does not make again,
        its spaces are not supported, or an option is unknown or has a value that is not accepted.

    References
    ----------
    Ross, Gordon and Bagnell, "A Reduction of Imitation Learning and Structured Prediction to No-Regret
    Online Learning", AISTATS 2011; Bastani, Pu and Solar-Lezama, "Verifiable Reinforcement Learning via
    Policy Extraction", NeurIPS 2018, Algorithm 1.

    Examples
    --------
    >>> upright = lambda observation: int(observation[2] + 0.3 * observation[3] > 0)
    >>> student = distill(upright, "CartPole-v1", max_cells=1, rounds=2, steps_per_round=500)
    >>> int(student.predict([0.0, 0.0, 0.05, 0.0])[0]), student.n_cells
    (1, 1)
    """
    seed = whole_number("seed", seed, 0)
    student = DistilledPolicy(
        env=env, seed=seed, tensorboard_log=tensorboard_log, verbose=verbose, **options
    )
    with closing(Distillation(teacher, student)) as work:
        return work.run().student


class Distillation:
    """Fits tables round by round to the teacher's actions in states that the previous tables visit.

    Parameters
    ----------
    teacher : object
        See `distill`.
    student : DistilledPolicy
        Must have an environment; it receives the tables.

    Attributes
    ----------
    records : Records
        A sample of the recorded states, with the teacher's actions and their weights.
    form : Form
        Form of the best table.
    best : float
        Score of the best table: its mean return, or the result of `StatesJudge`.
    """

    def __init__(self, teacher: Any, student: DistilledPolicy) -> None:
        self.student, self.config = student, student.config
        self.rng = np.random.default_rng(student.seed)
        env_id = find_plain_id(student, "env")
        asked = Teacher(teacher, student.observations, student.actions)
        self.name = f"{type(teacher).__name__} on {env_id}, distilled"
        config: Any = self.config
        first = int(self.rng.integers(2**30))
        self.recorder = Recorder(asked, env_id, config.n_copies, first)
        self.judge: Judge | StatesJudge = Judge(env_id, config.eval_episodes, first)
        if config.judge == "states":
            self.judge = StatesJudge(asked, env_id, config.n_copies, first, config.steps_per_round)
        self.blank: PolicyProgram = student.learner.program
        self.best, self.form = -np.inf, Form.single(len(self.blank.scale), True)
        self.records: Records
        self._kept: Any = None
        self._numbers = 0

    def run(self) -> "Distillation":
        """Run all rounds, and leave the best table in the student."""
        student, config = self.student, self.config
        student.set_logger(
            configure_logger(student.verbose, student.tensorboard_log, type(student).__name__)
        )
        for i in range(config.rounds):
            agreement = self.record(student.act if i else None)
            self._log(self._consider(config.max_cells), agreement)
        # a coarser table can turn out better than a finer one
        n_cells = config.max_cells // 2
        while n_cells >= 1:
            self._log(self._consider(n_cells))
            n_cells //= 2
        student.learner.set_state(self._kept)
        return self

    def _consider(self, n_cells: int) -> float:
        """Fit a table of at most `n_cells` cells, and keep it if it is the best; returns its score."""
        form = find_form(self.records, n_cells, self.config, self.rng)
        found, numbers = self.fit_and_score(form), self.student.n_parameters
        if (found, -numbers) > (self.best, -self._numbers):
            self.best, self.form, self._numbers = found, form, numbers
            self._kept = self.student.learner.get_state()
        return found

    def record(self, act: Any = None) -> float:
        """Record the teacher's actions in the states that `act` leads to; if None, the teacher acts.

        Returns the share of actions taken that equal the teacher's.
        """
        steps = self.config.steps_per_round
        agreement = self.recorder.play(act, steps)
        self.student.num_timesteps += steps
        self.records = self.recorder.records.sample(FOR_PREFERENCES, self.rng)
        return agreement

    def fit_and_score(self, form: Form) -> float:
        """Fit a table of this form to the records, and give it to the student; returns its score."""
        learner, records = self.student.learner, self.records
        program, known = fit_program(form, records, self.blank, self.name)
        learner.use_program(program, known, records.states)
        return self.judge(self.student)

    def close(self) -> None:
        """Close the environments."""
        self.recorder.close()
        self.judge.close()

    def _log(self, found: float, agreement: float = np.nan) -> None:
        logger = self.student.logger
        by_return = self.config.judge == "return"
        logger.record("rollout/ep_rew_mean" if by_return else "distill/kept", found)
        if not np.isnan(agreement):
            logger.record("distill/agreement", agreement)
        logger.record("distill/best_mean_reward" if by_return else "distill/best_kept", self.best)
        logger.record("codebook/cells", self.student.n_cells)
        logger.record("distill/numbers", self.student.n_parameters)
        logger.dump(self.student.num_timesteps)
