"""Convert a policy program to a graph of ONNX operators; the package onnx is imported on use."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.beta_policy import LEAST, SQUARE
from oda_rl.agents.export.texts import NOTHING_UNSAFE, with_safe_names
from oda_rl.agents.policy_program import PolicyProgram

OPSET = 18


class _Graph:
    """Nodes and constants, in the order in which they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, array: NDArray[Any] | float) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, kind: str, *inputs: str, to: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, list(inputs), [to], **attributes))
        return to


def onnx_model(program: PolicyProgram) -> Any:
    """The ONNX model; see `oda_rl.agents.export.writers.onnx_bytes` for its inputs and outputs."""
    from onnx import TensorProto, helper

    graph, program = _Graph(), with_safe_names(program, NOTHING_UNSAFE)
    d, n_values = program.codevectors.shape[1], program.values.shape[1]
    kind = TensorProto.DOUBLE if program.actions is None else TensorProto.INT64
    _values(graph, program)
    shape = _decide(graph, program)
    return helper.make_model(
        helper.make_graph(
            graph.nodes,
            "policy",
            [helper.make_tensor_value_info("observation", TensorProto.DOUBLE, ["n", d])],
            [
                helper.make_tensor_value_info("action", kind, shape),
                helper.make_tensor_value_info("values", TensorProto.DOUBLE, ["n", n_values]),
            ],
            graph.constants,
            doc_string=f"{program.name}. Observation: {', '.join(program.features)}. "
            f"Actions: {', '.join(program.action_names)}. {program.counts}.",
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=9,
    )


def _values(graph: _Graph, program: PolicyProgram) -> None:
    """Add the nodes from `observation` to `values`."""
    along = graph.constant("cell_axis", np.array([1]))
    graph.constant("coordinates", np.array([2]))
    above_low = graph.add("Max", "observation", graph.constant("low", program.low), to="above_low")
    bounded = graph.add("Min", above_low, graph.constant("high", program.high), to="bounded")
    rows = graph.add("Unsqueeze", bounded, along, to="rows")
    away = graph.add("Sub", rows, graph.constant("codevectors", program.codevectors[None]), to="away")
    scaled = graph.add("Div", away, graph.constant("scale", program.scale), to="scaled")
    squares = graph.add("Mul", scaled, scaled, to="squares")
    apart = graph.add("ReduceSum", squares, "coordinates", to="apart", keepdims=0)
    share = _shares(graph, program, apart)
    own = graph.constant("cell_values", program.values[None])
    if program.slopes.size:
        # (n, K, 1, d) x (K, d, n_values): the cells are the batch of the product
        graph.add("Unsqueeze", away, "coordinates", to="away_rows")
        slopes = graph.constant("slopes", np.ascontiguousarray(program.slopes.transpose(0, 2, 1)))
        graph.add("MatMul", "away_rows", slopes, to="change_rows")
        graph.add("Squeeze", "change_rows", "coordinates", to="change")
        own = graph.add("Add", own, "change", to="own")
    graph.add("Unsqueeze", share, "coordinates", to="share_rows")
    graph.add("Mul", "share_rows", own, to="parts")
    graph.add("ReduceSum", "parts", along, to="values", keepdims=0)


def _decide(graph: _Graph, program: PolicyProgram) -> list[Any]:
    """Add the nodes from `values` to `action`; returns the shape of `action`."""
    if program.actions is not None:
        graph.add("ArgMax", "values", to="number", axis=1, keepdims=0)
        graph.add("Gather", graph.constant("actions", program.actions), "number", to="action", axis=0)
        return ["n", *program.actions.shape[1:]]
    low, high = program.bounds
    if not program.draws_points:
        above = graph.add("Max", "values", graph.constant("least_action", low), to="from_least")
        graph.add("Min", above, graph.constant("most_action", high), to="action")
        return ["n", len(low)]
    graph.add("Softplus", "values", to="excess")
    graph.add("Max", "excess", graph.constant("least", LEAST), to="s")
    graph.add("Mul", "s", graph.constant("square", SQUARE), to="part_of_s")
    graph.add("Mul", "part_of_s", "s", to="more_of_s")
    graph.add("Add", "s", "more_of_s", to="parameters")
    for name, first in (("rising", 0), ("falling_part", 1)):
        columns = graph.constant(f"{name}_columns", np.arange(first, 2 * len(low), 2))
        graph.add("Gather", "parameters", columns, to=name, axis=1)
    graph.add("Min", "rising", "falling_part", graph.constant("one", 1.0), to="more")
    graph.add("Add", "rising", "more", to="upward")
    graph.add("Add", "falling_part", "more", to="downward")
    graph.add("Add", "upward", "downward", to="both")
    graph.add("Div", "upward", "both", to="way")
    graph.add("Mul", "way", graph.constant("range", high - low), to="offset")
    graph.add("Add", "offset", graph.constant("least_action", low), to="action")
    return ["n", len(low)]


def _shares(graph: _Graph, program: PolicyProgram, apart: str) -> str:
    if program.temperature == 0.0:
        first = graph.add("ArgMin", apart, to="first", axis=1, keepdims=1)
        cells = graph.constant("cells", np.arange(len(program.values))[None])
        graph.add("Equal", cells, first, to="is_first")
        return graph.add(
            "Where", "is_first", graph.constant("all", 1.0), graph.constant("none", 0.0), to="share"
        )
    nearest = graph.add("ReduceMin", apart, "cell_axis", to="nearest", keepdims=1)
    above = graph.add("Sub", nearest, apart, to="above")
    warm = graph.add("Div", above, graph.constant("temperature", program.temperature), to="warm")
    near = graph.add("GreaterOrEqual", warm, graph.constant("end", -program.reach), to="near")
    parts = graph.add(
        "Where", near, graph.add("Exp", warm, to="falling"), graph.constant("none", 0.0), to="active"
    )
    total = graph.add("ReduceSum", parts, "cell_axis", to="total", keepdims=1)
    return graph.add("Div", parts, total, to="share")
