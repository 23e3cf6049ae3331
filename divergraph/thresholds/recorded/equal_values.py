"""What checksums prove of recorded calls, and which weights are not golden's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from divergraph.metrics.statistics import BY_CHECKSUM
from divergraph.thresholds.recorded.call_errors import CallErrors, error_text
from divergraph.thresholds.recorded.call_pairs import CallPairs
from divergraph.thresholds.recorded.cause_labels import WEIGHT
from divergraph.thresholds.recorded.errors import NONE, Error, is_unequal, most
from graphstore.model import Comparison, Op

_EXACT = 4 * 2.0**-8
"""A weight of which no element is off by more, relative to a quarter of the largest, is golden's,
rounded to bfloat16 at most; the type of its file does not tell, msprobe's ``.npy`` are float32."""
_STANDS_OUT = 4.0
"""A matrix whose error is more than this many times the usual one is not golden's. Measured: a
shard from before one update has 6.6 times, the matrices of a healthy bfloat16 job at most 1.5."""
_WEIGHTS = 0.5
"""Share of the weights that must be golden's, rounded, for another one to be a fault: after updates
all of them differ."""


class EqualValues:
    """What is the same on both sides of recorded *pairs* of calls, and what is not."""

    def __init__(self, pairs: CallPairs, errors: CallErrors) -> None:
        self._pairs, self._errors = pairs, errors
        self._places = {op.id: place for place, op in enumerate(pairs.device.ops)}
        back = (op.id for op in pairs.device.ops if op.attrs.get("direction") == "backward")
        self._first_back = self._places.get(next(back, ""), len(self._places))
        same = [item.detail == BY_CHECKSUM for item in self._weight_items()]
        self._has_equal_weights = sum(same) > _WEIGHTS * len(same)

    def differs_of_equal_inputs(self, op: Op, outputs: Sequence[Comparison]) -> bool:
        """Whether checksums prove that *op* makes another output, by more than rounding, of what is
        the same on both sides but for a weight."""
        return self.makes_unequal(op) and any(
            is_unequal(item) and self._errors.is_more_than_rounding(item) for item in outputs
        )

    def other_weight(self, op: Op) -> tuple[str, str] | tuple[()]:
        """The label and the sentence of the cause that a weight *op* reads is another; empty where
        checksums do not prove that."""
        for item in self._pairs.inputs.get(op.id, ()):
            if self._is_other_weight(op, item):
                weight = self._pairs.input_name(item).partition(".parameters.")[2]
                error = self._errors.of(item)
                much = "its statistics are equal: perhaps golden's values in another order"
                if error is not None and error.distance > 0.0:
                    much = error_text(item, error)
                return WEIGHT, f"its {weight} differs from golden's ({much})"
        return ()

    def makes_unequal(self, op: Op) -> bool:
        """Whether *op* by checksums makes other values of what is equal but for weights."""
        read = self._pairs.inputs.get(op.id, ())
        return (
            bool(read)
            and any(map(is_unequal, self._pairs.outputs.get(op.id, ())))
            and all(item.detail == BY_CHECKSUM or self._is_other_weight(op, item) for item in read)
        )

    def proved_starts(self, op: Op) -> list[str]:
        """The calls that by checksums make other values of equal ones, and lead to *op*, in their
        order."""
        starts: set[str] = set()
        seen, waiting = {op.id}, [op]
        while waiting:
            call = waiting.pop()
            if self.makes_unequal(call):
                starts.add(call.id)
                continue
            for item in self._pairs.inputs.get(call.id, ()):
                source = call.inputs[item.port] if item.port < len(call.inputs) else None
                maker = source.producer.op if source is not None and source.producer else ""
                if is_unequal(item) and maker and maker not in seen:
                    seen.add(maker)
                    waiting.append(self._pairs.ops[maker])
        return sorted(starts, key=self._places.__getitem__)

    def unlike_weights(self) -> set[str]:
        """The names of the weights that are not golden's, if they are few. Where none is exact, in
        16 bits or after an update, the matrices that are off by many times what others are: vectors
        that began as zeros are signs of gradients by then, which rounding decides."""
        errors: dict[str, Error] = {}
        matrices = set[str]()
        for item in self._weight_items():
            error = self._errors.of(item)
            if error is not None:
                # A weight that equals another goes by the name of the first, which may be right.
                name = self._pairs.input_name(item)
                errors[name] = most((errors.get(name, NONE), error))
                if len(item.shape or ()) > 1:
                    matrices.add(name)
        unlike = {name for name, error in errors.items() if error.worst > _EXACT}
        if len(unlike) <= (1 - _WEIGHTS) * len(errors):
            return unlike
        usual = median(errors[name].distance for name in matrices) if matrices else math.inf
        return {name for name in matrices if errors[name].distance > _STANDS_OUT * usual}

    def _is_other_weight(self, op: Op, item: Comparison) -> bool:
        """Whether checksums prove a weight another, most being the same. What reads weights behind
        the first way back updates them."""
        is_there = self._has_equal_weights and self._places[op.id] < self._first_back
        return is_there and self._pairs.is_weight(item) and is_unequal(item)

    def _weight_items(self) -> Iterator[Comparison]:
        for items in self._pairs.inputs.values():
            yield from (item for item in items if self._pairs.is_weight(item))
