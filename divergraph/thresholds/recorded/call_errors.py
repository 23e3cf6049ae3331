"""How far each call of a recorded run is off, and how many times what it was fed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from divergraph.metrics.limits.quantities import golden_root
from divergraph.thresholds.recorded.call_pairs import CallPairs
from divergraph.thresholds.recorded.errors import Error, error_of, is_bound, most
from divergraph.thresholds.recorded.statistics_only import gain, lost_share
from graphstore.model import Comparison, DType, Level, Op

JUMP = 8.0
"""Healthy steps of a GPT in bfloat16 (two seeds, two steps, all calls) reach 4.7, at the first
block, behind one rounding; the least of 22 faults that are over a limit is 9.3."""
_CONTROL = 2.0
"""Calls of a kind may be worse by nature: those of the run that are fine tell."""
SHIFTED = 3.0
"""What an argument that differs must do for it to be the cause."""
_TENSOR_FLOAT = 2.0**-11
"""The rounding of matrix units that take float32."""
HIDDEN = 2.0**-8
"""Up to here the statistics of what a call reads show rounding. Of more, it was named in place of
the one at fault: behind a softmax of another axis, whose sums are the same."""
_CHOSEN = 3.0
"""How much more than its choices explain a call must be off that chooses. Healthy steps of a small
convolutional net (leaky ReLU, max pooling; bfloat16 and float16) stay below 2."""
_CHOICES = re.compile(
    r".*(relu|hard|threshold|clamp|clip|abs|max|min|topk|sort|median|shrink)\w*\.backward$", re.I
)
OFF = 2.0**-7
"""A weight that is off by less as a whole is no cause: after a few updates of float16 some are."""
_ALIGNED = 0.999
"""The cosine from which a tensor is golden's times a number, in 16 bits too."""
_NO_CHOICE = re.compile(r".*(Linear|Conv|Norm|Embedding|Bias|Row|Column)", re.I)
"""Modules whose gradient chooses nothing; what others call may not have been recorded."""


