"""Schema of an agent's model file, without the parts that each learner adds (see `oda_rl._schema`)."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from math import prod
from typing import Any, get_type_hints

import numpy as np
from gymnasium import spaces

from oda_rl._schema import GENERATOR, Either, Rules, Schema, Sizes, anything, expect, maybe
from oda_rl._schema_texts import MAX_COUNT, ArraySpec
from oda_rl.agents.actions import ActionCodec, join_parts, restore_space
from oda_rl.agents.codecs import COMPONENTS, MOST_SEEN, Components, PrincipalCodec
from oda_rl.agents.encoding import Encoding, make_codec
from oda_rl.agents.observation_parts import MOST_FEATURES
from oda_rl.agents.observations import ObservationCodec
from oda_rl.agents.random_blocks import BLOCK
from oda_rl.envs.names import is_env_id
from oda_rl.envs.spaces import LARGEST

# Largest values accepted in a file: `n` of a Discrete space, number of environments, size of `start`.
MOST_VALUES, MOST_ENVS, FARTHEST_START = 2**17, 2**14, 2**62
# Widest range of observations in a file; they are clipped at a thousand ranges, which must be finite
WIDEST = 1e300
# What a change of an environment may affect; "all" stands for a wrapper of which nothing is known
CHANGED = "observations", "actions", "rewards", "dynamics", "all"
# The name of the statistics of normalised observations that are a Box
BOX = "observation"
# Most levels of lists and dictionaries in a keyword argument of an environment
DEEPEST_ARGUMENT = 4
KINDS = {"float64": "float", "int64": "int", "bool": "bool"}


# -- spaces ------------------------------------------------------------------------------------------


def _bounds(around: Any, sizes: Sizes) -> Schema:
    """Check the shapes of the bounds of a Box before the arrays are read: equal, and not too large."""
    shapes = [tuple(getattr(around[name], "shape", (-1,))) for name in ("low", "high")]
    right = shapes[0] == shapes[1] and 0 < prod(shapes[0]) <= MOST_FEATURES
    expect(right, "", f"has shape {shapes[0]}", f"bounds of up to {MOST_FEATURES} numbers")
    return anything


def _is_box(space: Any, sizes: Sizes) -> None:
    """Check that the bounds of a Box have its dtype, and that none is above the other."""
    low, high, dtype = space["low"], space["high"], np.dtype(space["dtype"])
    right = low.dtype == high.dtype == dtype and dtype.kind in "biuf" and bool(np.all(low <= high))
    expect(right, "low", "does not match high", "low <= high, both of the dtype of the Box")


def _parts(around: Any, sizes: Sizes) -> Schema:
    # "?" at the end of a schema's name marks an optional entry: escape one that belongs to the name
    return {f"{name}?" if name.endswith("?") else name: SPACE for name in around["parts"]}


def _numbers(value: Any, sizes: Sizes) -> None:
    """Check that a list, nested or not, has finite numbers only."""
    array = np.asarray(value)
    right = array.dtype.kind in "if" and bool(np.isfinite(array).all()) and array.size > 0
    expect(
        right and np.abs(array).max() <= 1e30,
        "",
        "has other values than finite numbers",
        "finite numbers",
    )


_LISTS = Rules(anything, _numbers)
# Stored only if it is not int64
_DTYPE = {"dtype?": {np.dtype(kind).name for kind in np.typecodes["AllInteger"]}}
_START = f"int in [-{FARTHEST_START}, {FARTHEST_START}]"
_DISCRETE = {"n": f"int in [1, {MOST_VALUES}]", "start": _START, **_DTYPE}
SPACE = Either(
    {"kind": {"Discrete"}, **_DISCRETE},
    {"kind": {"MultiDiscrete"}, "nvec": _LISTS, "start": _LISTS, **_DTYPE},
    {"kind": {"MultiBinary"}, "n": _LISTS},
    Rules({"kind": {"Box"}, "low": _bounds, "high": anything, "dtype": "text"}, _is_box),
    {"kind": {"Dict", "Tuple"}, "parts": _parts},
)


def space_of(description: Any) -> Any:
    """Rebuild the described space; a Box whose bounds have not been read gets 0 and 1 as bounds."""
    if "parts" in description:
        parts = {name: space_of(part) for name, part in description["parts"].items()}
        return join_parts(description["kind"], parts)
    if isinstance(description.get("low"), ArraySpec):
        return spaces.Box(0.0, 1.0, description["low"].shape, np.dtype(description["dtype"]).type)
    return restore_space(description)


# -- parts of learners -------------------------------------------------------------------------------


def scale_schema(warmup_steps: int, observations: Any, row_length: int) -> Schema:
    """Schema of an `ObservationScale` of `obs` coordinates, and of the transitions of its warm-up.

    In a table the scaled states must be counted from the lower bounds.
    """

    def counts(state: Any) -> bool:
        ends = observations.low, np.ones_like(observations.low), observations.high - observations.low
        known = zip(ends, (state["centre"], state["scale"], state["highest"]), strict=True)
        return not state["lowest"].any() and all(np.array_equal(*pair) for pair in known)

    learned = {"centre": "float[obs]", "scale": "float[obs] in (0, inf)"}
    learned |= dict.fromkeys(("lowest", "highest"), "float[obs] in [-inf, inf]")
    learned["coarse"] = "float[obs] in [1, inf)"
    learned["last?"] = "float[lasts, obs] in [-inf, inf]"  # in the warm-up only, as the transitions
    learned["transitions?"] = f"float[transitions, {row_length}]"
    return _warm_up(warmup_steps, learned, counts if observations.is_table else lambda state: True)


def range_schema(warmup_steps: int) -> Schema:
    """Schema of an `ObservationRange` of c coordinates, some of which may be angles."""
    learned = dict.fromkeys(("lower", "upper"), "float[c] in [-inf, inf]")
    return _warm_up(warmup_steps, learned, _is_range)


def _is_range(state: Any) -> bool:
    with np.errstate(over="ignore"):
        width = state["upper"] - state["lower"]
    return bool(np.all((width <= WIDEST) & (width > 0.0)))


def _warm_up(longest: int, learned: dict[str, str], is_sound: Callable[[Any], bool]) -> Schema:
    def fits(state: Any, sizes: Sizes) -> None:
        """Check the number of observations: fewer than its `steps` during the warm-up.

        Afterwards there are none, or the `steps` visited ones, followed by those that are remembered.
        """
        known, n, steps = state["is_known"], len(state["seen"]), state["steps"]
        most = np.abs(state["seen"][steps if known else 0 :]).max(initial=0.0)
        right = (n == 0 or steps <= n <= 2 * steps) if known else n < steps
        right = right and most <= LARGEST
        right = right and len(state.get("transitions", ())) <= longest
        accepted = (
            f"fewer than {steps} or, after the warm-up, 0 or {steps} to {2 * steps}, of magnitude up "
            f"to {LARGEST:g}"
        )
        expect(right, "seen", f"has {n} observations of magnitude up to {most:g}", accepted)
        expect(
            not known or is_sound(state),
            next(iter(learned)),
            "is invalid",
            "a positive and finite range or scale",
        )

    entries = {"is_known": "bool", "steps": f"int in [2, {longest}]"}
    return Rules({**entries, "seen": "float[seen, obs] in [-inf, inf]", **learned}, fits)


def rows_schema(group: Any, **own: str) -> dict[str, str]:
    """Schema of a named tuple of arrays with a row for each of E environments; `own` replaces entries.

    Dtypes and numbers of dimensions are as annotated. Lengths beyond the first dimension are free.
    """
    found = {}
    for name, hint in get_type_hints(group, include_extras=True).items():
        kind, n_dims = hint.__metadata__[0]
        lengths = ["E", *(f"{name}{i}" for i in range(1, n_dims))]
        found[name] = f"{KINDS[str(kind)]}[{', '.join(lengths)}]"
    return {**found, **own}


def shared_schema(warm_up: Schema, memory: Schema) -> dict[str, Schema]:
    """Schema of `Learner.get_state`."""
    return {
        "horizon": "count in [1, inf)",
        "rewards": "float[4] in [-inf, inf]",
        "draws": {"generator": GENERATOR, "row": f"int in [0, {BLOCK}]"},
        "acting": GENERATOR,
        "warm_up": warm_up,
        "memory": memory,
    }


def _is_a_state(state: Any, sizes: Sizes) -> None:
    """Check the state of an environment: finite numbers, in a dict or not, or None if unknown."""
    for part in state.values() if isinstance(state, dict) else [state]:
        array = np.asarray(0.0 if part is None else part)
        right = array.dtype.kind in "biuf" and bool(np.isfinite(array).all())
        expect(right, "", "has other values than finite numbers", "finite numbers")


def _have_lengths(returns: Any, sizes: Sizes) -> None:
    """Check that the lengths of episodes are numbers of steps."""
    right = np.all((returns[:, 1] >= 0.0) & (returns[:, 1] <= MAX_COUNT))
    expect(right, "", "has invalid lengths of episodes", "numbers of steps")


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a keyword argument of an environment is a value of JSON, which a file restores exactly."""
    if depth > DEEPEST_ARGUMENT:
        return False
    if isinstance(value, list):
        return all(is_plain(one, depth + 1) for one in value)
    if isinstance(value, dict):
        return all(type(key) is str and is_plain(one, depth + 1) for key, one in value.items())
    return value is None or type(value) in (bool, int, float, str)


