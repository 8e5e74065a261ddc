"""Search for hyperparameters of our agents with Optuna.

python scripts/tune.py                                        # CartPole-v1, 30 trials
python scripts/tune.py --env-id Acrobot-v1 --n-trials 100 --n-jobs 2
python scripts/tune.py --dask tcp://scheduler:8786 --n-trials 1000
optuna-dashboard sqlite:///logs/tune.db                       # to watch it

The study is stored in a database. The same command continues it until it has `--n-trials` trials;
several commands may run at once on one study. At the end the best hyperparameters are compared with the
defaults, on seeds that the search did not use.
"""

from common.ending import INTERRUPTED, run_and_exit

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import gymnasium as gym
import optuna
import tyro
from optuna.pruners import HyperbandPruner
from optuna.samplers import RandomSampler, TPESampler
from optuna.trial import TrialState
from rich.console import Console
from sqlalchemy.exc import SQLAlchemyError

from benchmarks.comparison import Entry
from benchmarks.plans import DEFAULT, OURS, Plan, make_model
from benchmarks.runs import carry_out, make_progress, replace_file
from benchmarks.tasks import find_threshold
from benchmarks.training import warm_up
from benchmarks.tuning import Task, find_done, importances, open_storage, requeue_lost, search
from common.arguments import Count, Positive, check_lists, one_of, typed_again
from common.evaluation import reason_of
from common.search_spaces import Range, defaults_of, space_of, to_hyperparameters
from common.tables import make_console, print_line, return_text, show_table
from common.workers import Where, WorkersLostError, open_workers
from oda_rl.inspect.table import counted

# Name of the user attribute of a study with the task, and the options that its fields come from
TASK = "task"
OPTION_OF = {"agent": "algorithm", "episodes": "eval-episodes"}


@dataclass
class Args(Where):
    """Search for hyperparameters with Optuna: TPE, and Hyperband to prune unpromising trials.

    A trial is a training with several seeds, evaluated at intervals; its value is the mean return of the
    last greedy policies. The first trial has the defaults.
    """

    env_id: str = "CartPole-v1"
    """Environment; our agents are far faster on oda_rl/..., with compiled dynamics."""
    algorithm: Annotated[str, one_of(OURS)] = DEFAULT
    """The agent."""
    n_trials: Positive = 30
    """Number of trials in the study at the end, including pruned ones."""
    total_timesteps: Positive = 50_000
    """Environment steps of each training."""
    seeds: tuple[Count, ...] = (100, 101, 102)
    """Seeds of the trainings of a trial."""
    report_seeds: tuple[Count, ...] = tuple(range(10))
    """Other seeds, on which the best hyperparameters are compared with the defaults at the end; none for
    no comparison."""
    rungs: Positive = 9
    """Number of evaluations of a trial; it may be pruned after each."""
    eval_episodes: Positive = 20
    """Greedy episodes of each evaluation, for each seed."""
    sampler: Literal["tpe", "random"] = "tpe"
    """How the next hyperparameters are chosen."""
    seed: Count = 0
    """Seed of the sampler."""
    storage: str = "sqlite:///logs/tune.db"
    """Storage of the study, as a URL for Optuna."""
    study_name: str | None = None
    """Name of the study; by default made of the agent, environment, steps, seeds, rungs and episodes.
    All its trials have these in common: other values are refused."""
    log_dir: Path = Path("logs/tune")
    """Folder of the best hyperparameters, and of the runs of the comparison."""


def make_study(args: Args, task: Task, defaults: dict[str, Any]) -> optuna.Study:
    """Load or create the study; a new one tries the default hyperparameters first.

    Raises a ValueError if the trials of a stored study have another task.
    """
    seeds = map(str, task.seeds)
    sizes = ["rungs", str(task.rungs), "episodes", str(task.episodes)]
    name = args.study_name or "-".join(
        [task.agent, task.env_id, str(task.total_timesteps), "seeds", *seeds, *sizes]
    )
    study = optuna.create_study(
        study_name=name,
        storage=open_storage(args.storage),
        direction="maximize",
        load_if_exists=True,
        pruner=HyperbandPruner(min_resource=1, max_resource=task.rungs),
    )
    check_task(study, task)
    # With the same seed, a continued study would suggest the same again.
    seed = args.seed + len(study.get_trials(deepcopy=False))
    study.sampler = RandomSampler(seed) if args.sampler == "random" else TPESampler(seed=seed)
    if not study.get_trials(deepcopy=False):
        study.enqueue_trial(defaults)
    return study


def check_task(study: optuna.Study, task: Task) -> None:
    """Store the task in a new study; raise a ValueError if the trials of the study have another one."""
    given = {name: list(value) if name == "seeds" else value for name, value in asdict(task).items()}
    kept = study.user_attrs.get(TASK)
    if kept is None:
        if study.get_trials(deepcopy=False):
            raise ValueError(
                f"The study {study.study_name} does not contain its --env-id and the other arguments of "
                "its trials; give another --study-name."
            )
        study.set_user_attr(TASK, given)
        return
    differing = [
        f"--{OPTION_OF.get(name, name.replace('_', '-'))} {typed_value(kept[name])} "
        f"(got {typed_value(value)})"
        for name, value in given.items()
        if kept[name] != value
    ]
    if differing:
        raise ValueError(
            f"The trials of the study {study.study_name} have {', '.join(differing)}; give the same, or "
            "another --study-name."
        )


def typed_value(value: Any) -> str:
    """The value of an option as it is typed."""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def find_mistake(args: Args) -> str | None:
    """What is wrong with the arguments, if anything."""
    if mistake := check_lists(args, "report_seeds"):
        return mistake
    both = sorted(set(args.seeds) & set(args.report_seeds))
    if both:
        return (
            f"--report-seeds must differ from --seeds, which are used for the search; got {both[0]} "
            "in both."
        )
    if args.total_timesteps < args.rungs:
        return f"--total-timesteps must be at least --rungs, {args.rungs}, got {args.total_timesteps}."
    return None


