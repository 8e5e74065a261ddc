"""The kernel classifier: one function per class, a common dictionary."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from oda_rl._types import Array
from oda_rl._validation import check_kind
from oda_rl.estimators.classes import announced_classes, before_new_classes, join_classes
from oda_rl.estimators.parameters import AUTO, NON_NEGATIVE, choice
from oda_rl.rkhs.base import KernelSGD
from oda_rl.rkhs.functional_sgd import HINGE, LOGISTIC
from oda_rl.rkhs.hyperparameters import FITNESSES, Rules

# `parsimony` of the logistic loss, whose steps are about half as long as those of the hinge.
OF_LOGISTIC = 0.02


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
        max(0, 1 + f_r - f_y) with r the best wrong class, or the negative log of the softmax.
    scale : array-like of shape (n_features,), "standard", "auto" or None, default="auto"
        Scale of each feature: the kernel is computed of X / scale. `"standard"`: the standard deviations
        of the samples of `fit`. `"auto"`: the same if few features have nearly all of the variance, and
        deviations differ ten times or more; else None. If the estimator begins with `partial_fit`, only
        given numbers are used, otherwise X is not scaled.
    bandwidth : float or "auto", default="auto"
        d of the Gaussian kernel exp(-|x - x'|^2 / (2 d^2)), in the units of X / scale; if it adapts, its
        initial value. `"auto"`: `fit` tries about ten values on a part of the samples, 1000 at most, and
        keeps the one with the least loss on others of these (see Notes); the bandwidth then adapts only
        in calls of `partial_fit` that follow. If the estimator begins with `partial_fit`, the initial
        value is the square root of the number of features.
    adapt : sequence of str or str, default=("bandwidth",)
        The hyperparameters that adapt (BARRETTE): some of "bandwidth", "stepsize" and "regularization".
        Empty for POLK with fixed ones.
    stepsize : float, default=6.0
        Stepsize eta of the mean gradient of a mini-batch of `batch_size` samples.
    stepsize_halving : float or None, default=None
        The stepsize falls as 1 / (1 + n / stepsize_halving) with n samples seen. None keeps it constant,
        for streams that change.
    regularization : float, default=1e-6
        Weight lambda of |f|^2 / 2, by which each step shrinks the function.
    batch_size : int, default=16
        Samples of a mini-batch; the last one of a pass of `fit` may be shorter.
    parsimony : float or "auto", default="auto"
        K: after each mini-batch, points are dropped as long as the function changes by no more than
        K eta^(3/2) in the norm of the space, with eta times the mean weight of the samples of the
        mini-batch if that is below one. With 0 almost all points stay. `"auto"`: 0.04, but 0.02 for the
        logistic loss, whose steps are shorter, unless a number is given as `bandwidth`.
    max_points : int, default=1000
        Largest number of points in the dictionary. Beyond it the least important ones are dropped, even
        if the change exceeds the limit of `parsimony`.
    average : bool, default=True
        Whether predictions use the average of all functions so far, with larger weights for later ones,
        or the last function, as in the paper. After a change of a stream, the average lags behind for
        about half as many samples as came before the change: use the last function there.
    n_passes : int, default=1
        Passes of `fit` over the samples.
    fitness : {"auto", "likelihood", "loss"}, default="auto"
        What the bandwidth follows: the likelihood of new samples, as in the paper (see Notes), or the
        derivative of their loss with fixed weights. By the loss it becomes wider, with fewer points, and
        its final value depends on the initial one; by the likelihood it becomes too narrow for classes
        in many features. `"auto"`: the likelihood if a number is given as `bandwidth`, else the loss.
    ratio : float, default=1.15
        Ratio of neighbours in the finite set of values of an adaptive hyperparameter. The set reaches
        from 1/200 to 200 times the initial value.
    fitness_rate : float, default=0.01
        Rate gamma of the running average of the fitness, which is a plain mean at first.
    move_probability : float, default=0.9
        Probability that a move follows the fitness instead of going the opposite way.
    slowing : float, default=0.05
        A move is considered whenever this share of all samples seen, and at least 32 samples, have come
        since the last time. With 0 the chain never slows down.
    window : int, default=3000
        Number of past samples from which the likelihood of a bandwidth is estimated.
    transfer : {"keep", "project"}, default="keep"
        How the function changes when the bandwidth moves: the points keep their weights, or get new
        weights that keep the values at the points.
    random_state : int, RandomState instance or None, default=None
        Orders the samples of `fit`, and draws the moves of the hyperparameters.

    Attributes
    ----------
    dictionary_ : ndarray of shape (n_points, n_features)
        The points of the expansion.
    dual_coef_ : ndarray of shape (n_points, n_outputs)
        Their weights in each output.
    n_points_ : int
        The model order, which is the number of points.
    bandwidth_, stepsize_, regularization_ : float
        Current values of the hyperparameters; the stepsize without the decrease by `stepsize_halving`.
    bandwidth_history_ : ndarray of shape (n_batches,)
        The bandwidth after each mini-batch.
    history_ : dict of ndarray
        For each mini-batch `n_samples`, `loss`, `n_points`, `bandwidth`, `stepsize`, `regularization`.
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
    The function is f(x) = sum_j w_j k(d_j, x). A sample with a nonzero gradient becomes a point of the
    dictionary (eqs. 4 to 6). Destructive kernel orthogonal matching pursuit then drops points within the
    error budget.

    A hyperparameter is a Markov chain over a finite set: a running fitness R (eq. 7) determines the
    direction, and the next state is drawn from P(R) (eq. 8). For the bandwidth the fitness is the
    derivative of the log-likelihood of new samples under a kernel density estimate of past ones, which
    is zero at the fixed point of eq. 9. Eq. 9 is misprinted: the factors M - 1 and p belong in the
    denominator, and f is the density without the sample itself. The fixed point of Leiva-Murillo and
    Artes-Rodriguez is, for n samples in p dimensions,

        d^2 = (1 / (n p)) sum_i [sum_(j != i) |x_i - x_j|^2 k(x_i, x_j) / sum_(j != i) k(x_i, x_j)].

    Differences from the paper: the density estimate is made of past samples in a window instead of the
    dictionary, whose spacing depends on the bandwidth to be estimated. The chain stays if its state is
    the one nearest to the likeliest bandwidth, by Newton's method, and it moves more and more rarely.
    The fitness of the other hyperparameters is what a change of the last step would have gained on new
    samples.

    With narrow kernels, each step counts for few samples, and one pass finds the classes before outputs
    have the right size: probabilities are too close to each other. If `fit` chooses the bandwidth, it
    therefore multiplies the function after its first pass by the factor with the least loss on the last
    samples of the pass, 300 at most, before it learned from these. Trials are compared after such
    a factor, too. With a number as `bandwidth` there is no factor, as in the paper.

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
    >>> bool(model.score(X, y) > 0.95), bool(0.1 < model.bandwidth_ < 1.0)
    (True, True)
    """

    _: KW_ONLY
    parsimony: float | str = "auto"
    fitness: str = "auto"

    losses: ClassVar[dict[str, int]] = {"hinge": HINGE, "logistic": LOGISTIC}
    _by_classes: ClassVar[bool] = True

    def partial_fit(  # type: ignore[override]
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Continue learning from one or more samples, in their order.

        The result does not depend on how a stream is cut into chunks: samples that do not fill a
        mini-batch wait for the next ones, and predictions use them only from then on (those of the first
        mini-batch at once).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next samples; never changed.
        y : array-like of shape (n_samples,)
            Classes of the samples. New classes may appear at any time.
        classes : array-like of shape (n_classes,), optional
            Classes to be expected, so that outputs have columns for them from the beginning.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of the stepsize for each sample, divided by the mean of all before it, those of
            a `fit` included; without, they are one. Samples of weight zero are ignored.

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
        """The outputs f_c(x) for X (n_samples, n_features); the largest one determines the class.

        The shape is (n_samples, n_classes) with columns as in `classes_`. For two classes it is the
        second output minus the first, of shape (n_samples,).
        """
        values = self._outputs(X)
        return values[:, 1] - values[:, 0] if values.shape[1] == 2 else values

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The classes (n_samples,) of X (n_samples, n_features)."""
        best = self._outputs(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    @available_if(_is_logistic)
    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities (n_samples, n_classes) of the classes of X: the softmax of the outputs.

        Only available with the logistic loss. Rows sum to one.
        """
        return np.asarray(softmax(self._outputs(X), axis=1))

    @available_if(_is_logistic)
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Natural logarithms of `predict_proba`, of shape (n_samples, n_classes)."""
        return np.asarray(log_softmax(self._outputs(X), axis=1))

    @property
    def _parameter_constraints(self) -> dict[str, Any]:
        own = {"parsimony": [NON_NEGATIVE, AUTO], "fitness": [choice("auto", *FITNESSES)]}
        return super()._parameter_constraints | own

    def _read_parameters(self) -> Rules:
        rules = super()._read_parameters()
        if self._given_bandwidth is not None:  # what is "auto" is the paper's, the default of `Rules`
            return rules
        if self.fitness == "auto":
            rules = replace(rules, fitness="loss")
        if self.parsimony == "auto" and self.loss == "logistic":
            rules = replace(rules, parsimony=OF_LOGISTIC)
        return rules

    def _check(self, X: ArrayLike, y: ArrayLike, reset: bool) -> tuple[Array, NDArray[Any]]:
        samples, labels = validate_data(self, X, y, reset=reset, dtype=np.float64, order="C")
        check_kind(labels, "classes")
        check_classification_targets(labels)
        return samples, column_or_1d(labels)

    def _begin(self, labels: NDArray[Any]) -> int:
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least two classes, got one class, {self.classes_.tolist()[0]!r}; use "
                "partial_fit if more classes come later."
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
