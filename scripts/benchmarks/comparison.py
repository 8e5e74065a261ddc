"""Results of each algorithm on each environment, and the tables of a comparison."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from benchmarks.plans import OURS, RANDOM, SB3, Plan, RandomAgent
from benchmarks.training import EVALUATION_SEED, Evaluation, Run
from common.measuring import first_pass_and_hold, interquartile_mean, interval
from common.tables import interval_text, plain, seconds_text, steps_text
from oda_rl._types import Array
from oda_rl.inspect.table import counted

RANDOM_EPISODES = 50
NOT_FOR_THIS = "not for this environment"


@dataclass
class Entry:
    """The runs of one algorithm on one environment."""

    plan: Plan
    runs: list[Run]
    threshold: float
    """Return that counts as solved; infinite if there is none."""
    label: str = ""
    """Name in tables if one algorithm is there several times, or if several share a column."""

    @property
    def algorithm(self) -> str:
        """Name in tables."""
        return self.label or self.plan.algorithm

    @cached_property
    def returns(self) -> Array:
        """Mean return of the greedy episodes at the end of each run."""
        return self.values("mean")

    def values(self, name: str) -> Array:
        """The value `name` of every run."""
        return np.array([run[name] for run in self.runs], dtype=np.float64)

    def median(self, name: str) -> float:
        """The median of a value over the runs."""
        return float(np.median(self.values(name)))

    @property
    def iqm(self) -> float:
        """The interquartile mean of the returns."""
        return float(interquartile_mean(self.returns))

    def curves(self, name: str) -> Array:
        """`steps`, `curve` or `curve_seconds` of all runs that have a curve, (runs, evaluations)."""
        runs = [run for run in self.runs if len(run["steps"]) > 0] or self.runs
        length = min(len(run["steps"]) for run in runs)
        return np.array([run[name][:length] for run in runs], dtype=np.float64)

    def to_threshold(self, name: str) -> Array:
        """`steps` or `curve_seconds` to the first evaluation at the threshold, infinite without one."""
        firsts = [first_pass_and_hold(run["curve"], self.threshold)[0] for run in self.runs]
        found = [np.inf if i is None else run[name][i] for run, i in zip(self.runs, firsts, strict=True)]
        return np.array(found, dtype=np.float64)

    def holds(self) -> Array:
        """The share of the evaluations from the first at the threshold on that stay at it."""
        return np.array([first_pass_and_hold(run["curve"], self.threshold)[1] for run in self.runs])


@dataclass
class Field:
    """One environment, and the runs on it."""

    env_id: str
    threshold: float
    best: float = np.nan
    """The best return known; NaN if none is."""
    entries: list[Entry] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Algorithms that cannot be run on it, and why."""

    @cached_property
    def random_return(self) -> float:
        """Mean return of random actions."""
        entry = self.find(RANDOM)
        if entry is not None:
            return float(entry.returns.mean())
        evaluation = Evaluation(self.env_id, RANDOM_EPISODES, EVALUATION_SEED)
        returns = evaluation.play(RandomAgent(self.env_id, EVALUATION_SEED))
        evaluation.close()
        return float(returns.mean())

    @cached_property
    def full_return(self) -> float:
        """Return with a score of 1: the best known, else the threshold, else that of the best run."""
        if not np.isnan(self.best):
            return self.best
        if np.isfinite(self.threshold):
            return self.threshold
        return max(float(entry.returns.max()) for entry in self.entries)

    def find(self, algorithm: str) -> Entry | None:
        """The runs of an algorithm, or None."""
        return next((entry for entry in self.entries if entry.algorithm == algorithm), None)

    def normalize(self, returns: Array) -> Array:
        """Returns as scores: 0 for random actions, 1 for `full_return`."""
        span = self.full_return - self.random_return
        return (returns - self.random_return) / (span if span > 0 else 1.0)


def mean_text(value: float, digits: int = 1) -> str:
    """Format a return, without decimals from 1000 on."""
    return plain(value, 0 if abs(value) >= 1000 else digits)


def kilobytes(count: float) -> str:
    """Format bytes as kB, with one decimal below 1 MB."""
    return f"{count / 1000:,.{0 if count >= 1e6 else 1}f}"


def is_ours(algorithm: str) -> bool:
    """Whether a name is that of a two-timescale agent, or "ours" as in a comparison."""
    return algorithm == "ours" or algorithm in OURS


def title_of(algorithm: str) -> str:
    """Name of an algorithm, with a mark on our agents."""
    return f"{algorithm} (ours)" if algorithm in OURS else algorithm


