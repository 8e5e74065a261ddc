"""Training runs that are stored as they end, so that a long table can be interrupted and resumed."""

import csv
import io
import json
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from benchmarks.plans import SB3, Plan, code_version
from benchmarks.tasks import short_name
from benchmarks.training import Run, Trained, try_to_train, warm_up
from common import ending
from common.tables import print_line
from common.workers import Where, WorkersLostError, open_workers
from oda_rl.storage import written_whole

INTERRUPTED = "Interrupted. The same command runs only what is missing."
Job = tuple[int, int]
"""Number of the plan, and seed."""


@dataclass
class Made:
    """The requested runs, as far as they exist."""

    runs: list[list[Run]]
    """Runs of each plan, in the order of the seeds."""
    failures: list[str] = field(default_factory=list)
    """A line for each run that failed."""
    interrupted: bool = False
    """Whether Ctrl-C has interrupted them."""

    def exit_code(self) -> int:
        """130 if Ctrl-C has interrupted the runs, 1 if one of them failed, and else 0."""
        return ending.INTERRUPTED if self.interrupted else int(bool(self.failures))


def replace_file(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name, then rename it."""
    with written_whole(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def keep(plan: Plan, folder: Path, run: Run, files: dict[str, bytes]) -> None:
    """Store one run: the model, the curve as CSV, and, after these, everything as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"seed-{run['seed']}"
    for suffix, content in files.items():
        replace_file(folder / f"{stem}{suffix}", content)
    replace_file(folder / f"{stem}.csv", curve_csv(run))
    about = {**asdict(plan), "code": code_version(plan.algorithm), "finished": time.time()}
    text = json.dumps({"plan": about, "run": run}, indent=1, default=list)
    replace_file(folder / f"{stem}.json", text + "\n")


def curve_csv(run: Run) -> str:
    """The evaluations of a run: steps, seconds of training, mean, and the return of every episode."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    episodes = len(run["curve_returns"][0]) if run["curve_returns"] else 0
    writer.writerow(["steps", "seconds", "mean", *(f"episode_{i + 1}" for i in range(episodes))])
    points = zip(run["steps"], run["curve_seconds"], run["curve"], run["curve_returns"], strict=True)
    for steps, seconds, mean, returns in points:
        writer.writerow([steps, f"{seconds:.4f}", mean, *returns])
    return text.getvalue()


def find_kept(folder: Path, seeds: Sequence[int]) -> dict[int, Run]:
    """Read the stored runs of a plan, by seed; files that cannot be read are ignored."""
    found = {}
    for seed in seeds:
        with suppress(FileNotFoundError, ValueError):
            found[seed] = _read_kept(folder / f"seed-{seed}.json")[-1]
    return found


def _read_kept(path: Path) -> tuple[Plan, str, float, Run]:
    """Read a stored run: its plan, the version of the code, when it ended, and the run.

    Raises a ValueError if the file is damaged, and an OSError if it cannot be read.
    """
    text = path.read_bytes()
    try:
        kept = json.loads(text)
        about, run = kept["plan"], kept["run"]
        code, finished = str(about.pop("code")), float(about.pop("finished"))
        for name in ("seed", "mean", "numbers"):
            float(run[name])
        return Plan(**about), code, finished, run
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {error!r}") from None


def read_newest(log_dir: Path, console: Console) -> list[tuple[Plan, list[Run], bool]]:
    """Return all plans with stored runs, these runs, and whether the present code has made them.

    If several versions of the code have made runs of a plan, these are the runs of the newest version.
    Files that cannot be read are left out, and named.
    """
    groups: dict[str, dict[str, list[tuple[float, Run]]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(log_dir.glob("*/*/seed-*.json")):
        try:
            plan, code, finished, run = _read_kept(path)
        except (OSError, ValueError) as error:
            print_line(console, f"A stored run is left out: {error}")
            continue
        groups[json.dumps(asdict(plan), sort_keys=True)][code].append((finished, run))
    found = []
    for key, versions in groups.items():
        plan = Plan(**json.loads(key))
        code = max(versions, key=lambda code: max(finished for finished, _ in versions[code]))
        runs = sorted((run for _, run in versions[code]), key=lambda run: run["seed"])
        found.append((plan, runs, code == code_version(plan.algorithm)))
    return found


def carry_out(
    plans: Sequence[Plan],
    seeds: Sequence[int],
    log_dir: Path,
    console: Console,
    where: Where,
    fresh: bool = False,
    say_runs: bool = False,
) -> Made:
    """Make the runs of all plans and seeds that are not stored under `log_dir`, with a progress bar.

    With `fresh`, make all runs. When a run ends, it is stored and, with `say_runs`, a line is printed.
    """
    made = Made([])
    if not plans:
        return made
    folders = [plan.folder(log_dir) for plan in plans]
    found = [{} if fresh else find_kept(folder, seeds) for folder in folders]
    missing = [(i, seed) for seed in seeds for i in range(len(plans)) if seed not in found[i]]
    first = f"{plans[0].algorithm} on {short_name(plans[0].env_id)}, seeds"
    try:
        with make_progress(console) as progress, closing(_make(plans, missing, where)) as results:
            bar = progress.add_task(
                first if len(plans) == 1 else "runs",
                total=len(plans) * len(seeds),
                completed=sum(map(len, found)),
            )
            for (i, seed), (run, files, error) in results:
                if run is None:
                    made.failures.append(_note(plans[i], folders[i], seed, error, console))
                else:
                    keep(plans[i], folders[i], run, files)
                    found[i][seed] = run
                    if say_runs:
                        _print_run(plans[i], run, console)
                progress.advance(bar)
    except KeyboardInterrupt:
        made.interrupted = True
    except WorkersLostError as error:
        made.failures.append(f"No worker can train: {error}")
        console.print(made.failures[-1], style="red", highlight=False)
    made.runs = [[own[seed] for seed in seeds if seed in own] for own in found]
    return made


def _print_run(plan: Plan, run: Run, console: Console) -> None:
    """Print a line on a run that has ended."""
    console.print(
        f"  {plan.algorithm} on {plan.env_id}, seed {run['seed']}: return {run['mean']:.1f} "
        f"after {run['seconds']:.1f} s of training",
        highlight=False,
        soft_wrap=True,
    )


def make_progress(console: Console) -> Progress:
    """Make a progress bar of the runs, which is not shown if the output is not a terminal."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _note(plan: Plan, folder: Path, seed: int, error: str, console: Console) -> str:
    """Store the traceback of a run that failed; print and return a line on it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{seed}.error.txt"
    replace_file(path, error)
    lines = error.strip().splitlines()
    last = max((i for i, line in enumerate(lines) if line.startswith(" ")), default=-1)
    reason = " ".join(lines[last + 1 :])  # the error and the notes on it
    line = f"{plan.algorithm} on {short_name(plan.env_id)}, seed {seed}, failed: {reason}"
    console.print(line, style="red", highlight=False, soft_wrap=True)
    print_line(console, f"  The traceback is in {path}")
    return line


def _make(
    plans: Sequence[Plan], missing: list[Job], where: Where
) -> Generator[tuple[Job, Trained], None, None]:
    """Yield the runs as they end."""
    if where.dask is None:
        _compile(plans, missing)
    work = {(i, seed): partial(try_to_train, plans[i], seed) for i, seed in missing}
    with open_workers(where, len(work)) as workers, closing(workers.results(work)) as results:
        for job, future in results:
            error = future.exception()  # of the worker; a run returns its own error
            if error is None:
                yield job, future.result()
            elif type(error).__name__ == "KilledWorker":
                yield job, (None, {}, f"several workers were lost while they made it: {error}")
            else:
                raise WorkersLostError(str(error).strip().partition("\n")[0]) from error


def _compile(plans: Sequence[Plan], missing: list[Job]) -> None:
    """Compile what runs need here, as processes that start at the same time would all compile it."""
    for i in sorted({i for i, _ in missing}):
        if plans[i].algorithm not in SB3:
            try:
                warm_up(plans[i])
            except Exception:  # the run will report it
                continue


def write_csv(path: Path, rows: Sequence[tuple[Plan, Run]]) -> None:
    """Write a line for each run, without its curve."""
    names = ("algorithm", "env_id", "total_timesteps")
    numbers = ("seed", "mean", "sd", "cells", "numbers", "seconds", "file_bytes", "decision")
    with written_whole(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, *numbers])
        for plan, run in rows:
            writer.writerow([*(getattr(plan, n) for n in names), *(run.get(n, "") for n in numbers)])
