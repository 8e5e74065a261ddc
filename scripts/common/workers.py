"""Who does the work of a table: this process, processes beside it, or the workers of a Dask cluster."""

import importlib
import os
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import cloudpickle
from joblib import effective_n_jobs, wrap_non_picklable_objects
from joblib.externals.loky import ProcessPoolExecutor

from common.arguments import Jobs
from common.processes import begin_worker

Key = TypeVar("Key")
# Modules of these scripts, which the workers of a cluster need not have.
OWN = ("benchmarks", "common", "sb3_zoo")
# Seconds that a cluster may be without any worker before the work is given up
PATIENCE = 60.0


@dataclass
class Where:
    """Where the work is done."""

    n_jobs: Jobs = -1
    """Processes here; -1 for one on each core."""
    dask: str | None = None
    """Scheduler of a Dask cluster: use its workers (with oda_rl[agents], one thread each) instead."""


Results = Generator[tuple[Key, Future], None, None]


class WorkersLostError(RuntimeError):
    """Not a piece of work has failed, but who should do it is not there, or no more."""


class Workers:
    """Call functions that take no arguments: one after the other, in the process that has made this."""

    # Functions handed over for each that can run: who has ended one finds the next at hand
    ahead = 1

    @property
    def n(self) -> int:
        """Functions that run at the same time."""
        return 1

    def submit(self, function: Callable[[], Any]) -> Future:
        """Have a function called."""
        future: Future = Future()
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)
        return future

    def wait(self, futures: Collection[Future]) -> set[Future]:
        """Those that have ended, as soon as there are any. WorkersLostError if nobody is left."""
        return wait(futures, return_when=FIRST_COMPLETED).done

    def results(self, work: Mapping[Key, Callable[[], Any]]) -> Results[Key]:
        """Have all functions called; what becomes of each, as they end. Closed, it calls no more."""
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
            for future in running:
                future.cancel()


class Processes(Workers):
    """Call functions in processes beside this one."""

    def __init__(self, pool: ProcessPoolExecutor, n: int) -> None:
        self._pool, self._n = pool, n

    def wait(self, futures: Collection[Future]) -> set[Future]:
        """Those that have ended, as soon as there are any. WorkersLostError if nobody is left."""
        done = super().wait(futures)
        for future in done:
            if isinstance(error := future.exception(), BrokenExecutor):
                raise WorkersLostError(str(error).strip().partition("\n")[0]) from error
        return done

    @property
    def n(self) -> int:
        """Functions that run at the same time."""
        return self._n

    def submit(self, function: Callable[[], Any]) -> Future:
        """Have a function called."""
        future: Future = self._pool.submit(by_value(function))
        return future


class Cluster(Workers):
    """Call functions on the workers of a Dask cluster.

    What a worker that is lost was doing goes to another. Its tasks are handed over as they are: joblib's
    backend would first put large ones on some worker, with which they are lost, and wait for them.
    """

    ahead = 3

    def __init__(self, client: Any) -> None:
        self._client, self._executor = client, client.get_executor(pure=False)

    @property
    def n(self) -> int:
        """Functions that run at the same time; workers may come and go."""
        return max(1, sum(self._client.nthreads().values()))

    def submit(self, function: Callable[[], Any]) -> Future:
        """Have a function called."""
        future: Future = self._executor.submit(by_value(function))
        return future

    def wait(self, futures: Collection[Future]) -> set[Future]:
        """Those that have ended, as soon as there are any. WorkersLostError if nobody is left."""
        seen = time.monotonic()
        while not (done := wait(futures, 1.0, FIRST_COMPLETED).done):
            if self._client.status == "running" and self._client.scheduler_info()["workers"]:
                seen = time.monotonic()
            elif time.monotonic() - seen > PATIENCE:
                raise WorkersLostError(f"the Dask cluster has had no worker for {PATIENCE:.0f} s.")
        return done


@contextmanager
def open_workers(where: Where, most: int | None = None) -> Iterator[Workers]:
    """Who does the work, `most` functions at a time. WorkersLostError if there is no such cluster."""
    if where.dask is not None:
        with connect(where.dask) as client:
            yield Cluster(client)
        return
    n = effective_n_jobs(where.n_jobs)
    n = n if most is None else min(n, most)
    if n <= 1:
        yield Workers()
        return
    pool = ProcessPoolExecutor(n, initializer=begin_worker, initargs=(os.getpid(),))
    try:
        yield Processes(pool, n)
    finally:
        pool.shutdown(kill_workers=True)


def by_value(function: Callable[[], Any]) -> Callable[[], Any]:
    """A function that takes the code of these scripts along: workers need only the installed package."""
    for name in OWN:
        cloudpickle.register_pickle_by_value(importlib.import_module(name))
    return wrap_non_picklable_objects(function, keep_wrapper=False)


def connect(address: str, timeout: float = 10.0) -> Any:
    """A client of the Dask scheduler at an address, tcp://host:8786 say; waits so many seconds for it.

    WorkersLostError if `distributed` is not installed, there is no scheduler, or it has no workers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise WorkersLostError("--dask needs distributed: pip install 'oda_rl[dask]'.") from None
    try:
        client = Client(address, timeout=timeout)
    except (OSError, ValueError) as error:
        raise WorkersLostError(f"there is no Dask scheduler at {address}: {error}") from None
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        client.close()
        raise WorkersLostError(f"the Dask scheduler at {address} has no workers.") from None
    return client
