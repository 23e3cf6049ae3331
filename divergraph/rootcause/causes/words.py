"""Parts of the sentences of causes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from divergraph.rootcause.causes.evidence import Cause, InsideStep, Mask, SampledTensors
from divergraph.rootcause.causes.limits import GUESS
from graphstore.model import EvidenceValue, Op

_VALUES = 3
"""Values of a constant that are told one by one."""


_SMALL = 1e-3
"""No number by which calls are usually told what to do is so small, but for what keeps a divisor
from 0."""


def is_epsilon(attribute: str, value: float) -> bool:
    """Whether an attribute is what is added to a variance: ``epsilon``, ``eps``, or of a recorded
    call a small number whose name nobody recorded."""
    return "eps" in attribute or (argument_name(attribute) != attribute and 0 < value <= _SMALL)


def argument_name(attribute: str) -> str:
    """``epsilon``, or of a recorded call ``eps``, ``argument 4``."""
    name = attribute.removeprefix("input.")
    return f"argument {name}" if name.isdecimal() else name


def share_text(part: int, total: int) -> str:
    """The share in percent with three digits; ``all`` for the whole."""
    share = 100.0 * part / total if total else 0.0
    if part == total:
        return "all"
    return f"{share:.3g} %"


def ranges_text(numbers: Iterable[int]) -> str:
    """``0-3, 7, 9-12``, cut after six ranges."""
    limit, runs = 6, list[list[int]]()
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    more = [f"and {len(texts) - limit} more ranges"] if len(texts) > limit else []
    return ", ".join([*texts[:limit], *more])


def slices_name(axis: int, view: SampledTensors, count: int) -> str:
    """The word for slices of an axis: channels if it is the channel axis."""
    if axis == view.axes()[0]:
        return "channel" if count == 1 else "channels"
    return "slice" if count == 1 else "slices"


def slices_text(numbers: Iterable[int], axis: int, view: SampledTensors) -> str:
    """``channels 8-15`` or ``slices 3, 5 of axis 2``, numbered as in the whole tensor."""
    listed = [number * view.steps[axis] for number in numbers]
    name = slices_name(axis, view, len(listed))
    text = f"{name} {ranges_text(listed)}" if view.steps[axis] == 1 else f"some {name}"
    return text if name.startswith("channel") else f"{text} of axis {axis}"


def channels_text(hit: Mask) -> str:
    """``, in channels 1-3`` for the channels hit; empty if none or all are."""
    numbers = np.flatnonzero(hit)
    if numbers.size in (0, hit.size):
        return ""
    name = "channel" if numbers.size == 1 else "channels"
    return f", in {name} {ranges_text(numbers.tolist())}"


def as_well(cause: Cause, other: Cause) -> Cause:
    """*cause* with *other*, which explains the device equally well, so that neither is sure."""
    sentence = f"{cause.sentence}; as well: {other.sentence}"
    return replace(cause, sentence=sentence, confidence=min(cause.confidence, GUESS))


def step_text(step: InsideStep) -> str:
    """An op inside a group: its type and name."""
    return f"{step.op.type} {step.op.name or step.op.id}"


def axes_text(axes: Sequence[int]) -> str:
    """``axis 1``, ``axes 1 and 2``."""
    return ("axis " if len(axes) == 1 else "axes ") + " and ".join(map(str, axes))


def values_text(
    name: str, places: Sequence[object], expected: Iterable[float], values: Iterable[float]
) -> str:
    """``w[3] 0.5 in place of 0.1``, at most three of them; without *places* just the name."""
    listed = [
        f"{name}{places[number] if places else ''} {value:.5g} in place of {right:.5g}"
        for number, (right, value) in enumerate(zip(expected, values, strict=True))
    ]
    more = f" and {len(listed) - _VALUES} more" if len(listed) > _VALUES else ""
    return ", ".join(listed[:_VALUES]) + more


def wrong_turns(view: SampledTensors) -> tuple[list[int], int] | None:
    """The turns in which the output of a loop is wrong, and how many there are; None where it does
    not hold one slice for each turn."""
    op = view.case.ops[-1] if view.case.ops else None
    port = view.case.golden_port
    axis = None if op is None else _turns(op, view.case.port if port is None else port)
    if axis is None or view.steps[:1] != (1,) or view.d.ndim <= axis:
        return None
    rest = tuple(other for other in range(view.d.ndim) if other != axis)
    wrong = np.flatnonzero(np.any(view.wrong | ~view.finite, axis=rest))
    return wrong.tolist(), view.d.shape[axis]


def turn_text(view: SampledTensors) -> tuple[str, dict[str, EvidenceValue]]:
    """Where the output of a loop holds one slice for each turn: the first wrong turn, in words and
    as evidence; nothing where it does not, or all are wrong."""
    wrong, turns = wrong_turns(view) or ([], 0)
    if not wrong or len(wrong) == turns:
        return "", {}
    first = wrong[0]
    where = f"in {ranges_text(wrong)}"
    if wrong == list(range(first, turns)):
        where = f"from {first} on"
    return f"; of {turns} turns of the loop it is wrong {where}", {"first_turn": first, "of": turns}


def _turns(op: Op, port: int) -> int | None:
    """The axis of an output of a loop along which its turns lie; None if it holds the last only."""
    states = {
        "Loop": len(op.inputs) - 2,
        "Scan": len(op.inputs) - _number(op.attrs.get("num_scan_inputs")),
    }
    return 0 if op.type in states and port >= states[op.type] else None


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