def field_rows(one: Field) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table of one environment."""
    aim = f"{one.threshold:g}" if np.isfinite(one.threshold) else "solved"
    header = [
        *("algorithm", "IQM (95 % interval)", "mean", f"steps\nto {aim}", f"seconds\nto {aim}"),
        *(f"runs\nat {aim}", "numbers\nstored", "file,\nkB", "us per\naction", "seconds\nin all"),
    ]
    rows = []
    for entry in one.entries:
        steps = entry.to_threshold("steps")
        rows.append(
            [
                entry.algorithm,
                interval_text(entry.iqm, *interval([entry.returns])),
                mean_text(float(entry.returns.mean())),
                steps_text(float(np.median(steps))),
                seconds_text(float(np.median(entry.to_threshold("curve_seconds")))),
                f"{np.isfinite(steps).sum()}/{len(steps)}",
                f"{entry.median('numbers'):,.0f}",
                kilobytes(entry.median("file_bytes")),
                f"{entry.median('decision'):.0f}",
                seconds_text(entry.median("seconds")),
            ]
        )
    rows += [[name, NOT_FOR_THIS, *[""] * 8] for name in one.left_out]
    return header, rows


def pooled(fields: Sequence[Field], algorithm: str) -> list[Array]:
    """The normalised scores of an algorithm, one array for each environment that it was run on."""
    return [one.normalize(entry.returns) for one in fields if (entry := one.find(algorithm))]


def algorithms_of(fields: Sequence[Field]) -> list[str]:
    """Names of all algorithms that were run, each once."""
    return list(dict.fromkeys(entry.algorithm for one in fields for entry in one.entries))


def pooled_rows(fields: Sequence[Field], beside: str = "") -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table over all environments.

    With `beside`, each row also has the results of this algorithm on the row's environments.
    """
    columns = ["IQM (95 % interval)", "mean", "seconds"]
    rows = []
    for algorithm in algorithms_of(fields):
        own = [one for one in fields if one.find(algorithm)]
        runs = sum(len(stratum) for stratum in pooled(own, algorithm))
        row = [algorithm, f"{len(own)} of {len(fields)}", str(runs), *pooled_cells(own, algorithm)]
        if beside:
            row += pooled_cells([one for one in own if one.find(beside)], beside)
        rows.append(row)
    header = ["algorithm", "environments", "runs", *columns]
    return header + [f"{beside} there:\n{name}" for name in columns if beside], rows


def pooled_cells(fields: Sequence[Field], algorithm: str) -> list[str]:
    """IQM of the scores with its interval, their mean, and the environments' median seconds in total."""
    strata = pooled(fields, algorithm)
    if not strata:
        return ["-"] * 3
    scores = np.concatenate(strata)
    seconds = sum(entry.median("seconds") for one in fields if (entry := one.find(algorithm)))
    text = interval_text(interquartile_mean(scores), *interval(strata), digits=2)
    return [text, mean_text(float(scores.mean()), 2), seconds_text(seconds)]


def field_title(one: Field) -> str:
    """Title of the table of an environment."""
    plans = [entry.plan for entry in one.entries]
    return f"{one.env_id}, {plans[0].total_timesteps:,} steps" if plans else one.env_id


POOLED_TITLE = "All environments, scores normalised: 0 is a random agent, 1 the threshold"


def notes_of(fields: Sequence[Field]) -> list[str]:
    """Notes on the columns of the tables."""
    plans = [entry.plan for one in fields for entry in one.entries]
    episodes = counted(plans[0].eval_episodes, "greedy episode")
    notes = [
        f"IQM and mean: over seeds, of the means of {episodes} with the "
        "last policy, not the best; the interval is a stratified bootstrap of 95 %.",
        "steps, seconds: of training, without the time for evaluations, to the first evaluation of 20 "
        f"greedy episodes (one every {plans[0].eval_freq:,} steps) at the threshold; median over seeds.",
        "numbers: stored in the policy, a critic included; file: the saved model; us: microseconds from "
        "an observation to an action, the least of ten times. Medians over seeds.",
    ]
    return notes + [
        f"{plan.algorithm} on {plan.env_id}: SB3's defaults, as RL Zoo lists nothing for it."
        for plan in plans
        if plan.algorithm in SB3 and not plan.options
    ]


def left_out_of(fields: Sequence[Field]) -> list[str]:
    """A line for each algorithm that cannot be run on an environment."""
    return [
        f"{algorithm} is not for {one.env_id}: {reason}"
        for one in fields
        for algorithm, reason in one.left_out.items()
    ]
