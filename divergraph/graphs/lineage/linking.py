"""Link a device graph to the golden graph: fused, split, inserted and renamed ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from divergraph.graphs.lineage.fusion_groups import MULTI_OP, fusion_key
from divergraph.graphs.lineage.golden_tensors import Counterpart, GoldenTensors, Outputs, Unmatched
from divergraph.graphs.lineage.recorded_calls import link_recorded_calls
from divergraph.graphs.lineage.tensor_names import RESHAPING, link_by_tensor_names, link_ops
from graphstore.model import (
    Framework,
    LineageLink,
    LineageRule,
    ModelGraph,
    Op,
    Reason,
    Reorder,
    Tensor,
    TensorMatch,
    TensorRef,
)

__all__ = ["Lineage", "Unmatched", "link_graphs"]

_VALUE_KEEPING = frozenset(
    {"Cast", "Convert", "Reorder", "TransData", "QuantizeLinear", "DequantizeLinear"}
)
"""Inserted ops of these types change only the element type and layout of their first input."""
_ON_DEVICE = _VALUE_KEEPING | {"Aipp"}
"""The same on a device: what it makes of an image is what the original model is fed."""
_SAME_AXES = _ON_DEVICE | {"Identity"}
PASSING_ON = _VALUE_KEEPING | RESHAPING
"""Ops that, inserted between framework graphs, hold their first input's values in their order."""


@dataclass(frozen=True)
class Lineage:
    """How a device graph corresponds to a golden one.

    ``outputs`` has an entry for every output of every device op: the golden tensor it should equal,
    or why there is none.
    """

    links: tuple[LineageLink, ...]
    outputs: Outputs
    golden: GoldenTensors
    device_ops: Mapping[str, Op]
    recorded: bool = False
    """Both are recorded runs, and calls were linked to calls."""

    def input_match(self, op: Op, position: int) -> Counterpart | None:
        """The golden tensor that input *position* of a device op should equal.

        It is the one of the producer's output. None if the input is not connected, or is not an
        op's output.
        """
        source = op.source(position)
        match = None if source is None else self.outputs.get(source)
        if not isinstance(match, TensorMatch):
            return match
        return replace(match, device=TensorRef(op.id, position))


def link_graphs(golden: ModelGraph, device: ModelGraph) -> Lineage:
    """Link every op and output of *device* to *golden*.

    Ascend graphs carry the links in attributes; between other graphs the tensor names
    that survive optimisation and fusion are the evidence; calls of recorded runs are aligned.
    """
    index = GoldenTensors.of(golden)
    calls = link_recorded_calls(golden, device)
    if calls is not None:
        return Lineage(tuple(calls[0]), calls[1], index, device.op_index(), recorded=True)
    keeping = PASSING_ON  # device layouts may change the order of axes, these do not
    if device.framework is Framework.ASCEND:
        keeping = _ON_DEVICE
        links, outputs = link_by_attributes(index, device)
    else:
        links, outputs = link_by_tensor_names(index, device)
    ops = device.op_index()
    for op in device.ops:
        match = _passed_on(op, ops, outputs, keeping)
        if match is not None:
            outputs[match.device] = match
    return Lineage(tuple(links), outputs, index, ops)


def relinked(outputs: Outputs, golden: GoldenTensors, device: ModelGraph) -> Lineage:
    """The lineage that follows from *outputs*: links between ops, and values passed on by inserted
    ops."""
    all_outputs = dict(outputs)
    links = link_ops(golden, device, all_outputs)
    ops = device.op_index()
    for op in device.ops:
        match = _passed_on(op, ops, all_outputs, PASSING_ON)
        if match is not None:
            all_outputs[match.device] = match
    return Lineage(tuple(links), all_outputs, golden, ops)


def _passed_on(
    op: Op, ops: Mapping[str, Op], outputs: Outputs, keeping: frozenset[str]
) -> TensorMatch | None:
    """The golden tensor whose value an inserted Cast or TransData passes on; None without one."""
    target = TensorRef(op.id, 0)
    seen: set[str] = set()
    reshaped = False
    while _is_passing_on(op, outputs, keeping) and op.id not in seen:
        seen.add(op.id)
        reshaped |= op.type not in _SAME_AXES
        source = op.source()
        producer = None if source is None else ops.get(source.op)
        if source is None or producer is None:
            return None
        match = outputs.get(source)
        if isinstance(match, TensorMatch):
            if reshaped and match.reorder is not None:
                return None  # reshaped in another order of axes, it has no order of the original
            return replace(match, device=target, rule=LineageRule.THROUGH_INSERTED)
        op = producer
    return None


