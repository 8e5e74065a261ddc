"""The initial bandwidth of a fit, from the spread of its samples or by trials on a part of them."""

from dataclasses import replace

import numpy as np

from oda_rl._replicates import replicates
from oda_rl._types import Array, Labels
from oda_rl.estimators.feature_scaling import deviations
from oda_rl.rkhs.functional_sgd import SQUARED
from oda_rl.rkhs.held_out import N_COMPARED, N_LEARNED, held_out_loss
from oda_rl.rkhs.hyperparameters import Rules
from oda_rl.rkhs.machine import KernelMachine

# The bandwidth for samples that do not vary.
ORDINARY = 1.0
# With fewer held-out samples there are no trials.
LEAST_COMPARED = 4
# Bandwidths of the trials, in units of the spread: from the widest one they become narrower by HALVING.
# The neighbours of the best one, by the square root of HALVING, are tried last.
WIDEST, HALVING, N_TRIALS = 4.0, 2.0, 10
# From this part of the samples as points on, kernels share so little that narrower ones only do worse.
ALL_APART = 0.9
# Trials of a classifier end NARROWER times below the best bandwidth if the loss is WORSE times the best:
# narrow kernels take most of the time. Before the best one, all losses may be those of guessing.
NARROWER, WORSE = 4.0, 1.25


def root_mean_variance(samples: Array, weight: Array) -> float:
    """The root mean square of the deviations of features in samples (n, n_features), weights (n,).

    Features that do not vary have a deviation of 0.
    """
    deviation, varying = deviations(samples, weight)
    return float(np.sqrt(np.mean(np.where(varying, deviation, 0.0) ** 2)))


def _rows_apart(
    samples: Array, n: int, n_compared: int, rng: np.random.Generator
) -> tuple[Labels, Labels]:
    """Some rows at random, and others up to `n` that are no replicates of these."""
    same = replicates(samples)
    if same is None:
        rows = rng.permutation(len(samples))[:n]
        return rows[:n_compared], rows[n_compared:]
    place = rng.permutation(len(same.first))[same.place]
    rows = np.argsort(place, kind="stable")[:n]
    compared, others = rows[:n_compared], rows[n_compared:]
    return compared, others[~np.isin(place[others], place[compared])]


class Trials:
    """Kernel machines with several bandwidths that learn from the same samples.

    `losses` maps the bandwidths to the losses on held-out samples. Samples (n, n_features), outputs (n,
    n_outputs) or class indices (n, 1), and weights (n,) are those of `KernelMachine.learn`. The rules
    are those of all trials, apart from the bandwidth, and each trial makes `n_passes` passes.
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
        self.n_outputs = outputs.shape[1] if rules.kind >= SQUARED else int(outputs.max()) + 1
        n = min(len(samples), N_LEARNED + N_COMPARED)
        self.n_compared = n * N_COMPARED // (N_LEARNED + N_COMPARED)
        compared, learned = _rows_apart(samples, n, self.n_compared, rng)
        self.compared = [part[compared] for part in (samples, outputs, weight)]
        self.learned = [part[learned] for part in (samples, outputs, weight)]
        self.orders = [rng.permutation(len(learned)) for _ in range(n_passes)]
        adapt = tuple(name for name in rules.adapt if name != "bandwidth")
        self.rules = replace(rules, adapt=adapt)
        self.losses: dict[float, float] = {}

    def attempt(self, bandwidth: float) -> KernelMachine:
        """Learn with a bandwidth, and add its loss to `losses`."""
        rules, n_features = replace(self.rules, bandwidth=bandwidth), self.learned[0].shape[1]
        machine = KernelMachine(n_features, self.n_outputs, rules, np.random.default_rng(0))
        for order in self.orders:
            machine.learn(*(part[order] for part in self.learned))
            machine.finish()
        samples, outputs, weight = self.compared
        self.losses[bandwidth] = held_out_loss(machine(samples), outputs, weight, self.rules)
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
        past = rules.kind < SQUARED and bandwidth * NARROWER <= trials.best
        if past and trials.losses[bandwidth] > WORSE * trials.losses[trials.best]:
            break
    middle = trials.best
    for factor in (HALVING**-0.5, HALVING**0.5):
        trials.attempt(middle * factor)
    return trials.best
