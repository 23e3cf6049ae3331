"""Originals that a converter split into several ops, of which the first kept the name.
SquaredDifference becomes Sub and Mul, Rsqrt becomes Sqrt and Reciprocal: the first part has the
original's name, but the last part's output is the original's. A different op type does not prove
this, as fused ops keep a tensor's name, too. So the readers decide: if none of them reads the
tensor of that name, but all read one tensor computed from it, that one is the original's. Values
are not compared, as any part may have a fault."""

from __future__ import annotations

from collections.abc import Mapping

from divergraph.graphs.lineage.golden_tensors import Counterpart, GoldenTensors, Outputs, Unmatched
from graphstore.model import Framework, LineageRule, ModelGraph, Op, Reason, TensorMatch, TensorRef

HANDING_ON = frozenset(
    {
        *("Cast", "TransData", "QuantizeLinear", "DequantizeLinear", "ReorderInput"),
        *("ReorderOutput", "Transpose", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"),
    }
)
"""Ops whose output is their first input in another type, order or shape."""
_BY_NAME = frozenset({LineageRule.SAME_TENSOR, LineageRule.SAME_NAME})
_NAMES_THE_LAST = frozenset({Framework.OPENVINO, Framework.TFLITE})
"""Whose converters leave the name to the last part."""
_PARTS = 6
"""The longest chain of ops one original may become."""


def split_originals(
    golden: GoldenTensors, golden_ops: Mapping[str, Op], device: ModelGraph, outputs: Outputs
) -> dict[TensorRef, Counterpart]:
    """The corrections of *outputs* for originals that were split into several ops."""
    if device.framework in _NAMES_THE_LAST:
        return {}
    readers, device_readers = golden.graph.readers(), device.readers()
    types = {op.id: op.type for op in device.ops}
    by_name = {op.name: op for op in device.ops if op.name}
    counterparts: dict[TensorRef, Counterpart] = {}
    for ref, match in outputs.items():
        if not isinstance(match, TensorMatch) or match.rule not in _BY_NAME:
            continue
        original = golden_ops[match.golden.op]
        if original.type == types[ref.op]:
            continue
        same = [by_name[op.name] for op in readers.get(match.golden, ()) if op.name in by_name]
        read = [set(op.takes) for op in same]
        if match.golden in golden.graph.outputs and device.outputs:
            read.append(set(device.outputs))
        if not read or any(ref in refs for refs in read):
            continue
        outputs_made = _made_of(ref, device_readers, outputs)
        last = {output for output in outputs_made if all(output in refs for refs in read)}
        if len(last) == 1:
            reason = f"an inner part of {original.name}, which is {types[ref.op]} and more here"
            counterparts[ref] = Unmatched(Reason.INNER_OF_SPLIT, reason)
            (end,) = last
            counterparts[end] = TensorMatch(end, match.golden, LineageRule.BETWEEN_TENSORS)
    return counterparts


def _made_of(
    ref: TensorRef, readers: Mapping[TensorRef, list[Op]], outputs: Outputs
) -> set[TensorRef]:
    """The tensors without a known name that are computed, not merely passed on, from *ref*."""
    computed: set[TensorRef] = set()
    level = {ref: False}
    for _ in range(_PARTS):
        following: dict[TensorRef, bool] = {}
        for source, changed in level.items():
            for op in readers.get(source, ()):
                output = TensorRef(op.id, 0)
                if isinstance(outputs.get(output), TensorMatch):
                    continue
                following[output] = changed or op.type not in HANDING_ON
        computed.update(following_ref for following_ref, changed in following.items() if changed)
        level = following
    return computed