def behind_transpose(match: TensorMatch, op: Op) -> TensorMatch | None:
    """The match of the output of Transpose *op*, given the *match* of its input. None if the
    permutation is not known, or channels are in blocks."""
    permuted = op.attrs.get("perm")
    if not isinstance(permuted, tuple) or (match.reorder is not None and match.reorder.block):
        return None
    before = match.reorder.axes if match.reorder is not None else tuple(range(len(permuted)))
    if set(before) != set(range(len(before))) or set(permuted) != set(before):
        return None
    axes = tuple(permuted.index(axis) for axis in before)
    reorder = None if axes == tuple(range(len(axes))) else Reorder(axes=axes)
    return replace(match, device=TensorRef(op.id, 0), reorder=reorder)


def _is_passing_on(op: Op, outputs: Outputs, keeping: frozenset[str]) -> bool:
    output = outputs.get(TensorRef(op.id, 0))
    inserted = isinstance(output, Unmatched) and output.reason is Reason.INSERTED
    return inserted and op.type in keeping and bool(op.inputs)


# GE writes ``_datadump_original_op_names``, and for outputs ``_datadump_origin_name`` and
# ``_datadump_origin_output_index``. An op whose name equals a framework op's name need not
# compute the same tensor (a folded bias keeps the convolution's name): the output's own
# attributes always come first.
def link_by_attributes(
    golden: GoldenTensors, device: ModelGraph
) -> tuple[list[LineageLink], dict[TensorRef, Counterpart]]:
    """Links of every device op and the golden tensor of every device output."""
    group_sizes = Counter(fusion_key(op) for op in device.ops)
    links: list[LineageLink] = []
    outputs: dict[TensorRef, Counterpart] = {}
    for op in device.ops:
        alone = group_sizes[fusion_key(op)] == 1
        ports: dict[str, tuple[int, int, LineageRule]] = {}
        for port, tensor in enumerate(op.outputs):
            output = _output(golden, op, port, tensor, alone=alone)
            outputs[TensorRef(op.id, port)] = output
            if isinstance(output, TensorMatch):
                ports.setdefault(output.golden.op, (port, output.golden.port, output.rule))
        links.extend(_op_links(golden, op, ports))
    return links, outputs


def _output(
    golden: GoldenTensors, op: Op, port: int, tensor: Tensor, *, alone: bool
) -> Counterpart:
    named = _origin_name(op, port, tensor, alone=alone)
    if isinstance(named, Unmatched):
        return named
    name, origin_port, rule = named
    ref = golden.tensor(name, origin_port)
    if ref is None:
        if not op.takes and any(tensor.name == name for tensor in golden.graph.inputs):
            reason = f"{name} is an input of the golden model; {op.type} runs no task on the device"
            return Unmatched(Reason.NO_TASK, reason)
        if op.original_names is None and rule is LineageRule.SAME_NAME:
            return Unmatched(Reason.UNKNOWN_ORIGINAL, f"the golden graph has no op named {name!r}")
        return Unmatched(
            Reason.UNKNOWN_ORIGINAL,
            f"the device graph names {name}:{origin_port}, which the golden graph lacks",
        )
    return TensorMatch(TensorRef(op.id, port), ref, rule)


def _origin_name(
    op: Op, port: int, tensor: Tensor, *, alone: bool
) -> tuple[str, int, LineageRule] | Unmatched:
    origin = tensor.origin
    if origin is not None and origin.op:
        return origin.op, origin.port, LineageRule.ORIGIN_OUTPUT
    if op.original_names is None:
        return op.name, port if origin is None else origin.port, LineageRule.SAME_NAME
    if not op.original_names:
        return Unmatched(Reason.INSERTED, "inserted by the compiler, no original")
    if len(op.original_names) == 1 and alone:
        original_port = port if origin is None else origin.port
        return op.original_names[0], original_port, LineageRule.RENAMED
    if op.attrs.get(MULTI_OP) is True:
        return Unmatched(Reason.INNER_OF_SPLIT, f"an inner part of {', '.join(op.original_names)}")
    return Unmatched(Reason.NO_ORIGINAL, "the device graph names no original for this output")


def _op_links(
    golden: GoldenTensors, op: Op, ports: dict[str, tuple[int, int, LineageRule]]
) -> list[LineageLink]:
    links: list[LineageLink] = []
    names = (op.name,) if op.original_names is None else op.original_names
    rule = LineageRule.SAME_NAME if op.original_names is None else LineageRule.ORIGINAL_NAMES
    linked: set[str] = set()
    for name in names:
        original = golden.op(name)
        if original is None or original.id in linked:
            continue
        linked.add(original.id)
        port, original_port, _ = ports.get(original.id, (None, None, rule))
        links.append(LineageLink(op.id, original.id, rule, port, original_port))
    for original_id, (port, original_port, port_rule) in ports.items():
        if original_id not in linked and not op.is_inserted:
            links.append(LineageLink(op.id, original_id, port_rule, port, original_port))
    return links
