"""Matches by name that dumped values contradict.

Different values alone contradict nothing: the op may be the faulty one. They do if another tensor
fits far better: a device tensor that has the golden values and no right to others, or, where only
the op's name speaks, an output of a golden op of this type with the device's values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from divergraph.graphs.lineage import Lineage, Unmatched
from divergraph.graphs.lineage.golden_tensors import Outputs
from divergraph.graphs.lineage.split_originals import HANDING_ON
from divergraph.graphs.matching.by_value import is_telling, squeezed
from divergraph.values.array_types import Array
from divergraph.values.closeness import AS_IT_LIES, FAR, best_reorder, distance
from divergraph.values.dumped_values import DumpedValues
from graphstore.model import LineageRule, Op, Reason, TensorMatch, TensorRef

_AGREE = 0.3
"""Relative distance up to which values count as the same on any healthy device."""
_BY_NAME = frozenset({LineageRule.SAME_NAME, LineageRule.SAME_TENSOR, LineageRule.BETWEEN_TENSORS})


def contradicted(
    lineage: Lineage, outputs: Outputs, device: DumpedValues, golden: DumpedValues
) -> dict[TensorRef, Unmatched]:
    """The outputs matched by a name whose golden values another device tensor has, and that one:
    both are open then, and values decide. What has no counterpart, or is itself contradicted, may
    be such a tensor.

    Nothing is read where no such tensor has as many elements.
    """
    ops, originals = lineage.device_ops, lineage.golden.graph.op_index()
    named = [
        match
        for match in outputs.values()
        if isinstance(match, TensorMatch) and match.rule in _BY_NAME
    ]
    goldens = {match.golden for match in outputs.values() if isinstance(match, TensorMatch)}
    free = _by_size((r for op in originals.values() for r in op.makes if r not in goldens), golden)
    alone = [
        ref
        for ref, output in outputs.items()
        if isinstance(output, Unmatched) and ops[ref.op].type not in HANDING_ON
    ]
    by_op_name = [match.device for match in named if match.rule is LineageRule.SAME_NAME]
    rivals = _by_size([*alone, *by_op_name], device)
    wrong: dict[TensorRef, Unmatched] = {}
    doubted: dict[TensorRef, TensorMatch] = {}
    for match in named:
        size = golden.size(match.golden) or 0
        others = rivals.get(size, [])
        kin = [ref for ref in free.get(size, ()) if _is_kin(match, ref, ops, originals)]
        own = device.of(match.device) if kin or set(others) - {match.device} else None
        right = None if own is None else golden.of(match.golden)
        if own is None or right is None or not (is_telling(own) and is_telling(right)):
            continue  # a dead output is a fault, not another tensor
        if _agree(own, right):
            continue
        doubted[match.device] = match
        holder = next((ref for ref in kin if _same(own, golden.of(ref))), None)
        if holder is not None:
            wrong[match.device] = _contradicted(match, holder)
    for ref, match in doubted.items():
        right = golden.of(match.golden)
        for holder in rivals.get(golden.size(match.golden) or 0, ()):
            open_now = holder in doubted or isinstance(outputs[holder], Unmatched)
            if holder != ref and open_now and right is not None and _same(device.of(holder), right):
                wrong[ref] = _contradicted(match, holder)
                reason = f"it has the values of {match.golden.op}"
                wrong.setdefault(holder, Unmatched(Reason.UNMATCHED, reason))
                break
    return wrong


def _is_kin(
    match: TensorMatch, golden: TensorRef, ops: Mapping[str, Op], originals: Mapping[str, Op]
) -> bool:
    is_name_alone = match.rule is LineageRule.SAME_NAME
    return is_name_alone and originals[golden.op].type == ops[match.device.op].type


def _contradicted(match: TensorMatch, holder: TensorRef) -> Unmatched:
    reason = f"its values contradict its name, {match.golden.op}; {holder.op} fits them"
    return Unmatched(Reason.UNMATCHED, reason)


def _by_size(refs: Iterable[TensorRef], values: DumpedValues) -> dict[int, list[TensorRef]]:
    refs_by_size: dict[int, list[TensorRef]] = {}
    for ref in refs:
        size = values.size(ref)
        if size is not None:
            refs_by_size.setdefault(size, []).append(ref)
    return refs_by_size


def _agree(own: Array, right: Array) -> bool:
    best = best_reorder(own, right) if own.size == right.size else None
    return min(distance(own, right), FAR if best is None else best[1]) <= _AGREE


def _same(value: Array | None, right: Array | None) -> bool:
    if value is None or right is None or squeezed(value) != squeezed(right):
        return False
    return is_telling(value) and distance(value, right) <= AS_IT_LIES