def _is_env_id(env_id: Any, sizes: Sizes) -> None:
    """Check that a text can be the id of an environment."""
    expect(is_env_id(env_id), "", f"is {env_id!r:.80}", "an id of Gymnasium, or module:id")


def _are_arguments(kwargs: Any, sizes: Sizes) -> None:
    """Check the keyword arguments of an environment."""
    right = isinstance(kwargs, dict) and is_plain(kwargs)
    expect(right, "", "has other values than those of JSON", "a dictionary of plain values")


# -- the whole ---------------------------------------------------------------------------------------


def _codecs(agent: Any, state: Any) -> tuple[ActionCodec, ObservationCodec]:
    actions = ActionCodec(space_of(state["action_space"]), agent.most_actions)
    table = agent.knows_tables and not actions.is_continuous
    space = space_of(state["observation_space"])
    expect(table or not state["one_hot"], "one_hot", "is True", "False, as there is no table")
    expect(table or "states" not in state, "states", "is present", "none, as there is no table")
    # zeros of the same shapes, as the arrays may not have been read yet
    axes = {place: own["axes"].shape for place, own in state.get("components", {}).items()}
    known = {place: Components(np.zeros(shape[1]), np.zeros(shape)) for place, shape in axes.items()}
    encoding = Encoding(state["one_hot"], known, {} if "states" in state else None)
    return actions, make_codec(space, table, encoding)


