"""The state of an `ODAClassifier`: an annealer for each class, in scaled features."""

from typing import Any

import numpy as np

from oda_rl._types import Array
from oda_rl.codebook.continuing import set_cells
from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.classification.annealing import (
    ClassSettings,
    capacities_of_stream,
    new_run,
)
from oda_rl.estimators.classification.book import ClassBook, LiveCells, book_of_session, move
from oda_rl.estimators.classification.fine_tuning import repel, tune
from oda_rl.estimators.classification.following import Following
from oda_rl.estimators.classification.judging import WIDTHS, Mixing, begin_mixing, learns_at_once, mixed
from oda_rl.estimators.classification.local_logits import LocalLogits
from oda_rl.estimators.classification.logit_view import LogitView
from oda_rl.estimators.classification.neighbors import Neighbors
from oda_rl.estimators.classification.one_sample import PreparedClasses
from oda_rl.estimators.classification.validation import Choice
from oda_rl.estimators.feature_scaling import NO_SCALING, Moments, Scaling
from oda_rl.estimators.session import Run
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.stream_weights import SeenWeights, within_classes
from oda_rl.estimators.targets import Data, make_place

# The annealing of a class begins after so many of its samples, as a part of `n_warmup`.
CLASS_WARMUP = 0.2
# Attributes that are stored without conversion.
STORED = ("n_seen", "n_measured", "n_fitted", "rescale_at", "mass", "counts", "n_tried", "trial_losses")


