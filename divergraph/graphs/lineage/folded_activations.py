"""Activations that a quantiser folded into the quantisation behind them.

A range that starts at 0 clips as Relu does. So the quantiser of ONNX Runtime drops the Relu
or Clip and gives its tensor's name to the tensor in front of it, which then has a golden
tensor of its name that it does not equal. What is dequantised again does equal it.
"""

from __future__ import annotations

from collections.abc import Mapping

from divergraph.graphs.lineage.golden_tensors import GoldenTensors
from divergraph.graphs.lineage.unmatched import Unmatched
from graphstore.model import LineageRule, ModelGraph, Op, Reason, TensorMatch, TensorRef

_FOLDED = frozenset({"Relu", "Clip"})
_QUANTISE, _DEQUANTISE = "QuantizeLinear", "DequantizeLinear"


def folded_activations(
    golden: GoldenTensors,
    golden_ops: Mapping[str, Op],
    device: ModelGraph,
    outputs: Mapping[TensorRef, TensorMatch | Unmatched],
) -> dict[TensorRef, TensorMatch | Unmatched]:
    """What stands in *outputs* under a folded activation's name, put right."""
    users = _users(device)
    found: dict[TensorRef, TensorMatch | Unmatched] = {}
    for op in device.ops:
        for port in range(len(op.outputs)):
            ref = TensorRef(op.id, port)
            match = outputs[ref]
            if not isinstance(match, TensorMatch) or match.rule is not LineageRule.SAME_TENSOR:
                continue
            activation = golden_ops[match.golden.op]
            quantised = users.get(ref, [])
            is_folded = activation.type in _FOLDED and op.type not in {activation.type, _DEQUANTISE}
            if not is_folded or {user.type for user in quantised} != {_QUANTISE}:
                continue
            found[ref] = _in_front(golden, golden_ops, op, ref, activation)
            for user in quantised:
                behind = TensorRef(user.id, 0)
                for each in (behind, *(TensorRef(one.id, 0) for one in users.get(behind, []))):
                    if not isinstance(outputs[each], TensorMatch):
                        found[each] = TensorMatch(each, match.golden, LineageRule.THROUGH_INSERTED)
    return found


def _in_front(
    golden: GoldenTensors,
    golden_ops: Mapping[str, Op],
    op: Op,
    ref: TensorRef,
    activation: Op,
) -> TensorMatch | Unmatched:
    """The counterpart of what feeds the folded activation, by name; else found by values."""
    source = activation.inputs[0].producer if activation.inputs and activation.inputs[0] else None
    same = golden.by_name.get(op.name)
    if source is not None and same is golden_ops[source.op] and same.type == op.type:
        return TensorMatch(ref, source, LineageRule.SAME_NAME)
    return Unmatched(
        Reason.UNKNOWN_ORIGINAL,
        f"it has the name of {activation.name!r}, which was folded into the quantisation behind it",
    )


def _users(device: ModelGraph) -> dict[TensorRef, list[Op]]:
    found: dict[TensorRef, list[Op]] = {}
    for op in device.ops:
        for ref in op.inputs:
            if ref is not None and ref.producer is not None:
                found.setdefault(ref.producer, []).append(op)
    return found
