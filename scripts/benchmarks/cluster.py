"""Runs on the workers of a Dask cluster."""

import importlib
from collections.abc import Callable
from typing import Any

import cloudpickle
from joblib import wrap_non_picklable_objects

# Modules of this folder and its neighbours, which the workers need not have.
OWN = ("benchmarks", "presets", "sb3_zoo")


def by_value(function: Callable[[], Any]) -> Callable[[], Any]:
    """A function that takes the code of these scripts along: workers need only the installed package."""
    for name in OWN:
        cloudpickle.register_pickle_by_value(importlib.import_module(name))
    return wrap_non_picklable_objects(function, keep_wrapper=False)


def connect(address: str, timeout: float = 10.0) -> Any:
    """A client of the scheduler at an address.

    Parameters
    ----------
    address : str
        As the scheduler prints it: tcp://host:8786.
    timeout : float, default=10
        Seconds to wait for it, and for its first worker.

    Returns
    -------
    distributed.Client

    Raises
    ------
    ValueError
        If `distributed` is not installed, there is no scheduler at the address, or it has no workers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ValueError("--dask needs distributed: pip install 'oda_rl[dask]'.") from None
    try:
        client = Client(address, timeout=timeout)
    except (OSError, ValueError) as error:
        raise ValueError(f"there is no Dask scheduler at {address}: {error}") from None
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        client.close()
        raise ValueError(f"the Dask scheduler at {address} has no workers.") from None
    return client
