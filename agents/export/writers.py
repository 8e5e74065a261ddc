"""Write a policy program as a file: Python with the standard library only, C99, or ONNX."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.beta_policy import LEAST, SQUARE
from oda_rl.agents.export.program import policy_program
from oda_rl.agents.export.texts import C_UNSAFE, PYTHON_UNSAFE, nested, with_safe_names
from oda_rl.agents.policy_program import PolicyProgram
from oda_rl.storage import written_whole

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

PYTHON = '''"""{name}

{counts}. `decide(observation)` returns the action for one observation:
{features}
Anything but so many finite numbers raises a ValueError, also if all cells are too far away.
"""

from math import exp, inf, isfinite, log1p

{action_lines}
LOW = {low}
HIGH = {high}
SCALE = {scale}
TEMPERATURE = {temperature}
REACH = {reach}
# For each cell: its codevector, and for each {what} the value there{slope_words}.
CELLS = (
{cells}
)


def values(observation):
    """The value of each {what}."""
    try:
        observation = list(observation)
        finite = all(map(isfinite, observation))
        observation = list(map(float, observation))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"observation must be {length} numbers, got {{observation!r:.80}}.") from None
    if len(observation) != len(SCALE):
        raise ValueError(f"observation must have {{len(SCALE)}} numbers, got {{len(observation)}}.")
    if not finite:
        raise ValueError(f"observation must be finite, got {{observation}}.")
    clipped = [min(max(x, low), high) for x, low, high in zip(observation, LOW, HIGH)]
    away = [[x - m for x, m in zip(clipped, at)] for at, _ in CELLS]
    try:
        apart = [sum((a / s) ** 2 for a, s in zip(row, SCALE)) for row in away]
        nearest = min(apart)
    except OverflowError:
        nearest = inf
    if nearest == inf:
        raise ValueError(f"observation is too large, got {{observation}}.")
    if TEMPERATURE > 0.0:
        limit = REACH * TEMPERATURE
        shares = [exp((nearest - d) / TEMPERATURE) if d - nearest <= limit else 0.0 for d in apart]
    else:
        first = apart.index(nearest)
        shares = [1.0 if i == first else 0.0 for i in range(len(CELLS))]
    total = sum(shares)
    found = [0.0] * {n_values}
    for share, row, (_, rates) in zip(shares, away, CELLS):
        if share > 0.0:
            for a, (value, *slopes) in enumerate(rates):
                found[a] += share * (value + sum(w * x for w, x in zip(slopes, row)))
    return [value / total for value in found]


def decide(observation):
    """The action for an observation."""
    found = values(observation)
{decision}
'''
PYTHON_NUMBERED = "    return ACTIONS[found.index(max(found))]"
PYTHON_POINT = """    parts = [max(log1p(exp(-abs(h))) + max(h, 0.0), LEAST) for h in found]
    parts = [s + SQUARE * s * s for s in parts]
    pairs = [(h, g, min(1.0, h, g)) for h, g in zip(parts[::2], parts[1::2])]
    ways = [(h + more) / (h + g + 2.0 * more) for h, g, more in pairs]
    return [low + (high - low) * way for low, high, way in zip(*BOUNDS, ways)]"""
PYTHON_CLIPPED = "    return [min(max(x, low), high) for low, high, x in zip(*BOUNDS, found)]"

C99 = """/* {name}

   {counts}. {said} for one observation:
{features}
   {refusal} if a number of the observation is NaN or infinite.
   Compile with -std=c99 and link with -lm; with -ffast-math it does not check this.
   -DREAL=float for single precision. No memory is allocated. */

#include <math.h>

#ifndef REAL
#define REAL double
#endif
#define N_CELLS {n_cells}
#define N_FEATURES {length}
#define N_VALUES {n_values}
#define N_SLOPES {n_slopes}
#define TEMPERATURE ((REAL){temperature})
#define REACH ((REAL){reach})

{action_lines}
static const REAL low[N_FEATURES] = {low};
static const REAL high[N_FEATURES] = {high};
static const REAL scale[N_FEATURES] = {scale};
/* For each cell: its codevector, and for each {what} the value there{slope_words}. */
static const struct {{ REAL at[N_FEATURES]; REAL rates[N_VALUES][1 + N_SLOPES]; }} cells[N_CELLS] = {{
{cells}
}};

