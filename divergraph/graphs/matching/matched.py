"""What is matched so far, and what is known of the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from divergraph.graphs.lineage import Lineage, Unmatched
from divergraph.graphs.lineage.golden_tensors import Counterpart
from divergraph.graphs.matching.by_value import is_telling
from divergraph.graphs.matching.constants import constant_ops
from divergraph.graphs.matching.golden_reach import GoldenReach
from divergraph.graphs.matching.judging import SURE_ENOUGH, Candidate, CounterpartChoice, judge
from divergraph.graphs.matching.pins import Pins
from divergraph.values.closeness import AS_IT_LIES, distance
from divergraph.values.dumped_values import DumpedValues
from graphstore.model import LineageRule, ModelGraph, Op, Reason, TensorMatch, TensorRef

OPEN = frozenset({Reason.UNMATCHED, Reason.LAYOUT_UNSUPPORTED, Reason.LOW_CONFIDENCE})
TRANSPOSE = "Transpose"
MOVING = frozenset({"ReorderInput", "ReorderOutput", TRANSPOSE})
"""Inserted ops that pass on the same values in another order."""
_QUANTISING = frozenset({"QuantizeLinear", "DequantizeLinear"})
_HANDING_ON = MOVING | _QUANTISING | {"Cast", "TransData"}
"""Inserted ops whose output equals their input, up to rounding."""
_SAME_CONSTANT = 1e-6
"""Relative distance up to which constants are the same: one step of float32."""
_MOST_SKIPPED = 12
"""The longest way back to what is known."""


@dataclass(frozen=True, slots=True)
class KnownBefore:
    """The nearest tensors before an op that have a counterpart, by golden tensor, and the names of
    the golden graph inputs it depends on. ``skipped`` tensors without one lie between."""

    matches: Mapping[TensorRef, TensorMatch]
    fed: frozenset[str]
    skipped: int = 0

    @property
    def key(self) -> tuple[frozenset[TensorRef], frozenset[str]]:
        """Equal if the same is known."""
        return frozenset(self.matches), self.fed


class Matched:
    """The counterparts of device tensors (``outputs``), as rules find them one by one."""

    def __init__(
        self,
        lineage: Lineage,
        device: ModelGraph,
        pins: Pins,
        device_values: DumpedValues,
        golden_values: DumpedValues,
    ) -> None:
        self.outputs: dict[TensorRef, Counterpart] = dict(lineage.outputs)
        self.device_ops = lineage.device_ops
        self.device_values, self.golden_values = device_values, golden_values
        self.pins = pins
        golden = lineage.golden.graph
        self.reach = GoldenReach(golden)
        self.device_constants = constant_ops(device)
        self._golden_constants = constant_ops(golden)
        self._telling: dict[TensorRef, bool] = {}
        self._takers: dict[TensorRef, TensorRef] = {}
        self._fed = {tensor.name: tensor.name for tensor in golden.inputs}
        self._fed |= {name.removesuffix(":0"): name for name in self._fed}

    def is_golden_constant(self, ref: TensorRef) -> bool:
        """Whether a golden tensor depends on no input of the model."""
        return ref.op in self._golden_constants

    def is_open(self, ref: TensorRef) -> bool:
        """Whether a dumped device tensor may get a counterpart yet."""
        output = self.outputs.get(ref)
        if not isinstance(output, Unmatched) or ref in self.pins.is_alone:
            return False
        if output.reason is Reason.INSERTED:
            kind = self.device_ops[ref.op].type
            unsettled = kind in MOVING or (kind not in _QUANTISING and self.image(ref) is None)
        else:
            unsettled = output.reason in OPEN
        return unsettled and self.device_values.has(ref)

    def taken(self) -> set[TensorRef]:
        """The golden tensors that are a counterpart."""
        return {match.golden for match in self.outputs.values() if isinstance(match, TensorMatch)}

    def image(self, ref: TensorRef) -> TensorMatch | None:
        """The match of a device tensor, or of what an inserted op passes on to it."""
        seen: set[TensorRef] = set()
        while ref not in seen:
            seen.add(ref)
            output = self.outputs.get(ref)
            if isinstance(output, TensorMatch):
                return output
            source = self.device_ops[ref.op].source()
            inserted = isinstance(output, Unmatched) and output.reason is Reason.INSERTED
            if not inserted or source is None:
                return None
            ref = source
        return None

    def images(self) -> dict[TensorRef, TensorMatch]:
        """By golden tensor the match of the highest confidence whose values were dumped."""
        images: dict[TensorRef, TensorMatch] = {}
        for match in self.outputs.values():
            if isinstance(match, TensorMatch) and self.device_values.has(match.device):
                other = images.get(match.golden)
                if other is None or match.confidence > other.confidence:
                    images[match.golden] = match
        return images

    def known(self, op: Op, *, across: bool = False) -> KnownBefore | None:
        """What is known before *op*; None while the values of one of its inputs may be anything.
        *across*: they may be whatever they are."""
        matches: dict[TensorRef, TensorMatch] = {}
        fed: set[str] = set()
        seen: set[str] = set()
        stack = [op]
        while stack:
            current = stack.pop()
            for op_input in current.inputs:
                if op_input is None:
                    continue
                ref = op_input.producer
                if ref is None:
                    fed.update(name for name in (self._fed.get(op_input.tensor),) if name)
                elif ref.op in self.device_constants or ref.op in seen:
                    continue  # the golden graph's own constants serve for those
                elif (match := self.image(ref)) is not None:
                    matches[match.golden] = match
                elif not across and self.is_unknown(ref):
                    return None
                else:
                    seen.add(ref.op)
                    stack.append(self.device_ops[ref.op])
            if len(seen) > _MOST_SKIPPED:
                return None
        return KnownBefore(matches, frozenset(fed), len(seen)) if matches or fed else None

    def is_unknown(self, ref: TensorRef) -> bool:
        """Whether a device tensor has values of its own and no counterpart. What was not dumped, or
        is one value all over, may be computed from what is before it."""
        if ref.op in self.device_constants or self.image(ref) is not None:
            return False
        if ref not in self._telling:
            value = self.device_values.of(ref)
            self._telling[ref] = value is not None and is_telling(value)
        return self._telling[ref]

    def judged(self, ref: TensorRef, candidates: Sequence[Candidate]) -> CounterpartChoice | None:
        """The choice among candidates for a device tensor, without those that pins forbid."""
        kind, of_constants = self.device_ops[ref.op].type, ref.op in self.device_constants
        return judge(
            [
                replace(candidate, kin=self.reach.ops[candidate.golden.op].type == kind)
                for candidate in candidates
                # A Conv of zeros gives its bias, but is not the bias although the values agree.
                if self.pins.allows(ref, candidate.golden)
                and (not self.is_golden_constant(candidate.golden) or of_constants)
                # A variance with an epsilon added is near the variance, and is another constant.
                and (not of_constants or candidate.apart <= _SAME_CONSTANT)
            ]
        )

    def is_worse_than_another(self, ref: TensorRef, candidate: Candidate) -> bool:
        """Whether a golden tensor is only near, and already belongs to another device tensor. A
        golden Conv with bias is near the device's Conv without it, but its counterpart is the Add,
        even if only names say so."""
        taker = self._takers.get(candidate.golden)
        if taker is None or taker == ref:
            return False
        return candidate.apart > AS_IT_LIES or self._is_changed(ref, taker)

    def belongs_to_input(self, ref: TensorRef, candidate: Candidate) -> bool:
        """Whether the golden tensor is that of an input of the op of *ref*, which the op changes.
        The first of the parts of a Clip changes few values, and none of the parts is the Clip."""
        taker = self._takers.get(candidate.golden)
        return taker is not None and taker != ref and self._is_changed(taker, ref)

    def list_takers(self) -> None:
        """Note which golden tensors are taken by what was found before values were compared."""
        for ref, match in self.outputs.items():
            if isinstance(match, TensorMatch) and (
                # an op that hands it on to a Result has not taken it
                self.device_values.has(ref) or match.rule is not LineageRule.THROUGH_INSERTED
            ):
                self._takers[match.golden] = ref

    def _is_changed(self, ref: TensorRef, taker: TensorRef) -> bool:
        """Whether the op of *taker* computes its output from *ref* and changes the values, however
        little."""
        op = self.device_ops[taker.op]
        if ref not in op.takes or op.type in _HANDING_ON:
            return False
        before, after = self.device_values.of(ref), self.device_values.of(taker)
        return before is not None and after is not None and distance(before, after) > 0.0

    def put(self, match: TensorMatch) -> None:
        """Keep the counterpart of a dumped tensor."""
        self.outputs[match.device] = match
        self._takers[match.golden] = match.device

    def settle(self, ref: TensorRef, rule: LineageRule, choice: CounterpartChoice) -> bool:
        """Match *ref*, or keep the guess in its detail; whether it is matched."""
        best = choice.best
        if choice.confidence >= SURE_ENOUGH:
            self.put(TensorMatch(ref, best.golden, rule, round(choice.confidence, 3), best.reorder))
            return True
        name = self.reach.tensor_name(best.golden) or str(best.golden)
        reason = f"perhaps {name} ({rule.value}, confidence {choice.confidence:.2f})"
        self.outputs[ref] = Unmatched(Reason.LOW_CONFIDENCE, f"{reason}; pin it to compare")
        return False
