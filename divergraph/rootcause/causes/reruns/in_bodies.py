"""Faults inside of a loop or branch: what would come out if an op of its body had failed?

What a body makes was not dumped. But its ops can be changed, in every turn or in those from which
on the output is wrong, the op that owns it run again, and its output compared with the device's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from divergraph.execute.contract import BodyChange
from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Cause, Floats, SampledTensors, rms
from divergraph.rootcause.causes.limits import CLOSE, GUESS, STEP, SURE
from divergraph.rootcause.causes.words import wrong_turns
from graphstore.model import EvidenceValue, Op

_MOST_OPS = 24
"""Ops of bodies that are tried. Bounds cost, as do the next two: each trial runs the owner once."""
_LARGEST = 1 << 20
"""Elements of the largest output for which the owner is run many times."""
_MOST_PLACES = 64
"""Ops times turns that are tried where nothing shows in which turn one failed."""
_ROUNDS = 4
_MOVING = frozenset(
    (
        *("Constant", "Identity", "Shape", "Cast", "Loop", "Scan", "If", "SequenceAt"),
        *("Not", "And", "Or", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"),
    )
)
"""Ops that compute no floats, or hand them on."""
_ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "Erf", "Elu", "HardSigmoid")
_BIAS = 2
_BINARY = 2
_Turns: TypeAlias = tuple[int, "int | None"]
"""The first and the last turn, counted from 0; None: to the end."""


@dataclass(frozen=True)
class _Guess:
    """One fault of one op: the change, its label and its words."""

    op: Op
    change: BodyChange
    label: str
    words: str


def in_bodies(view: SampledTensors) -> Cause | None:
    """An op of a body was left out, lost its bias, computed another function, or is off by a factor
    or a constant, in every turn or in some."""
    case = view.case
    if case.bodies is None or not view.visible or case.device.size > _LARGEST or view.d.size < 8:
        return None
    ops = [op for op in case.bodies.ops if op.type not in _MOVING and len(op.outputs) == 1]
    if not ops or len(ops) > _MOST_OPS:
        return None
    for turns in _turns(view, len(ops)):
        exact = [guess for op in ops for turn in turns for guess in _exact(op, turn)]
        cause = _best(view, exact) or _best(
            view, [guess for op in ops for turn in turns for guess in _amounts(view, op, turn)]
        )
        if cause is not None:
            return cause
    return None


def _turns(view: SampledTensors, ops: int) -> Iterator[Sequence[_Turns | None]]:
    """The turns in which an op may have failed, None for every one; those yielded together are
    held against each other.

    What a turn gives is handed on to the next: so the first wrong one alone may have failed, or
    some from it on. Where the output does not show which is the first, each one may have.
    """
    seen = wrong_turns(view)
    if seen is None or not seen[0]:
        yield [None]
        count = _count(view)
        if ops * count <= _MOST_PLACES:
            yield [(turn, turn) for turn in range(count)]
        return
    wrong, count = seen
    first, last = wrong[0], wrong[-1]
    if len(wrong) == count:
        yield [None]
    yield [(first, first)]
    if first < last < count - 1:
        yield [(first, last)]
    if 0 < first < last:
        yield [(first, None)]


def _count(view: SampledTensors) -> int:
    """How many turns the Loop of a group takes at most, as it is told; 0 where it is not."""
    op = view.case.ops[-1] if view.case.ops else None
    ref = op.inputs[0] if op is not None and op.type == "Loop" and op.inputs else None
    values = {**view.case.constants, **view.case.inputs}
    count = values.get(ref.tensor) if ref is not None else None
    return 0 if count is None or count.size != 1 else int(count.reshape(-1)[0])


def _exact(op: Op, turns: _Turns | None) -> Iterator[_Guess]:
    """Faults without an amount."""
    tensor, called = op.outputs[0].name, _called(op)
    for position, ref in enumerate(op.inputs):
        if ref is not None and position < _BINARY:
            change = BodyChange(tensor, own=0.0, share=1.0, position=position, turns=turns)
            words = f"{called} hands on its input {ref.tensor}: it was not computed"
            yield _Guess(op, change, "missing_op", words)
    if op.type == "Gemm" and len(op.inputs) > _BIAS and op.inputs[_BIAS] is not None:
        change = BodyChange(tensor, share=-1.0, position=_BIAS, turns=turns)
        yield _Guess(op, change, "lost_bias", f"{called} lacks its bias")
    for kind in _ACTIVATIONS if op.type in _ACTIVATIONS else ():
        if kind != op.type:
            change = BodyChange(tensor, kind=kind, turns=turns)
            yield _Guess(op, change, "wrong_activation", f"{called} is {kind}")


def _amounts(view: SampledTensors, op: Op, turns: _Turns | None) -> Iterator[_Guess]:
    """A factor, and a constant, by which the op is off."""
    called, usual = _called(op), BodyChange(op.outputs[0].name, turns=turns)
    gain = _solved(view, lambda amount: replace(usual, own=1.0 + amount))
    if gain is not None:
        words = f"{called} is {1.0 + gain:.5g} times what it should be"
        yield _Guess(op, replace(usual, own=1.0 + gain), "gain", words)
    offset = _solved(view, lambda amount: replace(usual, offset=amount))
    if offset is not None:
        words = f"{called} is off by {offset:+.5g}"
        yield _Guess(op, replace(usual, offset=offset), "global_offset", words)


def _solved(view: SampledTensors, change: Callable[[float], BodyChange]) -> float | None:
    """The amount whose outcome is nearest to the device, by the secant method; None if the first
    steps explain little."""
    amount, at = 0.0, view.r
    for _ in range(_ROUNDS):
        moved = _outcome(view, change(amount + STEP))
        if moved is None:
            return None
        slope = (moved - at) / STEP
        power = float(np.sum(slope * slope))
        if power == 0.0 or not math.isfinite(power):
            return None
        more = float(np.sum(slope * (view.d - at))) / power
        if rms(view.d - at - more * slope) > 0.5 * view.error:
            return None
        amount += more
        landed = _outcome(view, change(amount))
        if landed is None:
            return None
        at = landed
        if view.explains(at):
            break
    return amount


def _outcome(view: SampledTensors, change: BodyChange) -> Floats | None:
    output = None if view.case.bodies is None else view.case.bodies.changed(change)
    return (
        None if output is None or output.shape != view.case.reference.shape else view.made(output)
    )


def _best(view: SampledTensors, guesses: list[_Guess]) -> Cause | None:
    """The guess that explains most, if it explains enough; others as good are named with it."""
    tried = [(guess, _outcome(view, guess.change)) for guess in guesses]
    fitting = [
        (view.left(output), guess, output)
        for guess, output in tried
        if output is not None and view.fits(output)
    ]
    if not fitting:
        return None
    error_left, guess, output = min(fitting, key=lambda entry: entry[0])
    others = [
        other
        for each_left, other, _ in fitting
        if other is not guess and each_left <= error_left + CLOSE
    ]
    sure, how = view.told(output, GUESS if others else SURE)
    sure *= 1.0 - error_left  # so much of the error is noise, or of something else
    sentence = f"the device has {how} what comes out if {_when(guess)}"
    sentence += "".join(f"; as well if {_when(other)}" for other in others)
    evidence: dict[str, EvidenceValue] = {
        "op": guess.op.id,
        "ops": [same.op.id for same in (guess, *others)],
        "left": error_left,
        "explanations": len(others) + 1,
    }
    if guess.change.turns is not None:
        first, last = guess.change.turns
        evidence["turns"] = [first] if last is None else [first, last]
    if guess.label == "gain":
        evidence["amount"] = guess.change.own
    elif guess.label == "global_offset":
        evidence["amount"] = guess.change.offset
    return Cause(guess.label, sentence, sure, evidence)


def _when(guess: _Guess) -> str:
    return f"{_turns_text(guess.change.turns)} {guess.words}"


def _turns_text(turns: _Turns | None) -> str:
    if turns is None:
        return "in every turn"
    first, last = turns
    if last is None:
        return f"from turn {first} on"
    return f"in turn {first} alone" if first == last else f"in turns {first} to {last}"


def _called(op: Op) -> str:
    return f"{op.type} {op.name or op.id}"


def to_be_dumped(cause: Cause, view: SampledTensors) -> Cause:
    """*cause*, with the data that would tell more where an op with bodies is to blame."""
    owner = next((op for op in reversed(view.case.ops) if op.owns), None)
    if owner is None or cause.label != "unclassified":
        return cause
    names = ", ".join(owner.owns)
    return replace(
        cause,
        sentence=f"{cause.sentence}; what the ops of {names} give in each turn was not dumped, and "
        "would tell which of them errs first (as outputs of the loop for every turn)",
    )


CAUSES = (CauseRule(in_bodies, CauseStage.FUNCTION, 20),)
