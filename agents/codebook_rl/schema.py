"""Schema of the state of a codebook learner in a model file (see `oda_rl._schema`)."""

from math import prod
from typing import Any, NamedTuple

import numpy as np

from oda_rl._schema import Rules, Schema, Sized, Sizes, expect
from oda_rl._validation import LARGEST
from oda_rl.agents.bounds import LARGEST_ERROR
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.arrays import Sizes as ArraySizes
from oda_rl.agents.codebook_rl.recording import row_length
from oda_rl.agents.schema import rows_schema, scale_schema, shared_schema
from oda_rl.agents.warm_up import plan_warm_up
from oda_rl.codebook.annealer_state import ANNEALER
from oda_rl.codebook.book import BOOK

# Accepted range (low, high) of running figures; all others may be any number, including +-infinity.
SIZE = (0.0, LARGEST_ERROR)
FIGURES = {
    names.NEXT_SLOW: (0.0, np.inf),
    names.TD_ERROR: SIZE,
    names.DISTORTION: SIZE,
    names.COMMON_RATE: (0.0, 1.0),
    names.MEAN_ERROR: SIZE,
    names.MEAN_ERROR_WEIGHT: (0.0, 1.0),
    names.LARGEST_ERROR: SIZE,
    names.ACTOR_UNIT: SIZE,
    **dict.fromkeys((names.MEAN_SQUARE, names.UNEXPLAINED), (0.0, np.inf)),
    **dict.fromkeys((names.KNOWN_STEPS, names.WENT_ON), (0.0, np.inf)),
}

# Stepsizes of 1 may be rounded up when cells merge.
LARGEST_RATE = 1.0 + 1e-9

# SLOW and TREE describe `SlowTimescale.get_state`; TREE is its "tree". LEDGER describes the `Ledger`.
SLOW = {
    "annealer": {name: own for name, own in ANNEALER.items() if name != "reference"},
    "t_max": "float in (0, inf)",
    "t_min": "float in (0, inf)",
    "codebook": BOOK,
}
TREE = {
    "normal": "float[N, obs]",
    "offset": "float[N]",
    "child": "int[N, 2] in [-N-1, N)",
    "branch": "int[K] in [0, N+1)",
}
LEDGER = rows_schema(
    names.Ledger,
    paid="float[E, N+1]",
    alive="bool[E, N+1]",
    living="int[E, N+1] in [0, N+1)",
    n_living="int[E] in [0, N+1]",
)


def _is_a_tree(tree: Any, sizes: Sizes) -> None:
    """Check that every branch, and every node but the first, is the child of exactly one earlier node.

    The cells must be in the order of their branches, with 1 to `BRANCH_WIDTH` cells in each branch.
    """
    child, n = tree["child"], sizes["N"]
    each = np.sort(child.ravel())
    right = np.array_equal(each, [*range(-n - 1, 0), *range(1, n)] if n else [])
    right = right and bool(np.all((child < 0) | (child > np.arange(n)[:, None])))
    expect(right, "child", "is not a tree", "every node and branch exactly once, after its parent")
    branch, most = tree["branch"], names.BRANCH_WIDTH
    counts = np.bincount(branch, minlength=n + 1)
    right = bool(np.all(branch[1:] >= branch[:-1]) and np.all((counts >= 1) & (counts <= most)))
    expect(
        right,
        "branch",
        "is not sorted, or has a branch with too many or no cells",
        f"sorted branches of 1 to {most} cells",
    )


def _lists_the_living(ledger: Any, sizes: Sizes) -> None:
    """Check that `living` lists exactly the branches that are `alive`."""
    pairs = zip(ledger["alive"], ledger["living"], ledger["n_living"], strict=True)
    for alive, living, n in pairs:
        right = np.array_equal(np.sort(living[:n]), np.flatnonzero(alive))
        expect(right, "living", "does not match alive", "each cell that is alive exactly once")


