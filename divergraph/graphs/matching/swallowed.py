"""Names of tensors that an optimiser kept while it put the ops behind them into the op in front.

It folds a BatchNormalization into the Conv, whose tensor keeps its name and has the values of the
normalised one from then on; it takes a Transpose from before a Shape, which gives the sizes in
another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from divergraph.graphs.lineage import Lineage, Unmatched
from divergraph.graphs.lineage.golden_tensors import Counterpart, Outputs
from divergraph.graphs.matching.by_value import is_telling
from divergraph.values.array_types import Array
from divergraph.values.closeness import AS_IT_LIES, best_reorder, distance
from divergraph.values.dumped_values import DumpedValues
from graphstore.model import LineageRule, Op, Reason, TensorMatch, TensorRef

_BY_NAME = frozenset({LineageRule.SAME_NAME, LineageRule.SAME_TENSOR})
_EQUAL = 1e-5
"""Relative distance up to which a few numbers are taken for the same."""
_MOST = 6
"""The longest chain of ops put into one."""


def with_swallowed(
    lineage: Lineage, outputs: Outputs, device: DumpedValues, golden: DumpedValues
) -> dict[TensorRef, Counterpart]:
    """The matches by name whose device values are not those of the golden tensor, but those of one
    that follows from it alone and is nobody's counterpart. Nothing is read where none is lost."""
    readers = lineage.golden.graph.readers()
    goldens = {match.golden for match in outputs.values() if isinstance(match, TensorMatch)}
    swallowed: dict[TensorRef, Counterpart] = {}
    for ref, match in outputs.items():
        if not isinstance(match, TensorMatch) or match.rule not in _BY_NAME:
            continue
        if lineage.device_ops[ref.op].type == "Shape":
            if _is_turned(device.of(ref), golden.of(match.golden)):
                reason = "the sizes of a tensor whose axes lie in another order"
                swallowed[ref] = Unmatched(Reason.UNMATCHED, reason)
            continue
        later_refs = [
            later_ref
            for later_ref in _alone_behind(match.golden, readers)
            if later_ref not in goldens and golden.has(later_ref)
        ]
        nearer = _nearer(ref, match, later_refs, device, golden)
        if nearer is not None:
            swallowed[ref] = nearer
    return swallowed


def _is_turned(here: Array | None, there: Array | None) -> bool:
    """Whether sizes are the same but for their order."""
    if here is None or there is None:
        return False
    sizes, others = here.reshape(-1).tolist(), there.reshape(-1).tolist()
    return sizes != others and sorted(sizes) == sorted(others)


def _alone_behind(ref: TensorRef, readers: Mapping[TensorRef, Sequence[Op]]) -> Iterator[TensorRef]:
    """The tensors each of which is all that is computed from the one before."""
    for _ in range(_MOST):
        users = {op.id: op for op in readers.get(ref, ())}
        if len(users) != 1:
            return
        (user,) = users.values()
        if len(user.makes) != 1:
            return
        ref = user.makes[0]
        yield ref


def _nearer(
    ref: TensorRef,
    match: TensorMatch,
    later_refs: Sequence[TensorRef],
    device: DumpedValues,
    golden: DumpedValues,
) -> TensorMatch | None:
    own = device.of(ref) if later_refs else None
    named = None if own is None else golden.of(match.golden)
    if own is None or named is None:
        return None
    limit = AS_IT_LIES if is_telling(own) else _EQUAL
    if match.reorder is None and distance(own, named) <= AS_IT_LIES:
        return None
    for later_ref in later_refs:
        value = golden.of(later_ref)
        if value is None or value.size != own.size:
            continue
        fitting = replace(match, golden=later_ref, rule=LineageRule.SAME_VALUES, confidence=0.98)
        if value.shape == own.shape and distance(own, value) <= limit:
            return replace(fitting, reorder=None)
        best = best_reorder(own, value)
        if best is not None and best[1] <= limit:
            return replace(fitting, reorder=best[0])
    return None
