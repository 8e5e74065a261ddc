"""The initial bandwidth of a fit, from the spread of its samples or by trials on a part of them."""

from dataclasses import replace

import numpy as np

from oda_rl._types import Array
from oda_rl.estimators.feature_scaling import UNLIKE, deviations
from oda_rl.rkhs.functional_sgd import HUBER
from oda_rl.rkhs.hyperparameters import Rules
from oda_rl.rkhs.machine import KernelMachine

# The bandwidth for samples whose deviations are within a factor of UNLIKE of it.
ORDINARY = 1.0
# Trials learn from at most N_LEARNED samples and are compared on at most N_COMPARED others; with fewer
# than LEAST_COMPARED there are none.
N_LEARNED, N_COMPARED, LEAST_COMPARED = 700, 300, 4
# Bandwidths of the trials, in units of the spread: from the widest one they become narrower by HALVING.
# The neighbours of the best one, by the square root of HALVING, are tried last.
WIDEST, HALVING, N_TRIALS = 4.0, 2.0, 10
# From this part of the samples as points on, kernels share so little that narrower ones only do worse.
ALL_APART = 0.9


def root_mean_variance(samples: Array, weight: Array) -> float:
    """The root mean square of the deviations of features in samples (n, n_features), weights (n,).

    Features that do not vary have a deviation of 0.
    """
    deviation, varying = deviations(samples, weight)
    return float(np.sqrt(np.mean(np.where(varying, deviation, 0.0) ** 2)))


def bandwidth_of_spread(samples: Array, weight: Array) -> float:
    """1, or the deviation of the samples if it is more than ten times smaller or larger than that."""
    deviation = root_mean_variance(samples, weight)
    ordinary = ORDINARY / UNLIKE <= deviation <= ORDINARY * UNLIKE
    return ORDINARY if ordinary or deviation == 0.0 else deviation


class Trials:
    """Kernel machines with several bandwidths that learn from the same samples.

    `losses` maps the bandwidths to the losses on held-out samples. Samples (n, n_features), outputs (n,
    n_outputs) and weights (n,) are those of `KernelMachine.learn`. The rules are those of all trials,
    apart from the bandwidth, and each trial makes `n_passes` passes.
    """

    def __init__(
        self,
        samples: Array,
        outputs: Array,
        weight: Array,
        rules: Rules,
        n_passes: int,
        rng: np.random.Generator,
    ) -> None:
        n = min(len(samples), N_LEARNED + N_COMPARED)
        self.n_compared = n * N_COMPARED // (N_LEARNED + N_COMPARED)
        rows = rng.permutation(len(samples))[:n]
        self.compared = [part[rows[: self.n_compared]] for part in (samples, outputs, weight)]
        self.learned = [part[rows[self.n_compared :]] for part in (samples, outputs, weight)]
        self.orders = [rng.permutation(n - self.n_compared) for _ in range(n_passes)]
        adapt = tuple(name for name in rules.adapt if name != "bandwidth")
        self.rules = replace(rules, adapt=adapt)
        self.losses: dict[float, float] = {}

    def attempt(self, bandwidth: float) -> KernelMachine:
        """Learn with a bandwidth, and add its loss to `losses`."""
        n_features, n_outputs = (part.shape[1] for part in self.learned[:2])
        rules = replace(self.rules, bandwidth=bandwidth)
        machine = KernelMachine(n_features, n_outputs, rules, np.random.default_rng(0))
        for order in self.orders:
            machine.learn(*(part[order] for part in self.learned))
            machine.finish()
        samples, outputs, weight = self.compared
        with np.errstate(all="ignore"):  # of a function that diverges
            error = np.abs(machine(samples) - outputs)
            width = rules.huber_width if rules.kind == HUBER else np.inf
            loss = np.where(error > width, width * (error - 0.5 * width), 0.5 * error**2).sum(axis=1)
            mean = float(np.average(loss, weights=weight))
        self.losses[bandwidth] = mean if np.isfinite(mean) else np.inf
        return machine

    @property
    def best(self) -> float:
        """The bandwidth with the least loss, the widest of several."""
        return min(self.losses, key=lambda bandwidth: (self.losses[bandwidth], -bandwidth))


def best_bandwidth(
    samples: Array,
    outputs: Array,
    weight: Array,
    rules: Rules,
    n_passes: int,
    rng: np.random.Generator,
) -> float:
    """The bandwidth with the least loss on held-out samples; parameters are those of `Trials`.

    It is 1 if the samples do not vary, and their spread if there are too few of them for trials.
    """
    spread = root_mean_variance(samples, weight) * np.sqrt(samples.shape[1])
    if spread == 0.0:
        return ORDINARY
    trials = Trials(samples, outputs, weight, rules, n_passes, rng)
    if trials.n_compared < LEAST_COMPARED:
        return float(spread)
    for k in range(N_TRIALS):
        bandwidth = float(WIDEST * spread / HALVING**k)
        machine = trials.attempt(bandwidth)
        if machine.n_points > ALL_APART * len(trials.learned[0]) and trials.best > bandwidth:
            break
    middle = trials.best
    for factor in (HALVING**-0.5, HALVING**0.5):
        trials.attempt(middle * factor)
    return trials.best
