"""Links between graphs whose tensors have names of their own (ONNX against ONNX, TensorFlow, ...).

Optimisers rename nodes but keep the names of the tensors that survive, so a tensor name
on both sides is the evidence; originals between surviving tensors were fused into the
device op behind them. Where the device's graph lists an op's originals, too (OpenVINO, TFLite),
the last of them made its output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from divergraph.graphs.lineage.golden_tensors import Counterpart, GoldenTensors, Outputs, Unmatched
from divergraph.graphs.lineage.listed_originals import ListedOriginals
from divergraph.graphs.lineage.split_originals import HANDING_ON, split_originals
from divergraph.graphs.lineage.unnamed_parts import with_unnamed_parts
from graphstore.model import (
    Framework,
    LineageLink,
    LineageRule,
    ModelGraph,
    Op,
    Reason,
    TensorMatch,
    TensorRef,
)

_INSERTED_TYPES = frozenset(
    {
        *("Cast", "TransData", "QuantizeLinear", "DequantizeLinear", "ReorderInput"),
        *("ReorderOutput", "Reorder", "Convert", "QUANTIZE", "DEQUANTIZE"),
    }
)
_NCHWC = re.compile(r"_nchwc$")
_BLOCKED = "its values are in channel blocks (NCHWc) of a size the graph does not tell"
_FUSION = re.compile(r"/[A-Za-z]+Fusion/?$")

RESHAPING = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Ops whose output holds their first input's values in the same order."""


def link_by_tensor_names(
    golden: GoldenTensors, device: ModelGraph
) -> tuple[list[LineageLink], dict[TensorRef, Counterpart]]:
    """Links of every device op and the golden tensor of every device output."""
    golden_ops = golden.graph.op_index()
    blocked = _blocked_ops(device)
    claimed = _claimed(golden, device, blocked)
    originals = ListedOriginals(golden, device.framework)
    outputs: dict[TensorRef, Counterpart] = {}
    for op in device.ops:
        for ref in op.makes:
            if ref in claimed:
                outputs[ref] = TensorMatch(ref, claimed[ref], LineageRule.SAME_TENSOR)
            elif op.id in blocked and op.type not in _INSERTED_TYPES:
                outputs[ref] = Unmatched(Reason.LAYOUT_UNSUPPORTED, _BLOCKED)
            else:
                outputs[ref] = _renamed(golden, golden_ops, originals, op, ref)
    outputs |= _moved_away(golden_ops, device, outputs, claimed)
    outputs |= split_originals(golden, golden_ops, device, outputs)
    _match_behind_reshapes(device, outputs)
    outputs |= folded_activations(golden, golden_ops, device, outputs)
    return link_ops(golden, device, outputs), outputs


def link_ops(golden: GoldenTensors, device: ModelGraph, outputs: Outputs) -> list[LineageLink]:
    """Links of every device op, given the golden tensors of the outputs."""
    golden_ops = golden.graph.op_index()
    surviving = {match.golden for match in outputs.values() if isinstance(match, TensorMatch)}
    originals = ListedOriginals(golden, device.framework)
    listed = {op.id: originals.of(op) for op in device.ops if op.original_names}
    # what an op lists belongs to it, wherever it lies
    surviving |= {
        ref
        for names_listed in listed.values()
        for op in names_listed
        for ref in golden_ops[op].makes
    }
    links: list[LineageLink] = []
    for op in device.ops:
        links.extend(_op_links(golden, golden_ops, op, outputs, surviving, listed.get(op.id, ())))
    return with_unnamed_parts(device, links, listed) if listed else links


def _claimed(
    golden: GoldenTensors, device: ModelGraph, blocked: set[str]
) -> dict[TensorRef, TensorRef]:
    """The device outputs that have the name of a golden tensor, and which."""
    claimed: dict[TensorRef, TensorRef] = {}
    others = golden.graph.framework is not Framework.TFLITE
    if others and device.framework is Framework.TFLITE:
        return claimed  # a name there may be that of the first of several fused ops
    for op in device.ops:
        for ref, tensor in zip(op.makes, op.outputs, strict=True):
            same = _same_tensor(golden, tensor.name)
            if same is not None and (op.id not in blocked or op.type == "ReorderOutput"):
                claimed[ref] = same
    return claimed