class CallErrors:
    """The errors of what was compared of recorded *pairs* of calls. ``limits`` are, by kind of
    call, how many times its inputs' error a call of this run may make."""

    def __init__(self, pairs: CallPairs) -> None:
        self._pairs = pairs
        self._errors = {
            id(item): None if pairs.is_of_device(item) else _error(item)
            for item in pairs.comparisons
        }
        self.limits = self._control_group()

    def of(self, item: Comparison) -> Error | None:
        """The error of a tensor; None where nothing tells it."""
        return self._errors[id(item)]

    def largest(self, items: Iterable[Comparison]) -> Error:
        """The largest error of those *items* that have one."""
        return most(filter(None, map(self.of, items)))

    def fed(self, op: Op, *, weights: bool = True) -> tuple[Error, bool]:
        """The error of all that *op* read, and whether all of it is known."""
        items = list(self._pairs.inputs.get(op.id, ()))
        if not weights:
            items = [item for item in items if not self._pairs.is_weight(item)]
        for before in self._pairs.before(op):
            items += [*self._pairs.inputs.get(before, ()), *self._pairs.outputs.get(before, ())]
        errors = [self.of(item) or _flushed_error(item) for item in items if item.port >= 0]
        finite_errors = [error for error in errors if error is not None]
        return most(finite_errors), bool(finite_errors) and len(finite_errors) == len(errors)

    def outputs(self, op: str) -> list[Comparison]:
        """What was compared of that which call *op* makes."""
        return [item for item in self._pairs.outputs.get(op, ()) if item.compared]

    def times(self, item: Comparison, before: Error) -> float:
        """How many times the error *before* an output is off, beyond what its call makes of it."""
        error = self.of(item)
        if error is None:
            return 0.0
        if _chooses(self._pairs.ops[item.op]):
            return _times_chosen(error, before)
        op = self._pairs.ops[item.op]
        way_before = list(self._pairs.before(op))[-1:] if op.type.endswith("_grad") else []
        read = [each for call in (op.id, *way_before) for each in self._pairs.inputs.get(call, ())]
        return error.over(before, item.failed) / gain(op, item, read)

    def arrival_times(self, item: Comparison, before: Error, *, is_recorded: bool) -> float:
        """How many times the error *before* an input is off. Where what made it was not recorded on
        the way back, that may have chosen, as a ReLU does; but no choice makes an input golden's
        times a number."""
        error = self.of(item)
        if error is None:
            return 0.0
        is_back = self._pairs.ops[item.op].attrs.get("direction") == "backward"
        if is_recorded or not is_back or factor_of(item) != 1.0:
            return error.over(before, item.failed)
        return _times_chosen(error, before)

    def _control_group(self) -> Mapping[str, float]:
        """By kind of call the limit that its calls of this run set, which are within theirs."""
        limits: dict[str, float] = {}
        for op in self._pairs.device.ops:
            before, is_complete = self.fed(op)
            outputs = self.outputs(op.id)
            if is_complete and outputs and all(item.level is Level.PASS for item in outputs):
                times = max(self.times(item, before) for item in outputs)
                limits[op.type] = max(limits.get(op.type, JUMP), _CONTROL * times)
        return limits

    def is_more_than_rounding(self, item: Comparison) -> bool:
        """Whether a tensor is off by more than two roundings of its matrix unit."""
        error = self.of(item)
        unit = _TENSOR_FLOAT if item.device_dtype is DType.FLOAT32 else HIDDEN
        return error is not None and error.distance > 2 * unit

    def is_felt(self, op: Op, item: Comparison) -> bool:
        """Whether what *op* makes is off, too, by more than its other inputs are."""
        others = [
            item_before
            for item_before in self._pairs.inputs.get(op.id, ())
            if item_before is not item
        ]
        before = self.largest(others)
        outputs = [output for output in self.outputs(op.id) if output.level is not Level.PASS]
        return bool(others) and any(self.times(output, before) >= SHIFTED for output in outputs)

    def source(self, item: Comparison) -> tuple[Error, bool]:
        """The error of what made the input, through golden calls the device lacks."""
        golden = item.golden
        seen: set[str] = set()
        waiting = [] if golden is None else [golden]
        errors_before: list[Error] = []
        while waiting:
            ref = waiting.pop()
            device = self._pairs.device_twins.get(ref.op)
            if device is not None:
                errors = [
                    error
                    for output in self._pairs.outputs.get(device, ())
                    if output.port == ref.port and (error := self.of(output)) is not None
                ]
                errors_before += errors
            elif ref.op not in seen:
                seen.add(ref.op)
                waiting += self._pairs.golden_ops[ref.op].takes
        return most(errors_before), bool(errors_before)


def _error(item: Comparison) -> Error | None:
    return error_of(item) if _flushed_error(item) is None else None


def _flushed_error(item: Comparison) -> Error | None:
    """The error of a tensor of which its type alone may lose as much, an upper bound of it where
    nothing but statistics are known; None of others. What reads it makes more of that, as a square
    root does of an optimizer's second moments; what makes it is not to blame."""
    share = None if item.metrics is None else lost_share(item, golden_root(item.metrics))
    if share is None or is_bound(item):
        return None if share is None else Error(share, share)
    error = error_of(item)
    return error if error is not None and error.distance <= share else None


def _times_chosen(error: Error, before: Error) -> float:
    return error.over_choices(before) * JUMP / _CHOSEN


def factor_of(item: Comparison) -> float:
    """How many times golden's a tensor is that is off by that alone; 1 where it is not."""
    metrics, figures = item.metrics, item.figures
    if figures is None or metrics is None or not metrics.cosine_similarity >= _ALIGNED:
        return 1.0
    times = figures.device.std / figures.golden.std if figures.golden.std else 1.0
    return times if abs(times - 1.0) >= OFF else 1.0


def _chooses(op: Op) -> bool:
    """Whether a way back lets through, or goes to, what was chosen on the way there."""
    if op.attrs.get("kind") in ("Module", "Cell") and op.attrs.get("direction") == "backward":
        return not _NO_CHOICE.match(op.type)
    return bool(_CHOICES.match(op.type))


def error_text(item: Comparison, error: Error) -> str:
    """How far a tensor is off, in words."""
    bound = "at least " if is_bound(item) else ""
    return "not finite" if math.isinf(error.distance) else f"relative {bound}{error.distance:.2g}"