class _Room(NamedTuple):
    """Sizes of the learner's arrays, and the schemas and rules that depend on them."""

    arrays: ArraySizes
    n_states: int  # of a table; 0 without one
    has_tree: bool
    slow_every: float

    def slow(self, around: Any, sizes: Sizes) -> Schema:
        """Return the schema of the slow timescale, with N planes between the branches.

        Without a known tree, N is set here: from the number of states of a table, else to 0.
        """
        known = self.has_tree and around["warm_up"]["is_known"]
        if not known:
            sizes["N"] = max(0, self.n_states - 1) // names.BRANCH_WIDTH
        if self.n_states:
            return {"payload": Sized("float[P, K]", K=self.n_states)}
        if around["warm_up"]["is_known"]:
            return SLOW | {"tree": Rules(TREE, _is_a_tree) if known else {}}
        return {}

    def _cells(self, state: Any) -> tuple[str, Any]:
        """Return the path of the cells in the file, and their arrays: none before there are cells."""
        place = "slow" if self.n_states else "slow/codebook"
        return place, state["slow"].get("codebook", state["slow"])

    def _rows(self, state: Any) -> tuple[str, dict[str, Any]]:
        """Return the path of the cells' payload in the file, and its rows by field name."""
        (place, cells), fields = self._cells(state), self.arrays.payload
        ends = np.cumsum([n for n, _ in fields.values()])
        parts = np.split(cells.get("payload", np.empty((0, 0))), ends[:-1])
        return f"{place}/payload", dict(zip(fields, parts, strict=True))

    def fits(self, state: Any, sizes: Sizes) -> None:
        """Check the phase, the running figures, and the size and magnitudes of the codebook."""
        known, phase = state["warm_up"]["is_known"], int(state["counters"][names.PHASE])
        right = (phase == names.GROWING and not self.n_states) or (known and phase == names.LEARNING)
        expect(right, "counters", f"has the phase {phase}", "0, or 1 after the warm-up or for a table")
        never = state["figures"][names.NEXT_SLOW] == np.inf
        expect(
            never == (self.n_states > 0) or (never and self.slow_every == np.inf),
            "figures",
            "has an invalid time of the next slow update",
            "infinity for a table, else a finite time unless slow_every is infinite",
        )
        for figure, (low, high) in FIGURES.items():
            right = low <= state["figures"][figure] <= high
            expect(
                right, "figures", f"has {state['figures'][figure]} at index {figure}", f"{low} to {high}"
            )
        place, cells = self._cells(state)
        # traces reach some multiples of NOWHERE before their common factor is multiplied out
        for name, most in (("location", names.NOWHERE), ("axis", names.NOWHERE), ("payload", LARGEST)):
            largest = np.abs(cells.get(name, 0.0)).max(initial=0.0)
            expect(largest <= most, f"{place}/{name}", f"has {largest:.2g}", f"up to {most:g}")
        k, n, room, most = sizes.get("K", 0), sizes["N"], self.arrays.capacity, self.arrays.max_cells
        expect(k <= room, "slow/codebook/weight", f"has {k} cells", f"at most {room}, twice max_cells")
        expect(n < most, "slow/tree/offset", f"has {n} planes", f"fewer than max_cells, {most}")

    def learns(self, state: Any, sizes: Sizes) -> None:
        """Check the visits and stepsizes, and that only an annealing learner has paused."""
        place, rows = self._rows(state)
        right = all(bool(np.all(rows[name] >= 0.0)) for name in ("visits", "rate", "density"))
        right = right and bool(np.all(rows["rate"] <= LARGEST_RATE))
        accepted = "non-negative numbers, stepsizes of at most 1"
        expect(right, place, "has invalid visit counts or stepsizes", accepted)
        done = int(state["counters"][names.LEVEL_DONE])
        anneals = state["warm_up"]["is_known"] and not self.n_states
        right = done == 0 or (anneals and done == names.FINISHED)
        right = right or (anneals and done == names.VISITED and self.arrays.has_critic)
        expect(right, "counters", f"has the pause code {done}", "0, or a code that this agent uses")

    def leads(self, state: Any, sizes: Sizes) -> None:
        """Check that each state-action pair of a table led to a state, or to the end of an episode."""
        place, rows = self._rows(state)
        states = f"states from 0 to {self.n_states - 1}, or -1"
        for name in ("next", "outcome"):
            led_to = rows.get(name, np.empty(0))
            right = bool(np.all((led_to >= -1) & (led_to < self.n_states) & (led_to % 1 == 0)))
            expect(right, place, "has an invalid next state", states)
        share = rows.get("share", np.empty(0))
        right = bool(np.all((share >= 0.0) & (share <= LARGEST_RATE)))
        expect(right, place, "has invalid shares of next states", "numbers from 0 to 1")

    def remembers(self, state: Any, sizes: Sizes) -> None:
        """Check that the memory of the last step refers to branches and cells that exist."""
        only, n_found = state["memory"]["only"], state["memory"]["n_found"]
        branched = self.has_tree or self.n_states
        found = np.minimum(n_found, sizes["F"])
        places = found * (names.BRANCH_WIDTH if branched else sizes.get("K", 0))
        near = max(1, self.arrays.near_branches) if state["warm_up"]["is_known"] else 0
        right = np.all(n_found <= min(sizes["F"], near))
        expect(right, "memory/n_found", "is too large", "at most the number of branches in use")
        expect(np.all(only < places), "memory/only", "is out of range", "a cell that was found, or -1")
        right = np.all((n_found == 0) | (state["memory"]["norm"] > 0.0))
        expect(right, "memory/norm", "is not positive although cells were found", "a positive number")