def _moved_away(
    golden_ops: Mapping[str, Op],
    device: ModelGraph,
    outputs: Outputs,
    claimed: Mapping[TensorRef, TensorRef],
) -> dict[TensorRef, Counterpart]:
    """The outputs matched by the name of their op alone whose golden tensor another op gives.

    An optimiser that moves a Transpose behind a Shape leaves the Shape its name and gives its
    tensor's name to what puts the sizes in order again. Except where that op only passes on the
    output of this one (a Cast): then both have the golden tensor's values.
    """
    ops = device.op_index()
    owners = {golden: ref for ref, golden in claimed.items()}
    moved: dict[TensorRef, Counterpart] = {}
    for ref, match in outputs.items():
        if not isinstance(match, TensorMatch) or match.rule is not LineageRule.SAME_NAME:
            continue
        owner = owners.get(match.golden)
        if owner is None or _hands_on(ops, owner, ref):
            continue
        reason = (
            f"its op is called {golden_ops[match.golden.op].name!r}, but the tensor of that one "
            f"is given by {ops[owner.op].name!r}"
        )
        moved[ref] = Unmatched(Reason.UNMATCHED, reason)
    return moved


def _hands_on(ops: Mapping[str, Op], last: TensorRef, first: TensorRef) -> bool:
    """Whether *last* has the values of *first* in another type, order or shape."""
    seen: set[TensorRef] = set()
    while last != first and last not in seen:
        seen.add(last)
        op = ops[last.op]
        source = op.source()
        if op.type not in HANDING_ON or source is None:
            return False
        last = source
    return last == first


def _same_tensor(golden: GoldenTensors, name: str) -> TensorRef | None:
    """The golden tensor of this name; output 0 may be named with or without ``:0``."""
    names = golden.by_tensor_name
    if not name:
        return None
    return names.get(name) or names.get(f"{name}:0") or names.get(name.removesuffix(":0"))


def _blocked_ops(device: ModelGraph) -> set[str]:
    """Ops whose values lie in channel blocks: those named so and what follows them up to
    the op that puts the order back. Ops come after their producers in the file."""
    blocked: set[str] = set()
    for op in device.ops:
        sources = [ref.op for ref in op.takes]
        follows = op.type != "ReorderOutput" and not blocked.isdisjoint(sources)
        if follows or op.type == "ReorderInput" or _NCHWC.search(op.name):
            blocked.add(op.id)
    return blocked


def _renamed(
    golden: GoldenTensors,
    golden_ops: dict[str, Op],
    originals: ListedOriginals,
    op: Op,
    ref: TensorRef,
) -> Counterpart:
    """The counterpart by the op's name where the tensor's name is new; else why there is none."""
    counterpart = originals.counterpart(op, ref)
    if counterpart is not None:
        return counterpart
    same_name = golden.by_name.get(op.name)
    # of several originals the op's name tells the first, and the output is the last one's
    if same_name is not None and same_name.type == op.type and not op.is_fused:
        golden_op = golden_ops[same_name.id]
        if ref.port < max(1, len(golden_op.outputs)):
            return TensorMatch(ref, TensorRef(golden_op.id, ref.port), LineageRule.SAME_NAME)
    added = op.name not in golden.by_name and op.type in RESHAPING
    if added or op.type in _INSERTED_TYPES:
        return Unmatched(Reason.INSERTED, f"{op.type} added on the device side, no original")
    return Unmatched(
        Reason.UNMATCHED,
        f"the golden graph has no tensor named {op.outputs[ref.port].name!r}",
    )


def _match_behind_reshapes(device: ModelGraph, outputs: dict[TensorRef, Counterpart]) -> None:
    """A tensor of a new name that is only reshaped into a known one has its values.

    A fused op keeps the name of the last original's tensor unless the optimiser puts a
    Reshape behind it (MatMul and Add of more than two axes fused into Gemm): the name of
    the fused op is that of an original, but its output is not that original's.
    Ops come after their producers in the file.
    """
    for op in reversed(device.ops):
        ref = op.source()
        match = outputs.get(TensorRef(op.id, 0))
        if op.type not in RESHAPING or ref is None or not isinstance(match, TensorMatch):
            continue
        output = outputs.get(ref)
        if isinstance(output, Unmatched) and output.reason is Reason.UNMATCHED:
            outputs[ref] = TensorMatch(ref, match.golden, LineageRule.THROUGH_INSERTED)


