"""Trees on the problem of the authors' demo, with the limits of its layers."""

import numpy as np
from rich.console import Console

from common.tables import show_table, yes
from oda_rl import MultiResolutionODA, ODAClassifier
from oda_rl._types import Array, Labels

# Means and variances of its five Gaussians, 120 samples each, and their classes.
MEANS = np.array([[1.6, 3.4], [5.2, 4.0], [2.6, 1.6], [4.4, 2.6], [3.4, 5.0]])
VARIANCES, CLASSES, N_EACH, N_TRAINING = (0.20, 0.15, 0.10, 0.20, 0.15), (0, 0, 0, 1, 1), 120, 480
# Children of a cell in each layer; errors in per cent and codevectors of the authors' tree.
CHILDREN, TRAINING_ERROR, TEST_ERROR, MOST_LEAVES = (5, 5, 10), 0.6, 0.8, 22


def demo_problem() -> tuple[Array, Labels]:
    """Return samples in the unit square and their classes, in the order of the demo."""
    rng = np.random.RandomState(0)
    pairs = zip(MEANS, VARIANCES, strict=True)
    parts = [rng.multivariate_normal(mean, v * np.eye(2), N_EACH) for mean, v in pairs]
    samples = np.concatenate(parts)
    low, size = samples.min(), np.ptp(samples)
    order = np.arange(len(samples))
    rng.shuffle(order)
    return ((samples - low) / size + 0.05)[order] / 1.1, np.repeat(CLASSES, N_EACH)[order]


def show_demo(console: Console, seeds: tuple[int, ...]) -> None:
    """Print errors and leaves of trees with all leaves that lower the training error, and pruned."""
    samples, labels = demo_problem()
    layers = [{"max_codevectors": k} for k in CHILDREN]
    rows = []
    for name, validation in (("all that lowers the training error", None), ("pruned", "auto")):
        found = []
        for seed in seeds:
            options = {"layers": layers, "min_support": 2, "validation": validation}
            tree = MultiResolutionODA(ODAClassifier(), **options, random_state=seed)
            tree.fit(samples[:N_TRAINING], labels[:N_TRAINING])
            halves = (slice(0, N_TRAINING), slice(N_TRAINING, None))
            errors = [100.0 * (1.0 - tree.score(samples[half], labels[half])) for half in halves]
            found.append([tree.n_codevectors_, *errors])
        leaves, training, test = np.median(found, axis=0)
        least = (TRAINING_ERROR + 0.05, TEST_ERROR + 0.05)  # theirs are given with one decimal
        reached = leaves <= MOST_LEAVES and training < least[0] and test < least[1]
        rows.append([name, f"{leaves:g}", f"{training:.2f}", f"{test:.2f}", yes(reached)])
    rows.append(["theirs", f"{MOST_LEAVES}", f"{TRAINING_ERROR}", f"{TEST_ERROR}", ""])
    title = f"The authors' demo, layers of {CHILDREN}: medians of {len(seeds)} seeds"
    show_table(console, title, ("tree", "K", "training error, %", "test error, %", "reached"), rows)
