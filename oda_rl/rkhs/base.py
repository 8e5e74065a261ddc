"""What the kernel estimators have in common: parameters, learning, what is published, model files."""

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from oda_rl import storage
from oda_rl._validation import check_at_least, check_non_negative, check_positive
from oda_rl.estimators.session_files import plain
from oda_rl.rkhs import learning
from oda_rl.rkhs.machine import HYPERPARAMETERS, KernelMachine, Rules

Array = NDArray[np.float64]
TRANSFERS = ("keep", "project")
FITNESSES = ("likelihood", "loss")
# Parameters that a machine calls by the same name.
SHARED = (
    "bandwidth",
    "stepsize",
    "regularization",
    "batch_size",
    "parsimony",
    "stepsize_halving",
    "average",
    "fitness",
    "ratio",
    "fitness_rate",
    "move_probability",
    "slowing",
    "window",
    "max_points",
    "transfer",
)


class KernelSGD(BaseEstimator):
    """A function in a reproducing kernel Hilbert space, with the parameters named in `SHARED`."""

    losses: ClassVar[dict[str, int]]
    loss: str
    adapt: Any
    n_passes: int
    random_state: Any
    _machine: KernelMachine

    # -- what has been learned -------------------------------------------------------------------

    @property
    def history_(self) -> dict[str, Array]:
        """One entry per mini-batch, the oldest thinned out where there are very many.

        `n_samples`, `loss` before it was learned, `n_points`, and the values of `bandwidth`, `stepsize`
        and `regularization` after it.
        """
        check_is_fitted(self, "dictionary_")
        columns = self._machine.records.T
        names = ("n_samples", "loss", "n_points", *HYPERPARAMETERS)
        return {name: column.copy() for name, column in zip(names, columns, strict=True)}

    @property
    def bandwidth_history_(self) -> Array:
        """The bandwidth after each mini-batch."""
        return self.history_["bandwidth"]

    # -- storing ---------------------------------------------------------------------------------

    def save(self, path: storage.PathOrFile) -> Path | None:
        """Write the estimator to a model file: arrays and JSON, nothing that could be run.

        Parameters
        ----------
        path : str, path or binary file
            Where to; `.npz` is appended to a name without a suffix.

        Returns
        -------
        Path or None
            The file; None for a binary file.
        """
        check_is_fitted(self, "dictionary_")
        parameters = {name: plain(value) for name, value in self.get_params(deep=False).items()}
        if not isinstance(self.random_state, int | np.integer):
            parameters["random_state"] = None  # the generator's state is stored with the machine
        state, arrays = self._machine.get_state()
        names = getattr(self, "feature_names_in_", None)
        config = {
            "parameters": parameters,
            "state": state,
            "n_outputs": self._machine.n_outputs,
            "feature_names": None if names is None else [str(name) for name in names],
            **self._names(),
        }
        return storage.save(path, type(self).__name__, config, arrays)

    @classmethod
    def load(cls, path: storage.PathOrFile) -> Self:
        """Read an estimator from a model file; `partial_fit` goes on exactly where it was.

        Parameters
        ----------
        path : str, path or binary file
            The file.

        Returns
        -------
        The estimator.

        Raises
        ------
        FileNotFoundError, ValueError
            If there is no such file, or it is damaged or holds something else.
        """
        config, arrays = storage.load(path, cls.__name__)
        model = cls(**config["parameters"])
        model.n_features_in_ = arrays["points"].shape[0]
        if config["feature_names"] is not None:
            model.feature_names_in_ = np.array(config["feature_names"], dtype=object)
        model._set_names(config)
        model._machine = KernelMachine(
            model.n_features_in_, config["n_outputs"], model._rules(), np.random.default_rng()
        )
        model._machine.set_state(config["state"], arrays)
        model._publish()
        return model

    # -- for the estimators ----------------------------------------------------------------------

    def _names(self) -> dict[str, Any]:
        """What a subclass stores of its outputs."""
        raise NotImplementedError

    def _set_names(self, config: dict[str, Any]) -> None:
        raise NotImplementedError

    def _rules(self) -> Rules:
        """The parameters, checked."""
        given: dict[str, Any] = {name: getattr(self, name) for name in SHARED}
        if self.loss not in self.losses:
            raise ValueError(f"loss must be one of {tuple(self.losses)}, got {self.loss!r}.")
        if given["transfer"] not in TRANSFERS:
            raise ValueError(f"transfer must be one of {TRANSFERS}, got {given['transfer']!r}.")
        if given["fitness"] not in FITNESSES:
            raise ValueError(f"fitness must be one of {FITNESSES}, got {given['fitness']!r}.")
        adapt = (self.adapt,) if isinstance(self.adapt, str) else tuple(self.adapt or ())
        unknown = [name for name in adapt if name not in HYPERPARAMETERS]
        if unknown:
            raise ValueError(f"adapt must be some of {tuple(HYPERPARAMETERS)}, got {self.adapt!r}.")
        counts = ("batch_size", "window", "max_points")
        check_at_least(1, n_passes=self.n_passes, **{name: given[name] for name in counts})
        scales = {name: given[name] for name in ("bandwidth", "stepsize")}
        if given["stepsize_halving"] is not None:
            scales["stepsize_halving"] = given["stepsize_halving"]
        check_positive(**scales)
        loose = {name: given[name] for name in ("regularization", "parsimony", "slowing")}
        check_non_negative(**loose, **scales)
        for name, low, high in (("fitness_rate", 0.0, 1.0), ("move_probability", 0.5, 1.0)):
            if not low < given[name] <= high:
                raise ValueError(
                    f"{name} must be above {low:g} and at most {high:g}, got {given[name]}."
                )
        if not 1.0 < given["ratio"] <= 10.0:
            raise ValueError(f"ratio must be above 1 and at most 10, got {given['ratio']}.")
        rules = Rules(
            kind=self.losses[self.loss],
            adapt=adapt,
            huber_width=getattr(self, "huber_width", 1.0),
            **given,
        )
        if not rules.stepsize * rules.regularization < 1.0:
            raise ValueError(
                "stepsize times regularization must be below 1, got "
                f"{rules.stepsize} and {rules.regularization}."
            )
        return rules

    def _generator(self) -> np.random.Generator:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)

    def _weights_of(self, samples: Array, sample_weight: ArrayLike | None) -> Array:
        weight = _check_sample_weight(
            sample_weight, samples, dtype=np.float64, ensure_non_negative=True, copy=True
        )
        if not weight.any():
            raise ValueError("sample_weight must be positive for at least one sample.")
        return weight

    def _learn(self, samples: Array, targets: Array, weight: Array, n_passes: int | None) -> None:
        """Learn: in a new order on each of the passes, or once in the given order."""
        used = weight > 0.0
        # Numba would compile everything a second time for read-only arrays.
        samples, targets, weight = samples[used], np.ascontiguousarray(targets[used]), weight[used]
        for _ in range(n_passes or 1):
            order = self._machine.rng.permutation(len(samples)) if n_passes else slice(None)
            self._machine.learn(samples[order], targets[order], weight[order])

    def _outputs(self, X: ArrayLike) -> Array:
        """f(x), of shape (n_samples, n_outputs)."""
        check_is_fitted(self, "dictionary_")
        samples = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        return self._machine(samples if samples.flags.writeable else samples.copy())

    def _publish(self) -> None:
        machine = self._machine
        self.dictionary_ = machine.points
        self.dual_coef_ = machine.weights
        self.n_points_ = machine.n_points
        self.bandwidth_ = machine.value_of("bandwidth")
        self.stepsize_ = machine.value_of("stepsize")
        self.regularization_ = machine.value_of("regularization")
        self.n_samples_seen_ = int(machine.counters[learning.N_SEEN])