def _components(around: Any, sizes: Sizes) -> Schema:
    """Schema of the components of the large parts of a space, which no other parts have."""
    space = space_of(around["observation_space"])
    expect(PrincipalCodec.suits(space), "", "is present", "none, as no part of the space is large")
    expect("states" not in around, "", "is present", "none beside states")
    own = PrincipalCodec(space).components
    return {
        place: {"mean": f"float[{len(known.mean)}]", "axes": partial(_axes, place, len(known.mean))}
        for place, known in own.items()
    }


def _states(around: Any, sizes: Sizes) -> Schema:
    """Schema of the digests of large observations that are numbered, all different."""
    space = space_of(around["observation_space"])
    right = PrincipalCodec.suits(space) and not around["one_hot"]
    expect(right, "", "is present", "none, as no part of the space is large")
    return Rules("int[digests]", _are_different)


def _are_different(digests: Any, sizes: Sizes) -> None:
    """Check that the digests of states are different, and not too many."""
    right = len(np.unique(digests)) == len(digests) <= MOST_SEEN
    expect(right, "", "has equal digests or too many", f"up to {MOST_SEEN:,} different ones")


def _axes(place: str, n_numbers: int, around: Any, sizes: Sizes) -> Schema:
    """Schema of the axes of a part, after a check of their number."""
    n = (*getattr(around["axes"], "shape", ()), 0)[0]
    expect(0 < n <= COMPONENTS, "", f"has {n} components", f"1 to {COMPONENTS}")
    return f"float[c{place}, {n_numbers}]"


