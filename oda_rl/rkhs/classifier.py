"""The classifier: one function of the kernel's Hilbert space for each class, one dictionary for all."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from oda_rl.estimators.classes import announced_classes, before_new_classes, join_classes
from oda_rl.estimators.targets import check_kind
from oda_rl.rkhs.base import Array, KernelSGD
from oda_rl.rkhs.functional_sgd import HINGE, LOGISTIC


def _is_logistic(model: "KernelSGDClassifier") -> bool:
    return model.loss == "logistic"


@dataclass(eq=False, repr=False)
class KernelSGDClassifier(ClassifierMixin, KernelSGD):
    """A kernel classifier that learns from a stream and finds its bandwidth: BARRETTE, POLK.

    Functional stochastic gradient descent with a Gaussian kernel, one output for each class and one
    dictionary for all, kept small by sparse projections.

    Parameters
    ----------
    loss : {"hinge", "logistic"}, default="hinge"
        max(0, 1 + f_r - f_y), r the best wrong class, or minus the log of the softmax.
    scale : array-like of shape (n_features,), "standard", "auto" or None, default="auto"
        What counts as a large difference of each feature: the kernel is taken of X / scale.
        `"standard"`: a standard deviation of the samples of `fit`. `"auto"`: the same where few features
        have nearly all of the variance, and deviations differ ten times or more; else None. A stream
        that `partial_fit` begins stays as it is but for given numbers.
    bandwidth : float, default=1.0
        d of the Gaussian kernel exp(-|x - x'|^2 / (2 d^2)), in the units of X / scale; where it
        begins, if it adapts.
    adapt : sequence of str or str, default=("bandwidth",)
        Which hyperparameters move (BARRETTE): some of "bandwidth", "stepsize" and "regularization".
        Empty for POLK with fixed ones.
    stepsize : float, default=6.0
        eta, of the mean gradient of a mini-batch of `batch_size` samples.
    stepsize_halving : float or None, default=None
        The stepsize falls as 1 / (1 + n / stepsize_halving), n the samples seen; None keeps it constant,
        for streams that change.
    regularization : float, default=1e-6
        lambda.
    batch_size : int, default=16
        Samples of a mini-batch; the last one of a pass of `fit` may be shorter.
    parsimony : float, default=0.04
        K: after each mini-batch, points are dropped while the function moves by no more than
        K eta^(3/2) in the norm of the space. With 0 almost all points stay.
    max_points : int, default=1000
        The dictionary never has more points; the least important ones go, whatever it costs.
    average : bool, default=True
        Whether predictions are made by the average of the functions so far, the later ones weighing
        more, or by the last one, as in the paper.
    n_passes : int, default=1
        Passes of `fit` over the samples.
    fitness : {"likelihood", "loss"}, default="likelihood"
        What the bandwidth follows: the likelihood of new samples (see Notes), or the derivative of their
        loss, the weights being as they are. By the loss it ends wider with fewer points, and where it
        ends depends on where it begins.
    ratio : float, default=1.15
        Of neighbours in the finite set of values that a hyperparameter moves in, from 1/200 of where it
        begins to 200 times that.
    fitness_rate : float, default=0.01
        gamma, with which the running fitness is averaged; a plain mean at first.
    move_probability : float, default=0.9
        Probability that a move goes where the fitness points, and not the other way.
    slowing : float, default=0.05
        A move is considered after this share of all samples seen, and at least 32; with 0 the chain
        never slows down.
    window : int, default=3000
        Past samples that the likelihood of a bandwidth is taken from.
    transfer : {"keep", "project"}, default="keep"
        What happens to the function when the bandwidth moves: the points keep their weights, or get
        those with which the values at the points stay the same.
    random_state : int, RandomState instance or None, default=None
        Orders the samples of `fit`, and draws the moves of the hyperparameters.

    Attributes
    ----------
    dictionary_ : ndarray of shape (n_points, n_features)
        The points of the expansion.
    dual_coef_ : ndarray of shape (n_points, n_outputs)
        Their weights in each output.
    n_points_ : int
        The model order.
    bandwidth_, stepsize_, regularization_ : float
        Where the hyperparameters stand; the stepsize before it falls.
    bandwidth_history_ : ndarray of shape (n_batches,)
        The bandwidth after each mini-batch.
    history_ : dict of ndarray
        Of each mini-batch: `n_samples`, `loss`, `n_points`, `bandwidth`, `stepsize`, `regularization`.
    n_samples_seen_ : int
        Samples learned from so far, repetitions included.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had them.

    Notes
    -----
    The function is f(x) = sum_j w_j k(d_j, x). A sample with a gradient becomes a point of the
    dictionary (eqs. 4 to 6); destructive kernel orthogonal matching pursuit then drops points within the
    budget.

    A hyperparameter is a Markov chain over a finite set: a running fitness R (eq. 7) tells which way to
    go, and the next state is drawn from P(R) (eq. 8). For the bandwidth the fitness is the derivative of
    the log-likelihood of new samples under a kernel density estimate of past ones; it is zero where
    eq. 9 has its fixed point. Eq. 9 is misprinted: the factors M - 1 and p belong below the line, and f
    is the density without the sample itself. The fixed point of Leiva-Murillo and Artes-Rodriguez is,
    for n samples in p dimensions,

        d^2 = (1 / (n p)) sum_i [sum_(j != i) |x_i - x_j|^2 k(x_i, x_j) / sum_(j != i) k(x_i, x_j)].

    What differs from the paper: the likelihood is that of past samples in a window and not of the
    dictionary, whose spacing follows the bandwidth that it should tell; the chain stays where the
    likeliest bandwidth, by Newton's method, is nearest to its state, and moves ever more rarely. The
    other hyperparameters follow what the last step would have gained on new samples.

    References
    ----------
    Koppel, Bedi and Krishnamurthy, "A Dynamical Systems Perspective on Online Bayesian Nonparametric
    Estimators with Adaptive Hyperparameters", sections 3 and 5, Algorithm 1.
    Koppel, Warnell, Stump and Ribeiro, "Parsimonious Online Learning with Kernels via Sparse Projections
    in Function Space", Journal of Machine Learning Research 20, 2019.
    Leiva-Murillo and Artes-Rodriguez, "Algorithms for maximum-likelihood bandwidth selection in kernel
    density estimators", Pattern Recognition Letters 33, 2012.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from oda_rl import KernelSGDClassifier
    >>> X, y = make_moons(2000, noise=0.2, random_state=0)
    >>> model = KernelSGDClassifier(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), bool(0.05 < model.bandwidth_ < 0.3)
    (True, True)
    """

    losses: ClassVar[dict[str, int]] = {"hinge": HINGE, "logistic": LOGISTIC}
    _by_classes: ClassVar[bool] = True

    def partial_fit(  # type: ignore[override]
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from samples in their order, one or many, and go on from what is there.

        How a stream is cut into chunks makes no difference: the samples of a mini-batch that is not full
        wait for the others, and count in predictions from then on (those of the first one at once).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next samples; never changed.
        y : array-like of shape (n_samples,)
            Their classes. New classes may come at any time.
        classes : array-like of shape (n_classes,), optional
            Classes that will come, so that outputs have columns for them from the beginning.
        sample_weight : array-like of shape (n_samples,), optional
            Multiplies the stepsize of each sample.

        Returns
        -------
        KernelSGDClassifier
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter is outside its range or samples are not numbers.
        """
        return self._go_on(X, y, sample_weight, announced_classes(classes))

    def decision_function(self, X: ArrayLike) -> Array:
        """The outputs f_c(x) of X (n_samples, n_features), the largest of which tells the class.

        Of shape (n_samples, n_classes), columns as in `classes_`; of two classes the second output minus
        the first, of shape (n_samples,).
        """
        values = self._outputs(X)
        return values[:, 1] - values[:, 0] if values.shape[1] == 2 else values

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The classes (n_samples,) of X (n_samples, n_features)."""
        best = self._outputs(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    @available_if(_is_logistic)
    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities of the classes, with the logistic loss: the softmax of the outputs.

        Of X (n_samples, n_features), of shape (n_samples, n_classes); rows sum to one.
        """
        return np.asarray(softmax(self._outputs(X), axis=1))

    @available_if(_is_logistic)
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Natural logarithms of `predict_proba`, of shape (n_samples, n_classes)."""
        return np.asarray(log_softmax(self._outputs(X), axis=1))

    def _check(self, X: ArrayLike, y: ArrayLike, reset: bool) -> tuple[Array, NDArray[Any]]:
        samples, labels = validate_data(self, X, y, reset=reset, dtype=np.float64, order="C")
        check_kind(labels, "classes")
        check_classification_targets(labels)
        return samples, column_or_1d(labels)

    def _begin(self, labels: NDArray[Any]) -> int:
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least two classes, got one class, {self.classes_.tolist()[0]!r}; "
                "partial_fit takes classes as they come."
            )
        return len(self.classes_)

    def _pieces(self, labels: NDArray[Any], classes: NDArray[Any] | None) -> list[slice]:
        known = None if self._machine is None else self.classes_
        return before_new_classes(labels, known, classes)

    def _extend(self, labels: NDArray[Any], classes: NDArray[Any] | None) -> int:
        known = labels[:0] if self._machine is None else self.classes_
        coming = [] if classes is None else [classes]
        self.classes_ = join_classes(known, *coming, labels)
        if self._machine is not None and len(self.classes_) > len(known):
            self._machine.set_outputs(np.searchsorted(self.classes_, known), len(self.classes_))
        return len(self.classes_)

    def _numbers(self, labels: NDArray[Any]) -> Array:
        return np.searchsorted(self.classes_, labels)[:, None].astype(np.float64)