def _op_links(
    golden: GoldenTensors,
    golden_ops: dict[str, Op],
    op: Op,
    outputs: Outputs,
    surviving: set[TensorRef],
    listed: tuple[str, ...],
) -> Iterator[LineageLink]:
    linked: set[str] = set()
    roots: list[str] = []
    blocked = golden.by_tensor_name.get(_NCHWC.sub("", op.name))
    if blocked is not None and _NCHWC.search(op.name):
        linked.add(blocked.op)
        roots.append(blocked.op)
        yield LineageLink(op.id, blocked.op, LineageRule.FUSION_NAME)
    fused = golden.by_name.get(_FUSION.sub("", op.name))
    for port, output in enumerate(op.makes):
        match = outputs[output]
        if isinstance(match, TensorMatch) and match.golden.op not in linked:
            linked.add(match.golden.op)
            roots.append(match.golden.op)
            yield LineageLink(
                op.id, match.golden.op, match.rule, port, match.golden.port, match.confidence
            )
    if fused is not None and _FUSION.search(op.name) and fused.id not in linked:
        linked.add(fused.id)
        yield LineageLink(op.id, fused.id, LineageRule.FUSION_NAME)
    for original in listed:
        if original not in linked:
            linked.add(original)
            roots.append(original)
            yield LineageLink(op.id, original, LineageRule.ORIGINAL_NAMES)
    for original in _between(golden_ops, roots, surviving):
        if original not in linked:
            linked.add(original)
            yield LineageLink(op.id, original, LineageRule.BETWEEN_TENSORS)


def _between(
    golden_ops: dict[str, Op], roots: list[str], surviving: set[TensorRef]
) -> Iterator[str]:
    """Golden ops with inputs, reached backwards from *roots* through lost tensors only."""
    seen = set(roots)
    stack = list(roots)
    while stack:
        for ref in golden_ops[stack.pop()].takes:
            if ref in surviving:
                continue
            producer = golden_ops.get(ref.op)
            if producer is None or producer.id in seen or not producer.inputs:
                continue
            seen.add(producer.id)
            stack.append(producer.id)
            yield producer.id


# A range that starts at 0 clips as Relu does. So the quantiser of ONNX Runtime drops the Relu or
# Clip and gives its tensor's name to the tensor in front of it, which then has a golden tensor of
# its name that it does not equal. What is dequantised again does equal it.
_FOLDED = frozenset({"Relu", "Clip"})
_QUANTISE, _DEQUANTISE = "QuantizeLinear", "DequantizeLinear"


def folded_activations(
    golden: GoldenTensors, golden_ops: Mapping[str, Op], device: ModelGraph, outputs: Outputs
) -> dict[TensorRef, Counterpart]:
    """The corrections of *outputs* for activations that were folded into a quantiser."""
    users = device.readers()
    folded: dict[TensorRef, Counterpart] = {}
    for op in device.ops:
        for ref in op.makes:
            match = outputs[ref]
            if not isinstance(match, TensorMatch) or match.rule is not LineageRule.SAME_TENSOR:
                continue
            activation = golden_ops[match.golden.op]
            quantised = users.get(ref, [])
            is_folded = activation.type in _FOLDED and op.type not in {activation.type, _DEQUANTISE}
            if not is_folded or {user.type for user in quantised} != {_QUANTISE}:
                continue
            folded[ref] = _in_front(golden, golden_ops, op, ref, activation)
            for user in quantised:
                user_output = TensorRef(user.id, 0)
                for candidate in (
                    user_output,
                    *(TensorRef(one.id, 0) for one in users.get(user_output, [])),
                ):
                    if not isinstance(outputs[candidate], TensorMatch):
                        folded[candidate] = TensorMatch(
                            candidate, match.golden, LineageRule.THROUGH_INSERTED
                        )
    return folded


def _in_front(
    golden: GoldenTensors, golden_ops: Mapping[str, Op], op: Op, ref: TensorRef, activation: Op
) -> Counterpart:
    """The counterpart, by name, of the tensor that feeds the folded activation; None leaves it to
    the values."""
    source = activation.source()
    same = golden.by_name.get(op.name)
    if source is not None and same is golden_ops[source.op] and same.type == op.type:
        return TensorMatch(ref, source, LineageRule.SAME_NAME)
    return Unmatched(
        Reason.UNMATCHED,
        f"it has the name of {activation.name!r}, which was folded into the quantisation after it",
    )
