"""The order of the test files, and properties that busy machines may take their time over."""

import os
from itertools import chain, groupby, zip_longest

# A worker of pytest has a core: BLAS and torch would use them all, in each of the workers.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import HealthCheck, settings

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


# Files that take long for their numbers of tests; one of them at the end would be waited for.
LONG = (
    *("test_pages.py", "test_benchmark.py", "test_regression.py", "test_workers.py"),
    *("test_compare.py", "test_reproduce.py", "test_torture.py", "test_tree_session.py"),
    *("test_baselines.py", "test_multiresolution.py", "test_classification.py", "test_plot.py"),
)


def pytest_collection_modifyitems(items):
    """Agents and the rest in turn, long files first: workers then compile different kernels."""
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    files.sort(key=lambda tests: (tests[0].path.name not in LONG, -len(tests)))
    agents = [tests for tests in files if tests[0].path.parent.name == "agents"]
    others = [tests for tests in files if tests[0].path.parent.name != "agents"]
    turns = chain.from_iterable(zip_longest(agents, others, fillvalue=[]))
    items[:] = chain.from_iterable(turns)
