"""Speed-up with 1, 2 and 4 workers, of joblib's processes and of Dask; the load of a Dask scheduler."""

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import cloudpickle
import numpy as np
from rich.console import Console

from benchmarks.plans import Plan
from benchmarks.training import Run, try_to_train
from common.arguments import NonNegative, Positive
from common.measuring import timed
from common.tables import show_table
from common.workers import Cluster, Where, Workers, by_value, open_workers

QUIET = {"DASK_LOGGING__DISTRIBUTED": "error"}
# Without these options, workers profile their code every 10 ms and monitor themselves every 20 ms
CALM: dict[str, Any] = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
}
# Program that runs many single-threaded workers in one process; all their tasks sleep
SLEEPERS = """
import asyncio, sys
from distributed import Worker
async def main():
    address, n = sys.argv[1], int(sys.argv[2])
    workers = [await Worker(address, nthreads=1, dashboard_address=None) for _ in range(n)]
    await asyncio.gather(*(worker.finished() for worker in workers))
asyncio.run(main())
"""


@dataclass
class Scale:
    """Measure the speed-up with workers, and the load of a scheduler with a hundred sleeping workers."""

    counts: tuple[Positive, ...] = (1, 2, 4)
    """Numbers of workers."""
    runs: Positive = 16
    """Training runs of one agent, each with another seed."""
    total_timesteps: Positive = 200_000
    """Environment steps of each run."""
    machines: Positive = 100
    """Workers of the simulated cluster, 50 in each process."""
    tasks: Positive = 10_000
    """Tasks for the simulated cluster."""
    seconds: NonNegative = 1.0
    """Seconds that each task sleeps."""


@contextmanager
def local_cluster(n: int) -> Iterator[Workers]:
    """Dask workers in processes of one thread, configured as docs/guides/cluster.md advises."""
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set(CALM),
        LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield Cluster(client)


def without_times(run: Run) -> Any:
    """Return what must be the same wherever a run is made: all but measured times."""
    return {k: v for k, v in run.items() if "seconds" not in k and k != "decision"}


def train_all(workers: Workers, plan: Plan, seeds: range) -> dict[int, Any]:
    """Make the runs of all seeds."""
    work = {seed: partial(try_to_train, plan, seed) for seed in seeds}
    return {seed: without_times(future.result()[0]) for seed, future in workers.results(work)}


def show_speedup(args: Scale, console: Console) -> None:
    """Print the seconds of the same runs with joblib and with Dask."""
    plan = Plan("TwoTimescaleAC", "oda_rl/CartPole-v1", args.total_timesteps, 0)
    first, rows = None, []
    for n in args.counts:
        seconds = {}
        # Times do not include the start and the imports of the workers
        for name, made in (("joblib", open_workers(Where(n))), ("Dask", local_cluster(n))):
            with made as workers:
                train_all(workers, plan, range(1000, 1000 + 4 * n))
                found, seconds[name] = timed(train_all, workers, plan, range(args.runs))
            first = first or found
            assert found == first, f"{name} with {n} workers gave different results."
        ratio = seconds["Dask"] / seconds["joblib"]
        rows.append((str(n), *(f"{s:.1f}" for s in seconds.values()), f"{ratio:.2f}"))
    console.print(f"{args.runs} runs of {args.total_timesteps:,} steps: the same results with all.")
    columns = ("workers", "joblib, s", "Dask, s", "ratio")
    show_table(console, "The same work", columns, rows)


def show_sizes(console: Console) -> None:
    """Print how many bytes a task and its result have."""
    plan = Plan("TwoTimescaleAC", "oda_rl/CartPole-v1", 20_000)
    function: Callable[[], Any] = partial(try_to_train, plan, 0)
    sent, back = len(cloudpickle.dumps(by_value(function))), len(pickle.dumps(function()))
    console.print(f"A training run as a task: {sent:,} bytes sent, {back:,} bytes back.")


@contextmanager
def sleeping_cluster(machines: int) -> Iterator[Any]:
    """Yield a client of a scheduler in its own process, which has many workers in a few others."""
    from distributed import Client
    from distributed.deploy.subprocess import SubprocessCluster

    with SubprocessCluster(n_workers=0, scheduler_kwargs={"dashboard": False}) as cluster:
        address, begun = cluster.scheduler_address, []
        try:
            for first in range(0, machines, 50):
                command = [sys.executable, "-c", SLEEPERS, address, str(min(50, machines - first))]
                begun.append(subprocess.Popen(command, env=os.environ | QUIET))
            with Client(cluster) as client:
                client.wait_for_workers(machines, timeout=120)
                yield client
        finally:
            for process in begun:
                process.terminate()
                process.wait()


def show_load(args: Scale, console: Console) -> None:
    """Print the load of scheduler and client with sleeping tasks on a cluster of many workers."""
    with sleeping_cluster(args.machines) as client:
        cluster = Cluster(client)
        work = {i: partial(time.sleep, args.seconds) for i in range(args.tasks)}
        before, own = client.run_on_scheduler(time.process_time), time.process_time()
        done, seconds = timed(lambda: sum(1 for _ in cluster.results(work)))
        scheduler = client.run_on_scheduler(time.process_time) - before
        own = time.process_time() - own
    least = np.ceil(args.tasks / args.machines) * args.seconds
    rows = (
        ("seconds by the clock", f"{seconds:.1f}"),
        ("share of them in which workers slept", f"{least / seconds:.2f}"),
        ("scheduler, ms of CPU for a task", f"{1e3 * scheduler / done:.2f}"),
        ("scheduler, share of a core", f"{scheduler / seconds:.2f}"),
        ("client, ms of CPU for a task", f"{1e3 * own / done:.2f}"),
        ("client, share of a core", f"{own / seconds:.2f}"),
    )
    title = f"{done:,} tasks of {args.seconds:g} s on {args.machines} workers"
    show_table(console, title, ("", ""), rows)


def run_scale(args: Scale, console: Console) -> None:
    """Print the tables of `benchmark.py scale`."""
    show_sizes(console)
    show_load(args, console)
    show_speedup(args, console)
