"""Matches by the name of an op alone that dumped values contradict.

Different values alone contradict nothing: the op may be the faulty one. They do if another tensor
without a counterpart fits far better: a device tensor with the golden values, or an output of a
golden op of this type with the device's values.
"""

from __future__ import annotations

from collections.abc import Iterable

from divergraph.graphs.lineage import Lineage, Unmatched
from divergraph.graphs.lineage.golden_tensors import Outputs
from divergraph.graphs.lineage.split_originals import HANDING_ON
from divergraph.graphs.matching.by_value import is_telling, squeezed
from divergraph.values.array_types import Array
from divergraph.values.closeness import AS_IT_LIES, FAR, best_reorder, distance
from divergraph.values.dumped_values import DumpedValues
from graphstore.model import LineageRule, Reason, TensorMatch, TensorRef

_AGREE = 0.3
"""Relative distance up to which values count as the same on any healthy device."""


def contradicted(
    lineage: Lineage, outputs: Outputs, device: DumpedValues, golden: DumpedValues
) -> dict[TensorRef, Unmatched]:
    """The outputs matched by ``same_name`` whose golden values another open device tensor has,
    or which have those of another golden op of their type that is nobody's counterpart.

    Nothing is read where no open tensor has as many elements.
    """
    ops, originals = lineage.device_ops, lineage.golden.graph.op_index()
    taken = {each.golden for each in outputs.values() if isinstance(each, TensorMatch)}
    rivals = _by_size(
        (
            ref
            for ref, found in outputs.items()
            if isinstance(found, Unmatched) and ops[ref.op].type not in HANDING_ON
        ),
        device,
    )
    outer = (ref for op in originals.values() for ref in op.makes)
    free = _by_size((ref for ref in outer if ref not in taken), golden)
    wrong: dict[TensorRef, Unmatched] = {}
    for ref, match in outputs.items():
        if not isinstance(match, TensorMatch) or match.rule is not LineageRule.SAME_NAME:
            continue
        size = golden.size(match.golden) or 0
        kin = [each for each in free.get(size, ()) if originals[each.op].type == ops[ref.op].type]
        others = rivals.get(size, [])
        own = device.of(ref) if others or kin else None
        right = None if own is None else golden.of(match.golden)
        if own is None or right is None or not (is_telling(own) and is_telling(right)):
            continue  # a dead output is a fault, not another tensor
        if _agree(own, right):
            continue
        holder = next((each for each in others if _same(device.of(each), right)), None)
        holder = holder or next((each for each in kin if _same(own, golden.of(each))), None)
        if holder is not None:
            said = f"its values contradict its name, {match.golden.op}; {holder.op} fits them"
            wrong[ref] = Unmatched(Reason.UNKNOWN_ORIGINAL, said)
    return wrong


def _by_size(refs: Iterable[TensorRef], values: DumpedValues) -> dict[int, list[TensorRef]]:
    found: dict[int, list[TensorRef]] = {}
    for ref in refs:
        size = values.size(ref)
        if size is not None:
            found.setdefault(size, []).append(ref)
    return found


def _agree(own: Array, right: Array) -> bool:
    best = best_reorder(own, right) if own.size == right.size else None
    return min(distance(own, right), FAR if best is None else best[1]) <= _AGREE


def _same(value: Array | None, right: Array | None) -> bool:
    if value is None or right is None or squeezed(value) != squeezed(right):
        return False
    return is_telling(value) and distance(value, right) <= AS_IT_LIES