def _ledger(around: Any, sizes: Sizes) -> Schema:
    return Rules(LEDGER, _lists_the_living) if around["warm_up"]["is_known"] else {}


def codebook_schema(config: Any, actions: Any, observations: Any, n_envs: int) -> Schema:
    """Return the schema of `TwoTimescaleLearner.get_state`."""
    n_states = prod(observations.counts.tolist()) if observations.is_table else 0
    arrays = ArraySizes.of(observations.n_features, actions, n_envs, config, n_states)
    room = _Room(arrays, n_states, config.tree and not n_states, config.slow_every)
    location = arrays.n_features + arrays.n_products
    memory = rows_schema(
        names.Memory,
        **{"found": "int[E, F] in [0, N+1)", "n_found": "count[E]", "only": "int[E] in [-1, inf)"},
        **{"action": f"int[E] in [0, {actions.n_actions})", "held": "count[E]"},
        **{"norm": "float[E] in [0, inf)", "trace_scale": "float[E] in (0, inf)"},
        z=f"float[E, {location}]",
        recent=f"int[E, {arrays.n_recent}] in [0, {max(1, n_states) * arrays.n_actions})",
        n_recent="count[E]",
        waiting="count[E]",
        reach="float[E] in [0, inf)",
        total="float[E] in [-inf, inf]",  # the sum of rewards that are not bounded
        noise=f"float[E, {max(1, arrays.n_coordinates) + 1}] in [0, 1]",
    )
    most = plan_warm_up(config.warmup_steps)
    entries = shared_schema(scale_schema(most, observations, row_length(arrays)), memory)
    entries |= {
        "slow": room.slow,
        "ledger": _ledger,
        "memory": entries.pop("memory"),  # checked after `slow`, which determines its sizes
        "counters": f"count[{names.N_COUNTERS}]",
        "figures": f"float[{names.N_FIGURES}] in [-inf, inf]",
        "errors": "float[errors] in [0, inf)",
        "tally": f"count[{names.N_TALLY}]",
    }
    n_rows = sum(size for size, _ in arrays.payload.values())
    whole = Rules(entries, room.fits, room.learns, room.leads, room.remembers)
    return Sized(whole, n=arrays.n_features, labels=arrays.n_labels, P=n_rows)
