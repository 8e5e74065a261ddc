"""Data of several test files."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def images():
    """Thirty of 8 by 8 numbers, in rows."""
    return np.random.default_rng(0).uniform(0.0, 1.0, (30, 64))
