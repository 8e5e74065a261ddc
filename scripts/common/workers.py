"""Run functions in this process, in several local processes, or on the workers of a Dask cluster."""

import asyncio
import importlib
import os
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import cloudpickle
from joblib import effective_n_jobs, wrap_non_picklable_objects
from joblib.externals.loky import ProcessPoolExecutor
from rich.console import Console
from rich.progress import track

from common.arguments import Jobs
from common.processes import begin_worker

Key = TypeVar("Key")
# Modules of these scripts, which the workers of a cluster need not have
OWN = ("benchmarks", "common", "sb3_zoo")
# Seconds without any worker after which a cluster is given up
PATIENCE = 60.0


@dataclass
class Where:
    """Options for where to run."""

    n_jobs: Jobs = -1
    """Local processes; -1 for one per core."""
    dask: str | None = None
    """Address of a Dask scheduler: use its workers (with oda_rl[agents], one thread each) instead."""


Results = Generator[tuple[Key, Future], None, None]


class WorkersLostError(RuntimeError):
    """There are no workers, or no more; no function has failed."""


class Workers:
    """Call functions that take no arguments, one after the other, in this process."""

    # Functions submitted for each that can run: with more than one, workers need not wait for the next
    ahead = 1

    def __init__(self, n: int = 1) -> None:
        self._n = n

    @property
    def n(self) -> int:
        """Number of functions that run at the same time."""
        return self._n

    def submit(self, function: Callable[[], Any]) -> Future:
        """Call a function, and return a future with its result or exception."""
        future: Future = Future()
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)
        return future

    def wait(self, futures: Collection[Future]) -> set[Future]:
        """Wait until a future is done; returns all that are. WorkersLostError if no worker is left."""
        done = wait(futures, return_when=FIRST_COMPLETED).done
        for future in done:
            if isinstance(error := future.exception(), BrokenExecutor):
                raise WorkersLostError(str(error).strip().partition("\n")[0]) from error
        return done

    def results(self, work: Mapping[Key, Callable[[], Any]]) -> Results[Key]:
        """Call all functions; yields (key, future) as each ends. Closing this calls no more of them."""
        waiting, running = iter(work.items()), dict[Future, Key]()
        try:
            while True:
                for key, function in islice(waiting, max(0, self.ahead * self.n - len(running))):
                    running[self.submit(function)] = key
                if not running:
                    return
                for future in self.wait(running):
                    yield running.pop(future), future
        finally:
            self.cancel(running)

    def cancel(self, futures: Collection[Future]) -> None:
        """Cancel functions that have not begun, as nobody waits for them any more."""
        for future in futures:
            future.cancel()


class Processes(Workers):
    """Call functions in several local processes."""

    def __init__(self, pool: ProcessPoolExecutor, n: int) -> None:
        super().__init__(n)
        self._pool = pool

    def submit(self, function: Callable[[], Any]) -> Future:
        """Submit a function to a process."""
        future: Future = self._pool.submit(by_value(function))
        return future

    def cancel(self, futures: Collection[Future]) -> None:
        """Do nothing: there is one function for each process, which ends with the pool.

        The thread that ends the pool's processes stops at a cancelled future, and leaves them running.
        """


class Cluster(Workers):
    """Call functions on the workers of a Dask cluster.

    Functions of a lost worker are called by another one, even if they had ended there: the client's
    executor can fail at results that are lost while it reads them. They are submitted directly: joblib's
    backend would first place large ones on a single worker and wait for that, and lose them with it.
    """

    ahead = 3

    def __init__(self, client: Any) -> None:
        super().__init__()
        self._client = client

    @property
    def n(self) -> int:
        """Number of functions that run at the same time; it changes as workers come and go."""
        return max(1, sum(self._client.nthreads().values()))

    def submit(self, function: Callable[[], Any]) -> Future:
        """Submit a function to the cluster."""
        task = self._client.submit(by_value(function), pure=False)
        return asyncio.run_coroutine_threadsafe(_result_of(task), self._client.loop.asyncio_loop)

    def wait(self, futures: Collection[Future]) -> set[Future]:
        """Wait until a future is done; returns all that are. WorkersLostError if no worker is left."""
        seen = time.monotonic()
        while not (done := wait(futures, 1.0, FIRST_COMPLETED).done):
            if self._client.status == "running" and self._client.scheduler_info()["workers"]:
                seen = time.monotonic()
            elif time.monotonic() - seen > PATIENCE:
                raise WorkersLostError(f"the Dask cluster has had no worker for {PATIENCE:.0f} s.")
        return done


async def _result_of(task: Any) -> Any:
    """The result of a task of a cluster, which forgets the task if nobody refers to it any more."""
    return await task


@contextmanager
def open_workers(where: Where, most: int | None = None) -> Iterator[Workers]:
    """Open workers, `most` local processes at most. WorkersLostError if there is no such cluster."""
    if where.dask is not None:
        with connect(where.dask) as client:
            yield Cluster(client)
        return
    n = effective_n_jobs(where.n_jobs)
    n = n if most is None else min(n, most)
    if n <= 1:
        yield Workers()
        return
    # a process begins without the path on which these modules are found
    pool = ProcessPoolExecutor(n, initializer=by_value(partial(begin_worker, os.getpid())))
    try:
        yield Processes(pool, n)
    finally:
        pool.shutdown(kill_workers=True)


def call_all(
    where: Where, work: Mapping[Key, Callable[[], Any]], console: Console | None = None
) -> dict[Key, Any]:
    """Call all functions, with a bar on the console, if given; returns their results in this order."""
    with open_workers(where, len(work)) as workers:
        ended: Iterable[tuple[Key, Future]] = workers.results(work)
        if console is not None:
            ended = track(ended, "runs", len(work), console=console, transient=True)
        found = {key: future.result() for key, future in ended}
    return {key: found[key] for key in work}


def by_value(function: Callable[[], Any]) -> Callable[[], Any]:
    """Wrap a function to be sent with the code of these scripts: workers need only the package."""
    for name in OWN:
        cloudpickle.register_pickle_by_value(importlib.import_module(name))
    return wrap_non_picklable_objects(function, keep_wrapper=False)


def connect(address: str, timeout: float = 10.0) -> Any:
    """Connect to the Dask scheduler at an address such as tcp://host:8786, within `timeout` seconds.

    Raises a WorkersLostError if `distributed` is not installed, or there is no scheduler or no worker.
    """
    try:
        from distributed import Client
    except ImportError:
        raise WorkersLostError("--dask needs distributed: pip install 'oda_rl[dask]'.") from None
    try:
        client = Client(address, timeout=timeout)
    except (OSError, ValueError) as error:
        raise WorkersLostError(f"no Dask scheduler can be reached at {address}: {error}") from None
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        client.close()
        raise WorkersLostError(f"the Dask scheduler at {address} has no workers.") from None
    return client
