"""ONNX models that read tensors inside quantised, op by op as asked, without being opened anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from divergraph.execute.contract import QuantisedRead
from graphstore.errors import ExecutionError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

EXACT = ":exact"
_BY_ITSELF = ":as it was"
_QUANTISED = ":quantised"
_LEAST_OPSET = 10
_WITH_AXIS = 13
"""The versions of ONNX that quantise at all, and with several scales."""


def open_readings(model: ModelProto, readings: Sequence[QuantisedRead]) -> tuple[str, ...]:
    """Let *model* compute ops as they are, or with what they read quantised; the ops so opened.

    Each is named by its first output ``maker``, and has an input ``<maker>:exact``, a single
    truth: whether it is computed as it is. An ``If`` chooses, so only one way is computed.

    Raises:
        ExecutionError: the model's version of ONNX cannot quantise so.
    """
    from onnx import NodeProto, TensorProto, helper

    _check_opset(model, readings)
    wanted: dict[str, dict[str, QuantisedRead]] = {}
    for reading in readings:
        wanted.setdefault(reading.maker, {})[reading.tensor] = reading
    nodes: list[NodeProto] = []
    opened: list[str] = []
    for node in model.graph.node:
        own = wanted.get(node.output[0], {}) if node.output else {}
        if not own.keys() & set(node.input):
            nodes.append(node)
            continue
        opened.append(node.output[0])
        nodes.append(_choice(model, node, own))
        model.graph.input.append(
            helper.make_tensor_value_info(node.output[0] + EXACT, TensorProto.BOOL, [])
        )
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return tuple(opened)


def open_boundaries(
    model: ModelProto, readings: Sequence[QuantisedRead], owner: Callable[[str], str]
) -> tuple[str, ...]:
    """As :func:`open_readings`, of ops that are several nodes each; *owner* gives the op, by its
    first output, that makes a tensor. What crosses into an op is quantised, not what is inside."""
    from onnx import NodeProto, TensorProto, helper

    wanted = {(reading.maker, reading.tensor): reading for reading in readings}
    nodes: list[NodeProto] = []
    opened: dict[str, set[str]] = {}
    for node in model.graph.node:
        copy = NodeProto()
        copy.CopyFrom(node)
        maker = owner(node.output[0]) if node.output else ""
        for place, name in enumerate(node.input):
            if (maker, name) not in wanted:
                continue
            copy.input[place] = read = f"{name}:{maker}:read"
            if name not in opened.setdefault(maker, set()):
                opened[maker].add(name)
                nodes.append(_crossing(model, wanted[maker, name], read))
        nodes.append(copy)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for maker in opened:
        truth = helper.make_tensor_value_info(maker + EXACT, TensorProto.BOOL, [])
        model.graph.input.append(truth)
    return tuple(opened)


def _crossing(model: ModelProto, reading: QuantisedRead, read: str) -> NodeProto:
    """An If that makes *read*: the tensor as it is, or quantised and back."""
    from onnx import ValueInfoProto, helper

    exact, rounded = read + _BY_ITSELF, read + _QUANTISED
    plain = helper.make_node("Identity", [reading.tensor], [exact])
    both = _quantisers(model, reading.tensor, rounded, reading)
    branches = [
        helper.make_graph(list(nodes), name, [], [ValueInfoProto(name=name)])
        for nodes, name in (((plain,), exact), (both, rounded))
    ]
    return helper.make_node(
        "If",
        [reading.maker + EXACT],
        [read],
        then_branch=branches[0],
        else_branch=branches[1],
    )


def _check_opset(model: ModelProto, readings: Sequence[QuantisedRead]) -> None:
    version = next((opset.version for opset in model.opset_import if not opset.domain), 0)
    smallest_opset = (
        _WITH_AXIS if any(reading.scale.size > 1 for reading in readings) else _LEAST_OPSET
    )
    if version < smallest_opset:
        raise ExecutionError(f"ONNX {version} cannot quantise as the device does")


def _choice(model: ModelProto, node: NodeProto, readings: Mapping[str, QuantisedRead]) -> NodeProto:
    """An If that makes what *node* makes, of what it reads or of that quantised."""
    from onnx import NodeProto, ValueInfoProto, helper

    maker = node.output[0]
    outputs = [name for name in node.output if name]
    plain, other = NodeProto(), NodeProto()
    plain.CopyFrom(node)
    other.CopyFrom(node)
    inner: list[NodeProto] = []
    for place, name in enumerate(node.input):
        if name in readings:
            other.input[place] = f"{name}:{maker}:{place}:read"
            inner += _quantisers(model, name, other.input[place], readings[name])
    branches = []
    for copy, before, ending in ((plain, [], _BY_ITSELF), (other, inner, _QUANTISED)):
        for place, name in enumerate(copy.output):
            copy.output[place] = name and name + ending
        results = [ValueInfoProto(name=name + ending) for name in outputs]
        branches.append(helper.make_graph([*before, copy], maker + ending, [], results))
    return helper.make_node(
        "If", [maker + EXACT], outputs, then_branch=branches[0], else_branch=branches[1]
    )


def _quantisers(
    model: ModelProto, tensor: str, read: str, reading: QuantisedRead
) -> tuple[NodeProto, NodeProto]:
    """The two nodes that make *read*: *tensor*, quantised and back."""
    from onnx import helper, numpy_helper

    kind = np.int8 if reading.signed else np.uint8
    shape = () if reading.scale.size == 1 else (-1,)
    values = {
        f"{read}:scale": np.asarray(reading.scale, np.float32).reshape(shape),
        f"{read}:zero": np.broadcast_to(
            np.asarray(reading.zero, kind).reshape(-1), reading.scale.size
        ).reshape(shape),
    }
    model.graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in values.items()
    )
    axis: dict[str, Any] = {} if reading.scale.size == 1 else {"axis": reading.axis}
    steps = f"{read}:steps"
    return (
        helper.make_node("QuantizeLinear", [tensor, *values], [steps], **axis),
        helper.make_node("DequantizeLinear", [steps, *values], [read], **axis),
    )
