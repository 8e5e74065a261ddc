"""Base classes of the estimators: checks, `fit` and `partial_fit`, model files."""

from contextlib import AbstractContextManager, nullcontext
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from oda_rl import storage
from oda_rl._interrupts import all_or_nothing, interrupts_wait
from oda_rl._ridge import learning
from oda_rl._schema import Schema
from oda_rl._types import Array
from oda_rl.codebook.divergences import Divergence, get_divergence
from oda_rl.estimators.parameters import Checked, declared, restored, stored
from oda_rl.estimators.progress import Progress, reporting
from oda_rl.estimators.stream_weights import WeightsMixin
from oda_rl.estimators.targets import are_plain, check_samples
from oda_rl.inspect.model import InspectMixin


class Stored(WeightsMixin, Checked):
    """An estimator that can be stored in a model file, and that makes its random generator."""

    # An attribute that exists once the estimator is fitted.
    _learned: ClassVar[str] = "codevectors_"

    def save(self, path: storage.PathOrFile) -> Path | None:
        """Write the estimator to a model file, which holds arrays and JSON but no executable code.

        Of a divergence of your own only the name is stored, and of a local model of your own only the
        cells' parameters: pass the object to `load` again.

        Parameters
        ----------
        path : str, path or binary file
            The file to write; `.npz` is appended to a name without a suffix.

        Returns
        -------
        Path or None
            The path of the file; None for a binary file.
        """
        check_is_fitted(self, self._learned)
        return storage.save(path, type(self).__name__, {**self._stored(), **self._get_state()})

    @classmethod
    def _load(cls, path: storage.PathOrFile, **given: Any) -> Self:
        """Load an estimator; parameters in `given` that are not None replace the stored ones."""
        state = storage.load(path, cls.__name__, cls._schema())
        with storage.restoring(path):
            model: Self = restored(cls, state, **given)
            model._set_state(state)
        return model

    def _stored(self) -> dict[str, Any]:
        """Return the parameters and the form of the data, for a model file."""
        self._settings(begin=False)
        return stored(self)

    @classmethod
    def _schema(cls) -> dict[str, Schema]:
        """Return the schema of a model file: of what `_stored` and `_get_state` return."""
        return declared(cls)

    def _get_state(self) -> dict[str, Any]:
        """Return what has been learned, for a model file."""
        raise NotImplementedError

    def _set_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `_get_state` returned, in a new estimator."""
        raise NotImplementedError


class Estimator(InspectMixin, Stored):
    """A storable estimator that learns from samples in the domain of a divergence."""

    divergence: str | Divergence = "squared_euclidean"
    _progress: Progress
    # Fitted attributes that `partial_fit` does not compute; the first access to one does.
    _lazy_attributes: ClassVar[tuple[str, ...]] = ()

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._lazy_attributes and "n_samples_seen_" in self.__dict__:
            self._set_lazy_attributes()
        return object.__getattribute__(self, name)  # raises the error of a property, if there was one

    def _set_lazy_attributes(self) -> None:
        """Publish the present codebook: set all attributes in `_lazy_attributes`."""
        raise NotImplementedError

    def _clear_lazy_attributes(self) -> None:
        for name in type(self)._lazy_attributes:
            self.__dict__.pop(name, None)

    def _changed(self: Any) -> None:
        """Count what has been learned; the first access computes the other fitted attributes again."""
        self._set_counts()
        self._clear_lazy_attributes()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_progress"}

    @all_or_nothing
    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from scratch from all samples, which are presented repeatedly as long as that helps.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data; never modified.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
            Classes or outputs; not used by a clusterer.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples, relative to their mean. Nothing is learned from samples of weight
            zero; a clusterer gives them labels, too.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        ValueError
            If a parameter is outside its range or a sample outside the domain of the divergence.
        """
        self.__dict__.pop("_progress", None)  # that of a stream before: a fit counts its own seconds
        with learning(), self._reporting():
            self._fit(X, y, sample_weight)
            self._count_weights()
            self._report_end()
        return self

    def _reporting(self) -> AbstractContextManager[None]:
        """Context manager for learning, which prints the progress if the estimator is `verbose`."""
        verbose = self.__dict__.get("verbose", 0)
        if not verbose:
            return nullcontext()
        progress = self.__dict__.setdefault("_progress", Progress(type(self).__name__))
        return reporting(progress, verbose)

    def _report_end(self: Any) -> None:
        if "_progress" in self.__dict__:
            self._progress.stage = ""
            self._progress.report(f"fitted {self.n_codevectors_} codevectors", always=True)
            del self._progress

    def _fit(self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        raise NotImplementedError

    @classmethod
    def load(cls, path: storage.PathOrFile, divergence: Divergence | None = None) -> Self:
        """Read an estimator from a model file; `partial_fit` continues exactly where it stopped.

        Parameters
        ----------
        path : str, path or binary file
            The file.
        divergence : Divergence, optional
            Needed if the estimator was saved with a user-defined divergence.

        Returns
        -------
        The estimator.

        Raises
        ------
        ValueError
            If the file is damaged or holds something else, or its divergence is unknown.
        """
        return cls._load(path, divergence=divergence)

    @property
    def _divergence(self) -> Divergence:
        return get_divergence(self.divergence)

    def _check_again(self, X: ArrayLike) -> Array:
        if "n_samples_seen_" not in self.__dict__:  # scikit-learn's check is as slow as a prediction
            check_is_fitted(self, "codevectors_")
        return check_samples(self, self._divergence, X, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self._divergence.minimum >= 0.0
        return tags


class StreamEstimator(Estimator):
    """An estimator that learns from all samples with `fit`, or from a stream with `partial_fit`."""

    @interrupts_wait
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Continue learning from one or more samples, in their order.

        How a stream is cut into chunks makes no difference, except for rounding.
        Until the annealing is done, some of the latest 200 samples are presented again with each sample.
        A single sample takes microseconds if `X`, of shape (1, n_features), and `y` are float64 arrays.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next samples; never modified.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
            As for `fit`.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples, each relative to the mean of all weights before it, those of a
            `fit` included; without, they are one. Nothing is learned from samples of weight zero;
            one at least must be positive.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        ValueError
            If a parameter is outside its range, or a sample is outside the domain of the divergence or
            has another shape than before.
        """
        if sample_weight is None and self._weights_seen.plain and self._learn_one(X, y):
            return self
        with self._reporting():
            self._partial_fit(X, y, sample_weight)
        return self

    def _partial_fit(self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        raise NotImplementedError

    def _learn_one(self: Any, X: Any, y: Any) -> bool:
        """Learn from a single sample on the fast path, if it needs no more checks; return whether."""
        run = self.__dict__.get("_run")
        if (
            run is None
            or self.verbose
            or not are_plain(self, run.settings.divergence, X)
            or self._annealing() is not run.settings
            or not self._observe_one(run, X, y)
        ):
            return False
        self._set_counts()
        if "codevectors_" in self.__dict__:
            self._clear_lazy_attributes()
        return True

    def _set_counts(self: Any) -> None:
        run = self._run
        self.n_samples_seen_ = run.n_seen
        self.temperature_ = inf if run.annealer is None else run.annealer.temperature
        self.converged_ = run.annealer is not None and run.annealer.done

    def _annealing(self) -> Any:
        """The settings of the run; the same object as long as no parameter changes."""
        return self._settings(begin=False)