def prepare(args: Args) -> tuple[Task, dict[str, Range], dict[str, Any]]:
    """Return the task, its search space, and the parameters of the first trial.

    Raises a ValueError, an ImportError or an error of Gymnasium if there is no such task.
    """
    mistake = find_mistake(args)
    if mistake is not None:
        raise ValueError(mistake)
    model = make_model(Plan(args.algorithm, args.env_id, args.total_timesteps), 0)
    model.get_env().close()
    model.learner.set_horizon(args.total_timesteps)
    task = Task(
        args.algorithm, args.env_id, args.total_timesteps, args.seeds, args.rungs, args.eval_episodes
    )
    return task, space_of(model), defaults_of(model)


def run_trials(
    study: optuna.Study, task: Task, space: dict[str, Range], args: Args, console: Console
) -> str | None:
    """Run the trials; returns why the search ended early, if it did."""
    try:
        if args.dask is None:  # compiled once, not by every process
            warm_up(Plan(task.agent, task.env_id, task.total_timesteps))
        with open_workers(args) as workers, make_progress(console) as progress:
            bar = progress.add_task("trials", total=args.n_trials, completed=len(find_done(study)))
            for trial in search(study, task, space, args.n_trials, workers):
                progress.advance(bar)
                # a pruned one has the value of its last rung
                complete = trial.state is TrialState.COMPLETE
                ended = return_text(trial.value) if complete else "pruned"
                print_line(console, f"  trial {trial.number}: {ended}")
    except KeyboardInterrupt:
        return "Interrupted"
    except WorkersLostError as error:
        return f"Ended early: {error}"
    except Exception as error:  # for example, a process was killed
        return f"Ended early ({type(error).__name__}: {str(error).strip().partition(chr(10))[0]})"
    return None


def compare(options: dict[str, Any], task: Task, args: Args, console: Console) -> None:
    """Compare the best hyperparameters with the defaults, on seeds that the search did not use."""
    every = max(1, task.total_timesteps // 10)
    plans = [
        Plan(task.agent, task.env_id, task.total_timesteps, every, options=one) for one in ({}, options)
    ]
    made = carry_out(plans, args.report_seeds, args.log_dir / "runs", console, args)
    rows = []
    for name, plan, runs in zip(("defaults", "found"), plans, made.runs, strict=True):
        if runs:
            entry = Entry(plan, runs, find_threshold(task.env_id))
            returns = return_text(entry.iqm), return_text(min(entry.returns))
            rows.append([name, *returns, f"{len(runs)}", f"{entry.median('cells'):.0f}"])
    title = "On seeds that the search did not use"
    show_table(console, title, ("", "IQM of returns", "worst", "seeds", "cells"), rows)


def show(study: optuna.Study, args: Args, console: Console) -> dict[str, Any]:
    """Print the best trial and the importance of each hyperparameter; writes and returns the values."""
    best = study.best_trial
    options = to_hyperparameters(best.params)
    matters = importances(study)
    rows = [
        (name, f"{value:.6g}", f"{matters[noted]:.2f}" if matters else "-")
        for noted, (name, value) in zip(best.params, options.items(), strict=True)
    ]
    print_line(console, study.study_name)
    title = f"trial {best.number}: {return_text(best.value)}"
    show_table(console, title, ("hyperparameter", "best", "importance"), rows)
    args.log_dir.mkdir(parents=True, exist_ok=True)
    content = {"study": study.study_name, "value": best.value, "hyperparameters": options}
    path = args.log_dir / f"{study.study_name.replace('/', '-')}.json"
    replace_file(path, json.dumps(content, indent=2) + "\n")
    print_line(console, f"written to {path}")
    return options


def print_next(options: dict[str, Any], task: Task, args: Args, console: Console) -> None:
    """Print commands to type next."""
    typed = " ".join(f"--{name.replace('_', '-')} {value:.6g}" for name, value in options.items())
    console.print("Next, for example:")
    for command in (
        f"python scripts/train.py --algorithm {task.agent} --env-id {task.env_id} {typed}",
        typed_again("tune", n_trials=[2 * args.n_trials]),
        f"optuna-dashboard {quote(args.storage)}",
    ):
        print_line(console, f"  {command}")


def main(args: Args) -> int:
    """Search, compare, print."""
    console = make_console()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        task, space, defaults = prepare(args)
    except (ValueError, ImportError, gym.error.Error) as error:
        print_line(console, reason_of(error))
        return 2
    try:
        study = make_study(args, task, defaults)
    except (ImportError, SQLAlchemyError) as error:
        reason = str(error).partition("\n")[0]
        print_line(console, f"The study cannot be stored in {args.storage}: {reason}")
        return 2
    except ValueError as error:
        print_line(console, str(error))
        return 2
    again = requeue_lost(study)
    if again:
        print_line(console, f"{counted(again, 'trial')} of an ended process will be repeated.")
    early = run_trials(study, task, space, args, console)
    if early:
        print_line(console, f"{early}. Finished trials are kept; the same command continues.")
    code = INTERRUPTED if early == "Interrupted" else int(early is not None)
    done = find_done(study)
    if not any(trial.state is TrialState.COMPLETE for trial in done):
        if not early:
            print_line(console, f"No trial is complete: {counted(len(done), 'trial')} pruned.")
        return code or 1
    options = show(study, args, console)
    if args.report_seeds and not early:
        compare(options, task, args, console)
    print_next(options, task, args, console)
    return code


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