{signature}
{{
    REAL x[N_FEATURES], apart[N_CELLS], value[N_VALUES] = {{0}}, total = 0, share, own, away;
    int i, j, a, nearest = 0;
    for (j = 0; j < N_FEATURES; j++)
        if (!isfinite(observation[j])) return -1;
    for (j = 0; j < N_FEATURES; j++) {{
        x[j] = observation[j] < low[j] ? low[j] : observation[j];
        x[j] = x[j] > high[j] ? high[j] : x[j];
    }}
    for (i = 0; i < N_CELLS; i++) {{
        apart[i] = 0;
        for (j = 0; j < N_FEATURES; j++) {{
            away = (x[j] - cells[i].at[j]) / scale[j];
            apart[i] += away * away;
        }}
        if (apart[i] < apart[nearest]) nearest = i;
    }}
    for (i = 0; i < N_CELLS; i++) {{
        away = apart[i] - apart[nearest];
        if (i != nearest && !(away <= REACH * TEMPERATURE && TEMPERATURE > 0)) continue;
        share = i == nearest ? 1 : (REAL)exp(-away / TEMPERATURE);
        total += share;
        for (a = 0; a < N_VALUES; a++) {{
            own = cells[i].rates[a][0];
            for (j = 0; j < N_SLOPES; j++)
                own += cells[i].rates[a][1 + j] * (x[j] - cells[i].at[j]);
            value[a] += share * own;
        }}
    }}
    for (a = 0; a < N_VALUES; a++) value[a] /= total;
{decision}
}}
"""
C_NUMBERED = """    for (a = 1, i = 0; a < N_VALUES; a++) if (value[a] > value[i]) i = a;
    return i;"""
C_POINT = """    for (a = 0; a < N_VALUES; a++) {
        away = (REAL)log1p(exp(-fabs(value[a]))) + (value[a] > 0 ? value[a] : 0);
        away = away < LEAST ? LEAST : away;
        value[a] = away + SQUARE * away * away;
    }
    for (j = 0; j < N_VALUES / 2; j++) {
        total = value[2 * j] + value[2 * j + 1];
        own = value[2 * j] < value[2 * j + 1] ? value[2 * j] : value[2 * j + 1];
        own = own < 1 ? own : 1;
        share = (value[2 * j] + own) / (total + 2 * own);
        action[j] = bounds[0][j] + (bounds[1][j] - bounds[0][j]) * share;
    }
    return 0;"""
C_FIGURES = f"#define LEAST ((REAL){LEAST})\n#define SQUARE ((REAL){SQUARE})"
C_CLIPPED = """    for (j = 0; j < N_VALUES; j++) {
        action[j] = value[j] < bounds[0][j] ? bounds[0][j] : value[j];
        action[j] = action[j] > bounds[1][j] ? bounds[1][j] : action[j];
    }
    return 0;"""


def python_source(program: PolicyProgram) -> str:
    """A Python module with `decide` and `values`, which needs only the standard library.

    Both raise a ValueError if an observation is not d finite numbers, or squared distances overflow.
    """
    program = with_safe_names(program, PYTHON_UNSAFE)
    rows = (nested([at, rates], "()") for at, rates in _cells(program))
    if program.actions is None:
        bounds = nested(program.bounds.tolist(), "()")
        lines, decision = f"BOUNDS = {bounds}", PYTHON_CLIPPED
        if program.draws_points:
            lines, decision = f"{lines}\nLEAST, SQUARE = {LEAST}, {SQUARE}", PYTHON_POINT
    else:
        actions = nested(program.actions.tolist(), "()")
        lines, decision = f"ACTIONS = {actions}  # {', '.join(program.action_names)}", PYTHON_NUMBERED
    return PYTHON.format(
        **_common(program, "    ", "()"),
        action_lines=lines,
        decision=decision,
        cells="\n".join(f"    {row}," for row in rows),
    )


def c_source(program: PolicyProgram) -> str:
    """A C99 file with `policy_decide`, and `policy_actions` if actions are discrete.

    `policy_decide` returns -1 if a number of the observation is NaN or infinite. Otherwise it returns
    the index of a discrete action, or 0 and fills the continuous one.
    """
    program = with_safe_names(program, C_UNSAFE)
    rows = (nested([at, rates], "{}") for at, rates in _cells(program))
    if program.actions is None:
        size, bounds = program.bounds.shape[1], nested(program.bounds.tolist(), "{}")
        said = f"policy_decide fills action[{size}]"
        lines = f"static const REAL bounds[2][{size}] = {bounds};"
        refusal = "It returns 0, or -1 and leaves action as it is"
        signature = f"int policy_decide(const REAL observation[N_FEATURES], REAL action[{size}])"
        decision = C_CLIPPED
        if program.draws_points:
            lines, decision = f"{C_FIGURES}\n{lines}", C_POINT
    else:
        actions = program.actions.reshape(len(program.actions), -1)
        said = (
            f"policy_decide returns the index of the action ({', '.join(program.action_names)}), which\n"
            "   policy_actions translates to what the environment takes,"
        )
        refusal = "It returns -1"
        taken = nested(actions.tolist(), "{}")
        lines = f"const long policy_actions[N_VALUES][{actions.shape[1]}] = {taken};"
        signature, decision = "int policy_decide(const REAL observation[N_FEATURES])", C_NUMBERED
    return C99.format(
        **_common(program, "     ", "{}"),
        n_slopes=program.slopes.shape[2],
        said=said,
        refusal=refusal,
        action_lines=lines,
        signature=signature,
        decision=decision,
        cells=",\n".join(f"    {row}" for row in rows),
    )


def onnx_bytes(program: PolicyProgram) -> bytes:
    """An ONNX model, from `observation` (n, d), double, to `action` (n,) or (n, size) and `values`.

    `values` has the shape (n, n_actions) for discrete actions. For continuous ones it is (n, 2 size)
    with an actor, and (n, size) with a distilled policy.

    Raises
    ------
    ImportError
        If the package onnx is not installed.
    """
    from oda_rl.agents.export.onnx_graph import onnx_model

    found: bytes = onnx_model(program).SerializeToString()
    return found


# Suffixes of files, and the functions that make their contents
FORMATS: dict[str, Callable[[PolicyProgram], Any]] = {
    ".py": python_source,
    ".c": c_source,
    ".onnx": onnx_bytes,
}


def export_policy(
    policy: "OnlineAlgorithm | PolicyProgram", path: str | os.PathLike[str], digits: int | None = None
) -> PolicyProgram:
    """Write the greedy policy of an agent as a file that works without this package.

    Parameters
    ----------
    policy : OnlineAlgorithm or PolicyProgram
        An agent that `policy_program` accepts, or the program that it returned. The file takes the rows
        of its cells: of an image the numbers with the channels first, as SB3 passes them to agents.
    path : str or path
        Ends with .py (standard library only), .c (C99) or .onnx (opset 18, double precision). The file
        is written completely or not at all.
    digits : int, optional
        Significant digits of the numbers; by default all, so that it decides as the agent does.

    Returns
    -------
    PolicyProgram
        The program that was written.

    Raises
    ------
    ValueError
        If the path has another suffix, `digits` is not an integer from 1 to 17, or the agent's policy
        is not a table of cells.
    ImportError
        For .onnx, if the package onnx is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from oda_rl.agents import SOMQ
    >>> model = SOMQ(env="CartPole-v1", n_cells=4, seed=0).learn(3_000)
    >>> path = Path(tempfile.mkdtemp(), "policy.py")
    >>> program = export_policy(model, path, digits=4)
    >>> namespace = {}
    >>> exec(path.read_text(encoding="utf-8"), namespace)
    >>> bool(namespace["decide"]([0.0, 0.0, 0.05, 0.0]) == program.decide([[0.0, 0.0, 0.05, 0.0]])[0])
    True
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise ValueError(f"path must end with one of {', '.join(FORMATS)}, got {str(path)!r}.")
    if digits is not None and (isinstance(digits, bool) or digits not in range(1, 18)):
        raise ValueError(f"digits must be None or an integer from 1 to 17, got {digits!r}.")
    program = policy if isinstance(policy, PolicyProgram) else policy_program(policy)
    if digits is not None:
        program = program.rounded(digits)
    found = FORMATS[path.suffix](program)
    with written_whole(path) as temporary:
        temporary.write_bytes(found if isinstance(found, bytes) else found.encode())
    return program


def _common(program: PolicyProgram, indent: str, brackets: str) -> dict[str, Any]:
    """The fields that the templates of Python and C share."""
    arrays = {name: getattr(program, name).tolist() for name in ("low", "high", "scale")}
    return {
        **{name: nested(array, brackets) for name, array in arrays.items()},
        "name": program.name,
        "n_cells": len(program.values),
        "length": len(program.scale),
        "n_values": program.values.shape[1],
        "counts": program.counts,
        "what": _what(program),
        "features": "\n".join(f"{indent}{j}: {name}" for j, name in enumerate(program.features)),
        "temperature": program.temperature,
        "reach": program.reach,
        "slope_words": ", and its change along each coordinate" if program.slopes.size else "",
    }


def _what(program: PolicyProgram) -> str:
    """What each value belongs to."""
    if program.actions is not None:
        return "action"
    return "parameter of a coordinate's distribution" if program.draws_points else "coordinate"


def _cells(program: PolicyProgram) -> Iterator[tuple[list[float], list[list[float]]]]:
    rates: NDArray[np.float64] = np.concatenate([program.values[:, :, None], program.slopes], axis=2)
    yield from zip(program.codevectors.tolist(), rates.tolist(), strict=True)
