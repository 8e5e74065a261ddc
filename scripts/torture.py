"""Attack the package as a hostile user would, and print the outcomes.

python scripts/torture.py --minutes 60 --seed 0
python scripts/torture.py --only "edited files" --trials 20000
python scripts/torture.py --only "edited files" --number 1234     # repeat a single trial
python scripts/torture.py --soak 100000000
"""

from common.ending import run_and_exit

import sys
import time
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass

import tyro
from rich.console import Console
from rich.progress import Progress

from attacks import commands, environments, estimators, files, kills, learners, soak
from attacks.trials import BAD, FORBIDDEN, GOOD, Attack, Outcome, run_trials
from common.tables import make_console, print_line, show_table

# Each module has `ATTACKS` by name, and `prepare`. New attacks go into one of these, or into a new one.
MODULES = (files, estimators, environments, learners, commands, kills)
ATTACKS: dict[str, Attack] = {name: attack for one in MODULES for name, attack in one.ATTACKS.items()}
# Trials per forked child process.
BATCH = 500
# Bad outcomes of one kind, for each target, that are printed in full.
SHOWN = 5


@dataclass
class Args:
    """Attack files and more. Each trial can be reproduced from the seed and its number."""

    minutes: float = 60.0
    """Minutes in all, divided among the attacks."""
    trials: int | None = None
    """Trials of each attack, instead of a time limit."""
    seed: int = 0
    """Seed of every trial, together with its number."""
    only: tuple[str, ...] = ()
    """Names of attacks; by default all."""
    number: int | None = None
    """Only run the trial with this number."""
    soak: int = 0
    """Instead of attacks, learn this many samples and steps, and check that memory and speed hold."""
    models: tuple[str, ...] = ()
    """Beginnings of the names of the models to attack; by default all."""


def run_attack(name: str, args: Args, seconds: float, console: Console) -> list[Outcome]:
    """Run one attack until the time is over or all trials are done, with a progress bar."""
    attack, seed = ATTACKS[name], [args.seed, zlib.crc32(name.encode())]
    forbidden = FORBIDDEN if name in files.ATTACKS else ()
    end = time.monotonic() + seconds
    found: list[Outcome] = []
    number, trials = (args.number or 0), (1 if args.number is not None else args.trials)
    # Without a refresh thread, because children are forked meanwhile.
    with Progress(console=console, transient=True, auto_refresh=False) as progress:
        task = progress.add_task(name, total=args.trials)
        while len(found) < trials if trials is not None else time.monotonic() < end:
            most = BATCH if trials is None else min(BATCH, trials - len(found))
            for outcome in run_trials(attack, range(number, number + most), seed, forbidden):
                progress.update(task, advance=1, refresh=True)
                found.append(outcome)
                if trials is None and time.monotonic() >= end:
                    break
            number += most
    return found


def show(console: Console, name: str, found: list[Outcome]) -> int:
    """Print the table of one attack; returns how many trials ended badly."""
    by_target: dict[str, Counter[str]] = defaultdict(Counter)
    memory: dict[str, float] = defaultdict(float)
    for one in found:
        by_target[one.target][one.verdict] += 1
        memory[one.target] = max(memory[one.target], one.memory)
    total: Counter[str] = sum(by_target.values(), Counter())
    verdicts = [*GOOD, *(verdict for verdict in BAD if total[verdict])]
    rows = [
        [target, *(str(counts[verdict]) for verdict in verdicts), f"{memory[target]:.1f}"]
        for target, counts in sorted(by_target.items())
    ]
    rows.append(["all", *(str(total[verdict]) for verdict in verdicts), f"{max(memory.values()):.1f}"])
    show_table(console, f"{name}: {len(found)} trials", ["", *verdicts, "MB more"], rows)
    shown: Counter[tuple[str, str]] = Counter()
    for one in found:
        if one.verdict in BAD:
            shown[one.target, one.verdict] += 1
            if shown[one.target, one.verdict] <= SHOWN:
                text = f"{name} {one.number}, {one.target}: {one.verdict}: {one.detail}"
                print_line(console, text)
    return sum(total[verdict] for verdict in BAD)


def main(args: Args) -> int:
    """Run the attacks; returns 1 if anything ended badly."""
    console = make_console()
    if args.soak:
        return int(soak.soak(args.soak, args.models, console) > 0)
    names = list(args.only or ATTACKS)
    unknown = [name for name in names if name not in ATTACKS]
    if unknown:
        print(f"there is no attack {unknown[0]!r}; available are {', '.join(ATTACKS)}.", file=sys.stderr)
        return 2
    files.choose(args.models)
    for module in MODULES:
        if set(names) & set(module.ATTACKS):
            module.prepare()
    bad = 0
    for name in names:
        bad += show(console, name, run_attack(name, args, 60.0 * args.minutes / len(names), console))
    console.print("nothing went wrong" if bad == 0 else f"{bad} trials went wrong")
    return int(bad > 0)


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))