def _normalization(around: Any, sizes: Sizes) -> Schema:
    """Schema of the statistics of normalised observations: of a Box, or of keys of a Dict."""
    space = space_of(around["observation_space"])
    found = dict(space.spaces) if isinstance(space, spaces.Dict) else {BOX: space}
    boxes = {key: one for key, one in found.items() if isinstance(one, spaces.Box)}
    shapes = {key: ", ".join(map(str, one.shape)) for key, one in boxes.items()}
    return {
        key: {"mean": f"float[{shape}]", "deviation": f"float[{shape}] in (0, inf)"}
        for key, shape in shapes.items()
        if key in around["normalization"] or not isinstance(space, spaces.Dict)
    }


def _hyperparameters(agent: Any, around: Any, sizes: Sizes) -> Schema:
    config = agent.config_class(**around["hyperparameters"])
    return {one.name: anything for one in fields(config)}


def _learner(agent: Any, around: Any, sizes: Sizes) -> Schema:
    config = agent.config_class(**around["hyperparameters"])
    actions, observations = _codecs(agent, around)
    sizes["obs"] = observations.n_features
    kind = agent._learner_class(actions, observations)
    return kind.schema(config, actions, observations, sizes["E"])


def _observations_fit(agent: Any, state: Any, sizes: Sizes) -> None:
    """Check the last observations, and how goals are read, against the observation space."""
    last, (_, observations) = state["last_obs"], _codecs(agent, state)
    goal, has_goal = state.get("goal"), observations.goal is not None
    expected = "'difference': other versions read goals differently" if has_goal else "None"
    expect((goal is not None) == has_goal, "goal", f"is {goal!r}", expected)
    if last is not None:
        is_tuple = isinstance(observations.space, spaces.Tuple)
        rows = observations.encode_many(tuple(last.values()) if is_tuple else last, sizes["E"])
        expect(np.isfinite(rows).all(), "last_obs", "has NaN or infinity", "finite observations")


ENVIRONMENT = {
    "kind": "text",
    "generator": maybe(GENERATOR),
    "state": Rules(anything, _is_a_state),
    "elapsed": maybe("count"),
    "total": "float in any",  # the environment may have returned NaN
}


def model_schema(agent: Any) -> Schema:
    """Schema of a model file of the class `agent`."""
    entries = {
        "env_id": maybe(Rules("text", _is_env_id)),
        "env_origin?": {"kwargs": Rules(anything, _are_arguments), "changes": [("text", {*CHANGED})]},
        "hyperparameters": partial(_hyperparameters, agent),
        "action_space": SPACE,
        "observation_space": SPACE,
        "one_hot": "bool",
        "components?": _components,
        "states?": _states,
        "normalization?": _normalization,
        "goal?": {"difference"},
        "n_envs": f"int in [1, {MOST_ENVS}] as E",
        "learner": partial(_learner, agent),
        "seed": maybe("int in [0, inf)"),
        **dict.fromkeys(("num_timesteps", "planned_timesteps", "episodes"), "count"),
        "returns": Rules("float[returns, 2] in any", _have_lengths),  # rewards may be infinite or NaN
        "successes": ["bool"],
        "last_obs": anything,
        "environments": [ENVIRONMENT],
        "run?": anything,
    }
    return Rules(entries, partial(_observations_fit, agent))
