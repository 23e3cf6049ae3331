"""What is wrong with single operands of a Concat: each is judged as a tensor of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage, rules_of_a_part
from divergraph.rootcause.causes.evidence import Array, Cause, SampledTensors
from divergraph.rootcause.causes.limits import LEFT
from divergraph.rootcause.causes.words import slices_text
from graphstore.model import Op

_MOST_AXES = 5


@dataclass(frozen=True)
class _Operand:
    """One operand: its number, name and slices, and what the device and the reference have."""

    number: int
    name: str
    axis: int
    slices: tuple[int, ...]
    view: SampledTensors
    whole: SampledTensors

    def __str__(self) -> str:
        where = slices_text(list(self.slices), self.axis, self.whole)
        return f"input {self.number} ({self.name}, {where})"


def wrong_operands(view: SampledTensors) -> Cause | None:
    """Some operands of a Concat are wrong, the others right."""
    op = view.case.ops[-1] if view.case.ops else None
    if op is None or "Concat" not in op.type or view.sampled:
        return None
    operands = _operands(view, op)
    wrong = [operand for operand in operands if operand.view.visible]
    if not wrong or len(wrong) == len(operands):
        return None
    causes = [_cause(operand, operands) for operand in wrong]
    causes_known = [cause for cause in causes if cause is not None]
    if len(causes_known) < len(causes):
        return None
    sentence = "; ".join(
        f"{operand} {cause.sentence}" for operand, cause in zip(wrong, causes_known, strict=True)
    )
    evidence = {"operands": [operand.number for operand in wrong], **causes_known[0].evidence}
    sure = min(cause.confidence for cause in causes_known)
    return Cause(causes_known[0].label, f"{sentence}; the other inputs are right", sure, evidence)


def _operands(view: SampledTensors, op: Op) -> list[_Operand]:
    """The operands of a Concat; none if their sizes are not known."""
    case, axis = view.case, op.attrs.get("axis", op.attrs.get("concat_dim"))
    arrays = {**case.constants, **case.inputs}
    names = [ref.tensor for ref in op.inputs if ref is not None and ref.tensor in arrays]
    rank = case.reference.ndim
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return []
    axis %= rank
    shapes = [arrays[name].shape for name in names]
    if any(len(shape) != rank for shape in shapes):
        return []
    ends = np.cumsum([shape[axis] for shape in shapes])
    if not ends.size or ends[-1] != case.reference.shape[axis]:
        return []
    operands = []
    for number, name in enumerate(names):
        slices = tuple(range(int(ends[number]) - shapes[number][axis], int(ends[number])))
        operands.append(_Operand(number, name, axis, slices, _view(view, axis, slices), view))
    return operands


def _view(view: SampledTensors, axis: int, slices: Sequence[int]) -> SampledTensors:
    d, r = (np.take(array, slices, axis) for array in (view.d, view.r))
    return view.of_part(d, r)


def _cause(wrong: _Operand, operands: Sequence[_Operand]) -> Cause | None:
    """What is wrong with an operand, in words that follow its name."""
    view = wrong.view
    for words, candidate in _orders(view.r):
        if view.fits(candidate, rest=0.5 * LEFT):
            return Cause("reordered", words, view.sure, {})
    for other in operands:
        alike = other.view.r.shape == view.r.shape and other.number != wrong.number
        if alike and view.fits(other.view.r, rest=0.5 * LEFT):
            return Cause(
                "repeated_slices", f"holds input {other.number} ({other.name})", view.sure, {}
            )
    causes = (rule(view) for rule in rules_of_a_part())
    cause = next((cause for cause in causes if cause is not None), None)
    return None if cause is None else replace(cause, sentence=f"is wrong: {cause.sentence}")


def _orders(value: Array) -> Iterator[tuple[str, Array]]:
    """*value* with axes exchanged or run through backwards, in words."""
    if value.ndim > _MOST_AXES:
        return
    for order in permutations(range(value.ndim)):
        turned = value.transpose(order)
        if turned.shape == value.shape and order != tuple(range(value.ndim)):
            yield f"with {_order_text(order)}", turned
    for axis in range(value.ndim):
        if value.shape[axis] > 1:
            yield f"with axis {axis} running backwards", np.flip(value, axis)


def _order_text(order: Sequence[int]) -> str:
    moved = [axis for axis, source in enumerate(order) if axis != source]
    if len(moved) == 2:
        return f"axes {moved[0]} and {moved[1]} exchanged"
    return f"axes in the order {list(order)}"


CAUSES = (CauseRule(wrong_operands, CauseStage.ORDER, 5),)