class ClassSession:
    """Learns classes from a stream of samples with `n_features`, possibly after a fit."""

    def __init__(self, settings: ClassSettings, n_features: int, rng: np.random.Generator) -> None:
        self.settings, self.rng = settings, rng
        self.n_features = n_features
        self.moments = Moments(n_features)
        self.scaling: Scaling = NO_SCALING
        self.runs: list[Run] = []
        self.mass, self.counts = np.empty(0), np.empty(0)
        self.weights: list[SeenWeights] = []  # those of each class
        self.choice = Choice(factor=1.0 if settings.shared else WIDTHS[0][1])
        self.n_tried, self.trial_losses = 0, np.zeros(len(WIDTHS))
        self.live: LiveCells | None = None  # arrays of `fixed`; None if a fit or a file has set it
        self.prepared = PreparedClasses()  # tables of addresses
        self.shared_width = 1.0
        self.following = Following()
        self.n_seen = self.n_measured = self.n_fitted = 0
        self.rescale_at = settings.annealing.n_warmup
        self.waiting = Data(np.empty((0, n_features)), np.empty(0, dtype=np.int64), np.empty(0))
        self.fixed: ClassBook | None = None
        self.local: LocalLogits | None = None
        self.mixing: Mixing | None = None  # if a stream chooses the weights of logits
        self.neighbors: Neighbors | None = None  # of a fit
        if settings.local_model == "linear":
            self.local = self.new_local()

    def new_local(self) -> LocalLogits:
        """Untrained local logits; those on trial wait for at least as many samples as features."""
        own = self.settings.annealing, self.n_features, self.n_classes, self.rng
        return LocalLogits(*own, 1 if self.settings.local_model == "linear" else self.n_features)

    @property
    def view(self) -> LogitView | None:
        """The local logits, if there are trained ones with a positive weight."""
        return self.local.view if self.local is not None and self.local.logits > 0.0 else None

    @property
    def divergence(self) -> Divergence:
        """The divergence, in scaled features."""
        return self.settings.annealing.divergence

    @property
    def n_classes(self) -> int:
        """Number of known classes."""
        return len(self.counts)

    @property
    def is_warm(self) -> bool:
        """Whether the annealing has begun."""
        return self.rescale_at > self.settings.annealing.n_warmup

    def resume(self, settings: ClassSettings) -> None:
        """Continue with other settings, if they have changed."""
        changed = settings != self.settings  # not if only parameters for printing or predicting have
        self.settings = settings
        if changed:
            self.prepared.clear()
            self._share_capacity()

    # -- classes ---------------------------------------------------------------------------------

    def insert_classes(self, places: list[int]) -> None:
        """Insert new classes, whose numbers among all classes are `places`, in ascending order."""
        shared = self.settings.shared
        for place in places:
            self.mass, self.counts = (np.insert(array, place, 0.0) for array in (self.mass, self.counts))
            self.weights.insert(place, SeenWeights())
            self.moments.insert(place)
            self.waiting = self.waiting._replace(targets=make_place(self.waiting.targets, place))
            if not shared:
                self.runs.insert(place, self.new_run())
            elif self.runs and self.runs[0].annealer is not None:
                self.runs[0].annealer.codebook.insert_column("votes", place)
        if shared:
            if not self.runs:
                self.runs.append(self.new_run())
            self.runs[0].payload = {"votes": (self.n_classes, "count")}
        if self.local is not None:
            self.local.insert_classes(places)
            if self.mixing is not None and places:
                begin_mixing(self, self.mixing.wait)
        if places:
            self.fixed = self.neighbors = None
            self._share_capacity()

    def new_run(self) -> Run:
        """A run without samples."""
        return new_run(self._own_settings(), self.n_features, self.rng)

    def _own_settings(self) -> Settings:
        """Settings of one annealer."""
        annealing, shared = self.settings.annealing, self.settings.shared
        n_classes = max(1, self.n_classes)
        capacity, warm = self.settings.capacity(n_classes), annealing.n_warmup
        share = capacity if shared else max(1, capacity // n_classes)
        if not shared:
            warm = min(warm, max(2, int(CLASS_WARMUP * warm)))
        return annealing._replace(max_codevectors=share, n_warmup=warm, finish=True)

    def _share_capacity(self) -> None:
        """Divide K_max among the classes; if cells exceed K_max, merge those beyond a class's share."""
        own = self._own_settings()
        sizes = [1 if run.annealer is None else len(run.annealer.codebook) for run in self.runs]
        shares = capacities_of_stream(sizes, self.settings.capacity(max(1, self.n_classes)))
        for run, share in zip(self.runs, shares, strict=True):
            run.resume(own._replace(max_codevectors=share))
            if run.annealer is not None and len(run.annealer.codebook) > share:
                run.annealer.codebook.merge_surplus(share)
                run.annealer.reference = run.annealer.codebook.location.copy()

    # -- a stream --------------------------------------------------------------------------------

    def observe(self, data: Data) -> None:
        """Learn from samples with class numbers, in their order."""
        self.n_seen += len(data.weight)
        self.fixed = None
        if self.local is not None and learns_at_once(self):
            self.local.observe(data)
        while len(data.weight) > 0:
            n = self.rescale_at - self.n_measured
            piece, data = data.take(slice(0, n)), data.take(slice(n, None))
            self._measure(piece)
            if self.is_warm:
                self._learn(piece, piece.weight)
            else:
                np.add.at(self.mass, piece.targets, piece.weight)
                self.waiting = self.waiting.joined(piece)
            if self.n_measured == self.rescale_at:
                self.rescale_at *= 2
                self._rescale()

    def _measure(self, data: Data) -> None:
        self.moments.observe(*data)
        self.n_measured += len(data.weight)
        np.add.at(self.counts, data.targets, 1.0)

    def _learn(self, data: Data, mass: Array) -> None:
        """Learn from raw samples; each adds its `mass` (n_samples,) to that of its class, if any."""
        data = data._replace(samples=self.scaling(data.samples))
        mode, fine_tune, shared = self.settings.mode, self.settings.fine_tune, self.settings.shared
        weight = data.weight if shared else within_classes(self.weights, data, self.counts)
        if mode == "conditional" and fine_tune is None:
            np.add.at(self.mass, data.targets, mass)
            for c in sorted(set(data.targets.tolist())):
                rows = np.flatnonzero(data.targets == c)
                self.runs[c].observe(data.samples[rows], weight[rows])
            return
        done = 0
        while done < len(data.weight) and not (mode == "conditional" and self.annealed):
            one = data.take(slice(done, done + 1))
            self.mass[one.targets[0]] += mass[done]
            run = self.runs[0 if shared else int(one.targets[0])]
            run.observe(one.samples, weight[done : done + 1])
            if shared:
                self._vote(one)
            elif mode == "lvq":
                repel(self, one)
            done += 1
        tune(self, data.take(slice(done, None)), mass[done:])

    def _vote(self, one: Data) -> None:
        """Count a vote for a class in the nearest cell; splits and merges take the payload along."""
        annealer = self.runs[0].annealer
        if annealer is not None:
            book = annealer.codebook
            distance = self.divergence(one.samples, book.codevectors)
            book["votes"][one.targets[0], int(distance.argmin())] += one.weight[0]

    def _rescale(self) -> None:
        """Scale features by their present moments; codevectors do not move in the units of the data."""
        if len(self.scaling.matrix) == 0 and len(self.waiting.weight) == 0:
            return  # features stay unscaled, as a fit has chosen
        old = self.scaling
        self.scaling = self.moments.scaling(self.settings.scale, self.divergence)
        if len(self.waiting.weight) > 0:
            waiting, self.waiting = self.waiting, self.waiting.take(slice(0, 0))
            self._learn(waiting, np.zeros(len(waiting.weight)))  # their mass has been added
        elif self.settings.scale is not None:
            for run in self.runs:
                move(run, old, self.scaling)

    # -- a fit -----------------------------------------------------------------------------------

    def begin(self, data: Data, n_classes: int) -> Data:
        """Begin a fit: compute the moments of the samples, and return the scaled samples."""
        self.insert_classes(list(range(n_classes)))
        samples, labels, weight = data
        self.moments.observe(samples, labels, weight)
        self.mass = np.bincount(labels, weight, n_classes).astype(float)
        self.counts = np.bincount(labels, minlength=n_classes).astype(float)
        self.n_measured = len(weight)
        self.rescale_at = 2 * max(len(weight), self.settings.annealing.n_warmup)
        self.scaling = self.moments.scaling_for(self.settings.scale, self.divergence, *data, self.rng)
        return data._replace(samples=self.scaling(samples))

    def set_book(self, book: ClassBook, votes: Array | None) -> None:
        """Set the final codebook of a fit, also in the codebooks of the runs."""
        for c, run in enumerate(self.runs):
            assert run.annealer is not None
            own = slice(None) if self.settings.shared else book.labels == c
            cells = run.annealer.codebook
            codevectors = book.codevectors[own]
            k = len(codevectors)
            # They may come from another temperature, and fine-tuning may leave some without samples.
            while len(cells) > k:
                cells.remove(k)
            for location in codevectors[len(cells) :]:
                cells.add(location)
            if votes is not None:
                cells["votes"][:] = votes
            run.annealer.harden = True
            # samples that were presented repeatedly do not make means more precise
            n = int(self.counts.sum() if self.settings.shared else self.counts[c])
            own_cells = codevectors, book.weights[own], book.spreads[own]
            set_cells(run.annealer, *own_cells, min(run.annealer.n, n))
        self.fixed, self.live = book, None

    # -- what has been learned -------------------------------------------------------------------

    @property
    def annealed(self) -> bool:
        """Whether the annealing of all classes is done."""
        return all(run.annealer is not None and run.annealer.done for run in self.runs)

    @property
    def temperature(self) -> float:
        """The lowest temperature of all classes; infinite before the annealing has begun."""
        return min((r.annealer.temperature for r in self.runs if r.annealer), default=np.inf)

    def relevances(self) -> Array:
        """How much a standard deviation of each feature counts in the distance; they sum to one."""
        _, total = self.moments.variances()
        own = total * (self.matrix**2).sum(axis=1)
        return own / own.sum() if own.sum() > 0.0 else np.full(len(own), 1.0 / len(own))

    @property
    def matrix(self) -> Array:
        """The matrix of the scaling, (n_features, n_features)."""
        return self.scaling.matrix if len(self.scaling.matrix) > 0 else np.eye(self.n_features)

    def book(self) -> ClassBook:
        """The current codebook."""
        if self.fixed is None:
            self.fixed = book_of_session(self)
        return self.fixed

    def live_book(self) -> tuple[ClassBook, LiveCells]:
        """The current codebook, which is updated in place, and the cells that it consists of."""
        if self.live is None:  # a fit or a file has made the book
            self.fixed = None
        book = self.book()
        assert self.live is not None
        return book, self.live

    def __getstate__(self) -> dict[str, Any]:
        # A codebook of live cells has views of their arrays, but a copy would not: both are remade.
        fixed = None if self.live is not None else self.fixed
        return vars(self) | {"live": None, "fixed": fixed, "prepared": PreparedClasses()}

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return the state as plain values and arrays, for a model file."""
        return {
            **{name: getattr(self, name) for name in STORED},
            "weights": [list(seen) for seen in self.weights],
            "rng": self.rng.bit_generator.state,
            "choice": self.choice._asdict(),
            "following": dict(vars(self.following)),
            "moments": vars(self.moments),
            "scaling": self.scaling._asdict(),
            "waiting": self.waiting._asdict(),
            "book": self.book()._asdict(),
            "runs": [[run.settings.max_codevectors, run.get_state()] for run in self.runs],
            "local": None if self.local is None else self.local.get_state(),
            "mixing": None if self.mixing is None else dict(vars(self.mixing)),
            **({} if self.neighbors is None else {"neighbors": self.neighbors.get_state()}),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `get_state` returned, in a new session."""
        for name in STORED:
            setattr(self, name, state[name])
        self.weights = [SeenWeights(*seen) for seen in state["weights"]]
        vars(self.moments).update(state["moments"])
        self.choice = Choice(**state["choice"])
        vars(self.following).update(state["following"])
        self.scaling = Scaling(**state["scaling"])
        self.waiting = Data(**state["waiting"])
        self.fixed = ClassBook(**state["book"])
        for max_codevectors, own in state["runs"]:
            run = self.new_run()
            run.settings = run.settings._replace(max_codevectors=max_codevectors)
            if self.settings.shared:
                run.payload = {"votes": (self.n_classes, "count")}
            run.set_state(own)
            self.runs.append(run)
        self.local = None
        if state["local"] is not None:
            self.local = self.new_local()
            self.local.set_state(state["local"])
        if state["mixing"] is not None:
            self.mixing = Mixing()
            vars(self.mixing).update(state["mixing"])
        if "neighbors" in state:
            self.neighbors = Neighbors.restored(state["neighbors"])
        self.rng.bit_generator.state = state["rng"]

    def log_joint(self, samples: Array, distance: Array) -> Array:
        """log(pi_c p(x | c)) (eq. 35) from `distance`, mixed with logits and neighbors of `samples`."""
        return mixed(self, self.book().log_joint(distance), self.view, samples)
