"""Base class of the kernel estimators: parameters, learning, fitted attributes and model files."""

from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from oda_rl._interrupts import all_or_nothing, interrupts_wait
from oda_rl._schema import Either, Schema, Sizes
from oda_rl._types import Array
from oda_rl._validation import LARGEST, check_size, check_weights
from oda_rl.estimators.base import Stored
from oda_rl.estimators.feature_scaling import OF_SCALE, UnitsMixin, chosen_scale
from oda_rl.estimators.parameters import AUTO, POSITIVE, SCALES, choice, declared
from oda_rl.rkhs.bandwidth import ORDINARY, best_bandwidth
from oda_rl.rkhs.held_out import learn_the_size
from oda_rl.rkhs.hyperparameters import (
    BANDWIDTH,
    FITNESSES,
    HYPERPARAMETERS,
    TRANSFERS,
    Rules,
)
from oda_rl.rkhs.machine import KernelMachine, machine_schema
from oda_rl.rkhs.warning_signs import (
    N_EMPTY,
    N_JUDGED,
    warn_of_a_narrow_width,
    warn_of_an_empty_dictionary,
    warn_of_small_outputs,
    warn_of_the_end_of_the_set,
    warn_of_units,
)
from oda_rl.storage import PathOrFile


@dataclass(eq=False, repr=False)
class KernelSGD(UnitsMixin, Stored):
    """A function in a reproducing kernel Hilbert space that learns from samples.

    The fields are the parameters described in `KernelSGDClassifier`.
    """

    loss: str = "hinge"
    _: KW_ONLY
    scale: ArrayLike | str | None = "auto"
    bandwidth: float | str = "auto"
    adapt: Any = ("bandwidth",)
    stepsize: float = 6.0
    stepsize_halving: float | None = None
    regularization: float = 1e-6
    batch_size: int = 16
    parsimony: float | str = 0.04
    max_points: int = 1000
    average: bool = True
    n_passes: int = 1
    fitness: str = "likelihood"
    ratio: float = 1.15
    fitness_rate: float = 0.01
    move_probability: float = 0.9
    slowing: float = 0.05
    window: int = 3000
    transfer: str = "keep"
    random_state: Any = None

    losses: ClassVar[dict[str, int]]
    # Whether targets are classes
    _by_classes: ClassVar[bool] = False
    _learned: ClassVar[str] = "dictionary_"
    # Schema of the private attributes that a model file stores, by their names without the underscore
    _outputs_schema: ClassVar[dict[str, Schema]] = {}
    # Without annotations, which would make them parameters: the machine, its initial bandwidth, and the
    # scale of its outputs.
    _machine = cast("Any", None)
    _initial = ORDINARY
    _unit = cast("Any", 1.0)

    # -- learning --------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Start from scratch and learn from the samples in random order, `n_passes` times.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples; never changed.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Classes or outputs of the samples; never changed.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of the stepsize for each sample, divided by their mean. A large weight of a sample of
            a regressor changes the function there to its output at most. Samples of weight zero are
            ignored.

        Returns
        -------
        self
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter is outside its range, samples are not numbers, or there is only one class.
        """
        rules = self._settings(begin=True)
        samples, targets = self._check(X, y, reset=True)
        check_size(samples, "X")
        weight = self._weights_of(samples, sample_weight)
        used = weight > 0.0
        weight[used] = self._begin_weights(weight[used])
        n_outputs = self._begin(targets[used])
        self.scale_ = chosen_scale(self.scale, samples[used], weight[used])
        self._find_units(targets[used], weight[used])
        rng = self._generator()
        self._initial = self._given_bandwidth or best_bandwidth(
            *self._parts(samples, targets, weight), self._in_units(rules), self.n_passes, rng.spawn(1)[0]
        )
        self._machine = self._new_machine(n_outputs, rules, rng)
        self._learn(samples, targets, weight, self.n_passes)
        self._count_weights()
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Continue learning from one or more samples, in their order.

        The result does not depend on how a stream is cut into chunks: samples that do not fill a
        mini-batch wait for the next ones, and predictions use them only from then on (those of the first
        mini-batch at once). Parameters and errors are those of `fit`, but each weight is divided by the
        mean of all weights before it, those of a `fit` included; without, they are one.
        """
        return self._go_on(X, y, sample_weight, None)

    @interrupts_wait
    def _go_on(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        classes: NDArray[Any] | None,
    ) -> Self:
        first = self._machine is None
        rules = self._settings(begin=first)
        samples, targets = self._check(X, y, reset=first)
        check_size(samples, "X")
        weight = self._weights_of(samples, sample_weight)
        if first:
            self.scale_ = chosen_scale(self._given_scale, samples, weight)
            self._initial = self._given_bandwidth or float(np.sqrt(samples.shape[1]))
        for part in self._pieces(targets, classes):
            n_outputs = self._extend(targets[part], classes)
            if self._machine is None:
                self._machine = self._new_machine(n_outputs, rules, self._generator())
            own = weight[part].copy()
            own[own > 0.0] = self._relative(own[own > 0.0])
            self._learn(samples[part], targets[part], own, None)
        if first and self._given_bandwidth is None:
            outputs = None if self._by_classes else self._numbers(targets)
            warn_of_units(self._scaled(samples), outputs, weight, self._initial)
        return self

    def _parts(self, samples: Array, targets: NDArray[Any], weight: Array) -> tuple[Array, Array, Array]:
        """The samples of positive weight, as `KernelMachine.learn` takes them."""
        used = weight > 0.0
        # Numba would compile everything a second time for read-only arrays.
        numbers = np.ascontiguousarray(self._numbers(targets[used]))
        return self._scaled(samples[used]), numbers, weight[used]

    def _learn(self, samples: Array, targets: NDArray[Any], weight: Array, n_passes: int | None) -> Self:
        """Learn in a new random order in each of the passes, or, if None, once in the given order."""
        parts, machine = self._parts(samples, targets, weight), self._machine
        begun, state = machine.n_learned, int(machine.chains.state[BANDWIDTH])
        tried = n_passes is not None and self._given_bandwidth is None
        with machine.bandwidth_held(tried):
            for k in range(n_passes or 1):
                order = machine.rng.permutation(len(parts[0])) if n_passes else slice(None)
                ordered = [part[order] for part in parts]
                if tried and self._by_classes and k == 0:
                    learn_the_size(machine, *ordered)
                    continue
                machine.learn(*ordered)
                if n_passes:
                    machine.finish()
        self._publish()
        if not self._by_classes and begun < N_JUDGED <= machine.n_learned:
            warn_of_small_outputs(machine, n_passes is not None)
            warn_of_a_narrow_width(machine)
        elif self._by_classes and (n_passes or begun < N_EMPTY <= machine.n_learned):
            warn_of_an_empty_dictionary(machine)
        warn_of_the_end_of_the_set(machine, state)
        return self

    @property
    def _given_bandwidth(self) -> float | None:
        return None if isinstance(self.bandwidth, str) else float(self.bandwidth)

    def _in_units(self, rules: Rules) -> Rules:
        """The settings, in the units of the machine."""
        return replace(rules, bandwidth=self._initial)

    def _new_machine(self, n_outputs: int, rules: Rules, rng: np.random.Generator) -> KernelMachine:
        return KernelMachine(self.n_features_in_, n_outputs, self._in_units(rules), rng)

    def _publish(self) -> Self:
        machine = self._machine.finished
        if not np.abs(machine.weights).max(initial=0.0) <= LARGEST:
            self._machine = None
            for name in ("dictionary_", "n_samples_seen_", "_weights_seen"):
                self.__dict__.pop(name, None)
            raise ValueError(
                f"the function has diverged with stepsize={self.stepsize}: lower the stepsize or "
                "sample_weight, and call fit again."
            )
        self.dictionary_ = self._unscaled(machine.points)
        self.dual_coef_ = machine.weights * self._unit
        self.n_points_ = machine.n_points
        self.bandwidth_ = machine.value_of("bandwidth")
        self.stepsize_ = machine.value_of("stepsize")
        self.regularization_ = machine.value_of("regularization")
        self.n_samples_seen_ = machine.n_samples_seen
        return self

    @property
    def _parameter_constraints(self) -> dict[str, Any]:
        own = {"loss": [choice(*self.losses)], "stepsize": [POSITIVE], "scale": SCALES}
        own |= {"bandwidth": [POSITIVE, AUTO]}
        own |= {"fitness": [choice(*FITNESSES)], "transfer": [choice(*TRANSFERS)]}
        return super()._parameter_constraints | own

    def _read_parameters(self) -> Rules:
        names = {field.name for field in fields(Rules)}
        own = self.get_params(deep=False).items()
        # A value that is "auto" is the default of `Rules`, in the units of the machine.
        given = {k: v for k, v in own if k in names and not (isinstance(v, str) and v == "auto")}
        given["bandwidth"] = self._given_bandwidth or ORDINARY  # replaced before learning begins
        adapt = () if self.adapt is None else self.adapt
        given["adapt"] = (adapt,) if isinstance(adapt, str) else tuple(adapt)
        return Rules(kind=self.losses[self.loss], **given)

    def _weights_of(self, samples: Array, sample_weight: ArrayLike | None) -> Array:
        weight = _check_sample_weight(
            sample_weight, samples, dtype=np.float64, ensure_non_negative=True, copy=True
        )
        return np.where(check_weights(weight), weight, 0.0)

    # -- outputs, which depend on the subclass ---------------------------------------------------

    def _check(self, X: ArrayLike, y: ArrayLike, reset: bool) -> tuple[Array, NDArray[Any]]:
        """Samples and targets, checked."""
        raise NotImplementedError

    def _begin(self, targets: NDArray[Any]) -> int:
        """Store the kinds of outputs, and return their number."""
        raise NotImplementedError

    def _pieces(self, targets: NDArray[Any], classes: NDArray[Any] | None) -> list[slice]:
        """Parts of a chunk such that `_extend` finds new outputs only at the beginning of one."""
        return [slice(None)]

    def _extend(self, targets: NDArray[Any], classes: NDArray[Any] | None) -> int:
        """Add the outputs of the next samples and of `classes`, and return the new number of outputs."""
        raise NotImplementedError

    def _numbers(self, targets: NDArray[Any]) -> Array:
        """Targets in the form of `KernelMachine.learn`, (n_samples, 1) or (n_samples, n_outputs)."""
        raise NotImplementedError

    def _find_units(self, targets: NDArray[Any], weight: Array) -> None:
        """Find the units of the outputs, from all samples of `fit`."""

    # -- fitted attributes -----------------------------------------------------------------------

    @property
    def history_(self) -> dict[str, Array]:
        """Columns with one entry per mini-batch; if there are very many, old ones are thinned out.

        `n_samples`, the `loss` before learning from the mini-batch, and `n_points`, `bandwidth`,
        `stepsize` and `regularization` after it.
        """
        check_is_fitted(self, "dictionary_")
        columns = self._machine.records.T
        names = ("n_samples", "loss", "n_points", *HYPERPARAMETERS)
        return {name: column.copy() for name, column in zip(names, columns, strict=True)}

    @property
    def bandwidth_history_(self) -> Array:
        """The bandwidth after each mini-batch."""
        return self.history_["bandwidth"]

    def _outputs(self, X: ArrayLike) -> Array:
        """f(x), of shape (n_samples, n_outputs)."""
        check_is_fitted(self, "dictionary_")
        samples = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        check_size(samples, "X")
        samples = self._scaled(samples)
        return self._machine.finished(samples if samples.flags.writeable else samples.copy())

    # -- storing ---------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: PathOrFile) -> Self:
        """Read an estimator from a model file; `partial_fit` continues exactly where it stopped.

        Parameters and errors are those of `ODAPartition.load`.
        """
        return cls._load(path)

    def _get_state(self) -> dict[str, Any]:
        learned = {"n_outputs": self._machine.n_outputs, "machine": self._machine.get_state()}
        outputs = {name: getattr(self, f"_{name}") for name in self._outputs_schema}
        return {"outputs": outputs, "scale": self.scale_, "bandwidth": self._initial, **learned}

    def _set_state(self, state: dict[str, Any]) -> None:
        for name, value in state["outputs"].items():
            setattr(self, f"_{name}", value)
        self.scale_ = state["scale"]
        rules, rng = self._settings(begin=True), np.random.default_rng()
        self._initial = state["bandwidth"]
        self._machine = self._new_machine(state["n_outputs"], rules, rng)
        self._machine.set_state(state["machine"])
        self._publish()

    @classmethod
    def _schema(cls) -> dict[str, Schema]:
        """The schema of a model file."""

        def machine(around: Any, sizes: Sizes) -> Schema:
            rules = cls(**around["parameters"])._settings(begin=True)
            rules = replace(rules, bandwidth=around["bandwidth"])
            return machine_schema(rules, cls._by_classes)

        return declared(cls) | {
            "n_outputs": "count in [C, C] as m" if cls._by_classes else "count in [1, inf) as m",
            "outputs": cls._outputs_schema,
            "scale": Either(None, OF_SCALE),
            "bandwidth": "float in (0, inf)",  # the initial one
            "machine": machine,
        }
