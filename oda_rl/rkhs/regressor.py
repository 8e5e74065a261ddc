"""The regressor: one function of the kernel's Hilbert space for each output."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from oda_rl.rkhs.base import Array, KernelSGD
from oda_rl.rkhs.functional_sgd import HUBER, SQUARED
from oda_rl.rkhs.machine import KernelMachine


class KernelSGDRegressor(RegressorMixin, KernelSGD):
    """Kernel regression that learns from a stream and finds its bandwidth: BARRETTE, POLK.

    Functional stochastic gradient descent with a Gaussian kernel and one dictionary for all outputs,
    kept small by sparse projections. Features should have similar scales, and outputs one of about 1.

    The bandwidth follows how densely the inputs lie, not how the function bends: with much noise in the
    outputs a wider one, given and fixed, does better.

    Parameters
    ----------
    loss : {"squared", "huber"}, default="squared"
        (f - y)^2 / 2, or the same up to an error of `huber_width` and linear beyond.
    huber_width : float, default=1.0
        In the units of y.
    bandwidth : float, default=1.0
        d of the Gaussian kernel exp(-|x - x'|^2 / (2 d^2)), in the units of X; where it begins, if it
        adapts.
    adapt : sequence of str or str, default=("bandwidth",)
        Which hyperparameters move (BARRETTE): some of "bandwidth", "stepsize" and "regularization".
        Empty for POLK with fixed ones.
    stepsize : float, default=0.5
        eta, of the mean gradient of a mini-batch of `batch_size` samples. A sample counts
        eta / batch_size in a shorter mini-batch too.
    stepsize_halving : float or None, default=None
        The stepsize falls as 1 / (1 + n / stepsize_halving), n the samples seen; None keeps it constant,
        for streams that change.
    regularization : float, default=1e-6
        lambda.
    batch_size : int, default=1
        Samples of a mini-batch. With one, any stepsize below 2 is stable; of a larger one with the
        squared loss, those below 2 over the share of samples that are similar.
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
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had them.

    Notes
    -----
    The function and its hyperparameters learn as those of `KernelSGDClassifier` do.

    References
    ----------
    As for `KernelSGDClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl import KernelSGDRegressor
    >>> X = np.random.default_rng(0).uniform(0.0, 6.0, (2000, 1))
    >>> model = KernelSGDRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    losses = {"squared": SQUARED, "huber": HUBER}  # noqa: RUF012

    def __init__(
        self,
        loss: str = "squared",
        *,
        huber_width: float = 1.0,
        bandwidth: float = 1.0,
        adapt: Any = ("bandwidth",),
        stepsize: float = 0.5,
        stepsize_halving: float | None = None,
        regularization: float = 1e-6,
        batch_size: int = 1,
        parsimony: float = 0.04,
        max_points: int = 1000,
        average: bool = True,
        n_passes: int = 1,
        fitness: str = "likelihood",
        ratio: float = 1.15,
        fitness_rate: float = 0.01,
        move_probability: float = 0.9,
        slowing: float = 0.05,
        window: int = 3000,
        transfer: str = "keep",
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.huber_width = huber_width
        self.bandwidth = bandwidth
        self.adapt = adapt
        self.stepsize = stepsize
        self.stepsize_halving = stepsize_halving
        self.regularization = regularization
        self.batch_size = batch_size
        self.parsimony = parsimony
        self.max_points = max_points
        self.average = average
        self.n_passes = n_passes
        self.fitness = fitness
        self.ratio = ratio
        self.fitness_rate = fitness_rate
        self.move_probability = move_probability
        self.slowing = slowing
        self.window = window
        self.transfer = transfer
        self.random_state = random_state

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from samples in their order, one or many, and go on from what is there.

        A chunk is divided into mini-batches, the last of which may be shorter; a sample has the same
        stepsize in any of them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next samples; never changed.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Outputs; never changed.
        sample_weight : array-like of shape (n_samples,), optional
            Multiplies the stepsize of each sample.

        Returns
        -------
        KernelSGDRegressor
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter is outside its range or samples are not numbers.
        """
        first = not hasattr(self, "_machine")
        rules = self._rules() if first else self._machine.rules
        samples, outputs = self._check(X, y, reset=first)
        weight = self._weights_of(samples, sample_weight)
        if first:
            n_outputs = self._begin(outputs)
            self._machine = KernelMachine(samples.shape[1], n_outputs, rules, self._generator())
        elif outputs[:1].size != self._machine.n_outputs:
            raise ValueError(
                f"y must have {self._machine.n_outputs} outputs, as before, got {outputs[:1].size}."
            )
        return self._learn(samples, outputs, weight, None)

    def predict(self, X: ArrayLike) -> Array:
        """The function at every sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            As the outputs that were learned from.
        """
        values = self._outputs(X)
        return values[:, 0] if self._flat else values

    def _check(self, X: ArrayLike, y: ArrayLike, reset: bool) -> tuple[Array, Array]:
        samples, outputs = validate_data(
            self, X, y, reset=reset, dtype=np.float64, order="C", multi_output=True, y_numeric=True
        )
        return samples, np.asarray(outputs, dtype=np.float64)

    def _begin(self, outputs: Array) -> int:
        self._flat = outputs.ndim == 1
        return outputs[:1].size

    def _numbers(self, outputs: Array) -> Array:
        return outputs.reshape(len(outputs), -1)

    def _outputs_state(self) -> dict[str, Any]:
        return {"flat": self._flat}

    def _set_outputs_state(self, state: dict[str, Any]) -> None:
        self._flat = bool(state["flat"])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
