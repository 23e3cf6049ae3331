"""Links from the attributes GE writes: ``_datadump_original_op_names`` and the outputs'
``_datadump_origin_name`` / ``_datadump_origin_output_index``.

An op whose name equals a framework op's name need not compute the same tensor (a folded
bias keeps the convolution's name): the output's own attributes always come first.
"""

from __future__ import annotations

from collections import Counter

from divergraph.graphs.lineage.fusion_groups import MULTI_OP, fusion_key
from divergraph.graphs.lineage.golden_tensors import GoldenTensors
from divergraph.graphs.lineage.unmatched import Unmatched
from graphstore.model import (
    LineageLink,
    LineageRule,
    ModelGraph,
    Op,
    Reason,
    Tensor,
    TensorMatch,
    TensorRef,
)

Outputs = dict[TensorRef, TensorMatch | Unmatched]


def link_by_attributes(
    golden: GoldenTensors, device: ModelGraph
) -> tuple[list[LineageLink], Outputs]:
    """Links of every device op and the golden tensor of every device output."""
    group_sizes = Counter(fusion_key(op) for op in device.ops)
    links: list[LineageLink] = []
    outputs: Outputs = {}
    for op in device.ops:
        alone = group_sizes[fusion_key(op)] == 1
        ports: dict[str, tuple[int, int, LineageRule]] = {}
        for port, tensor in enumerate(op.outputs):
            found = _output(golden, op, port, tensor, alone=alone)
            outputs[TensorRef(op.id, port)] = found
            if isinstance(found, TensorMatch):
                ports.setdefault(found.golden.op, (port, found.golden.port, found.rule))
        links.extend(_op_links(golden, op, ports))
    return links, outputs


def _output(
    golden: GoldenTensors, op: Op, port: int, tensor: Tensor, *, alone: bool
) -> TensorMatch | Unmatched:
    named = _origin_name(op, port, tensor, alone=alone)
    if isinstance(named, Unmatched):
        return named
    name, origin_port, rule = named
    ref = golden.tensor(name, origin_port)
    if ref is None:
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
