"""Streams of numbers that river ships or makes, and the regressors that learn from them."""

from collections.abc import Callable
from typing import Any

from oda_rl import MultiResolutionODA, ODARegressor
from oda_rl.streaming import Stream

# Samples before the changes of a stream: of parts of its function one after the other, or of all of it.
LOCAL, WHOLE = (2500, 5000, 7500), (3000, 6000)
# Samples during which a slow change lasts.
WINDOW = 1000


def streams_of_numbers(seed: int) -> dict[str, Callable[[], Any]]:
    """Return the streams by name; the functions of the last three change."""
    from river import datasets
    from river.datasets import synth

    def changing(kind: str, position: tuple[int, ...], window: int = 0) -> Callable[[], Any]:
        return lambda: iter(synth.FriedmanDrift(kind, position, window, seed))

    return {
        "ChickWeights": lambda: iter(datasets.ChickWeights()),
        "TrumpApproval": lambda: iter(datasets.TrumpApproval()),
        "planes": lambda: iter(synth.Planes2D(seed)),
        "Friedman": lambda: iter(synth.Friedman(seed)),
        "Friedman, parts change": changing("lea", LOCAL),
        "Friedman, swapped": changing("gra", WHOLE),
        "Friedman, slow": changing("gsg", WHOLE, WINDOW),
    }


def regressors(seed: int) -> dict[str, Callable[[], Any]]:
    """Our learners and river's, by name; the features of river's are scaled, or some diverge."""
    from river import dummy, forest, linear_model, stats, tree
    from river.preprocessing import StandardScaler

    return {
        "mean": lambda: dummy.StatisticRegressor(stats.Mean()),
        "ODA": lambda: Stream(ODARegressor(random_state=seed)),
        "ODA, tree": lambda: Stream(MultiResolutionODA(ODARegressor(), random_state=seed)),
        "HAT": lambda: StandardScaler() | tree.HoeffdingAdaptiveTreeRegressor(seed=seed),
        "ARF": lambda: StandardScaler() | forest.ARFRegressor(seed=seed),
        "linear": lambda: StandardScaler() | linear_model.LinearRegression(),
    }
