"""Ctrl-C while an estimator learns: it has learned all of it, or nothing."""

import signal

import numpy as np
import pytest
from model_files import reloaded
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from oda_rl import KernelSGDRegressor, MultiResolutionODA, ODAClassifier, ODAPartition
from oda_rl.codebook.annealer import Annealer
from oda_rl.estimators.classification.session import ClassSession
from oda_rl.estimators.session import Run
from oda_rl.estimators.tree.session import TreeSession
from oda_rl.rkhs.machine import KernelMachine

X = np.random.default_rng(0).normal(size=(200, 2))
Y = (X[:, 0] > 0).astype(int)
# Where each of them is in the middle of a stream, and of a fit
MODELS = {
    ODAPartition(6, n_warmup=40, random_state=0): [(Run, "_present"), (Run, "_present")],
    ODAClassifier(6, n_warmup=40, random_state=0): [(ClassSession, "observe"), (Annealer, "end_level")],
    MultiResolutionODA(ODAPartition(n_warmup=40), layers=2, max_children=3, random_state=0): [
        *[(TreeSession, "observe"), (TreeSession, "fit")],
    ],
    KernelSGDRegressor(window=50, random_state=0): [(KernelMachine, "learn"), (KernelMachine, "learn")],
}
each = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


@pytest.fixture
def interrupt(monkeypatch):
    """Have Ctrl-C come in the middle of what a model learns next."""

    def soon(model, while_it_fits=False, times=1):
        owner, name = MODELS[model][while_it_fits]
        learn = getattr(owner, name)

        def interrupted(*args, **options):
            monkeypatch.undo()
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            return learn(*args, **options)

        monkeypatch.setattr(owner, name, interrupted)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield soon
    signal.signal(signal.SIGINT, before)


@each
def test_an_interrupted_stream_has_learned_its_samples(model, interrupt):
    undisturbed, streamed = clone(model), clone(model)
    for first in (0, 100):
        undisturbed.partial_fit(X[first : first + 100], Y[first : first + 100])
    streamed.partial_fit(X[:100], Y[:100])
    interrupt(model)
    with pytest.raises(KeyboardInterrupt):
        streamed.partial_fit(X[100:], Y[100:])
    assert np.array_equal(streamed.predict(X), undisturbed.predict(X))
    again = reloaded(streamed).partial_fit(X, Y)
    assert np.array_equal(again.predict(X), undisturbed.partial_fit(X, Y).predict(X))


@each
def test_a_fit_that_is_interrupted_leaves_what_was_learned_before(model, interrupt):
    fitted = clone(model).fit(X[:100], Y[:100])
    before = fitted.predict(X)
    interrupt(model, while_it_fits=True)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X + 1.0, Y)
    assert np.array_equal(fitted.predict(X), before)
    unfitted = clone(model)
    interrupt(model, while_it_fits=True)
    with pytest.raises(KeyboardInterrupt):
        unfitted.fit(X, Y)
    with pytest.raises(NotFittedError):
        unfitted.predict(X)


def test_a_second_interrupt_breaks_a_stream_off_at_once(interrupt):
    model = next(iter(MODELS))
    broken, before = clone(model).partial_fit(X[:100]), clone(model).partial_fit(X[:100])
    interrupt(model, times=2)
    with pytest.raises(KeyboardInterrupt):
        broken.partial_fit(X[100:])
    assert np.array_equal(broken.codevectors_, before.codevectors_)
    assert not np.array_equal(before.partial_fit(X[100:]).codevectors_, broken.codevectors_)
