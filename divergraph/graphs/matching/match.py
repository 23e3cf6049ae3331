"""Match what names leave open, in waves outwards from what is known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from divergraph.execute.contract import DEFAULT_MEMORY, Executor
from divergraph.graphs.lineage import Lineage, Unmatched
from divergraph.graphs.lineage.golden_tensors import Counterpart
from divergraph.graphs.lineage.linking import behind_transpose, relinked
from divergraph.graphs.matching.axis_orders import with_axis_orders
from divergraph.graphs.matching.by_value import ValueLookup
from divergraph.graphs.matching.constants import constant_ops
from divergraph.graphs.matching.contradicted import contradicted
from divergraph.graphs.matching.golden_reach import GoldenReach, ReachedPart
from divergraph.graphs.matching.judging import SURE_ENOUGH, Candidate, CounterpartChoice, judge
from divergraph.graphs.matching.pins import NO_PINS, Pins
from divergraph.graphs.matching.re_execution import ReExecution
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.values.closeness import AS_IT_LIES, FAR, distance
from divergraph.values.dumped_values import DumpedValues
from graphstore.model import (
    Framework,
    LineageLink,
    LineageRule,
    ModelGraph,
    Op,
    Reason,
    TensorMatch,
    TensorRef,
)
from importers.dumps.index import DumpIndex

_OPEN = frozenset({Reason.UNKNOWN_ORIGINAL, Reason.LAYOUT_UNSUPPORTED, Reason.LOW_CONFIDENCE})
_TRANSPOSE = "Transpose"
_MOVING = frozenset({"ReorderInput", "ReorderOutput", _TRANSPOSE})
"""Inserted ops that pass on the same values in another order."""
_QUANTISING = frozenset({"QuantizeLinear", "DequantizeLinear"})
_HANDING_ON = _MOVING | _QUANTISING | {"Cast", "TransData"}
"""Inserted ops whose output equals their input, up to rounding."""
_STRUCTURE_ALONE = 0.8


@dataclass(frozen=True, slots=True)
class MatchSources:
    """What matching uses besides the graphs: dumps, the user's pins, the golden model.
    ``open_executor`` is called if ops have to be re-run; it returns None if they cannot be. About
    ``memory`` bytes of values are held at once."""

    golden_dump: DumpIndex
    device_dump: DumpIndex
    open_executor: Callable[[], Executor | None] = lambda: None
    pins: Pins = NO_PINS
    memory: int = DEFAULT_MEMORY


def match_more(
    lineage: Lineage, device: ModelGraph, sources: MatchSources, progress: Progress = NO_PROGRESS
) -> Lineage:
    """*lineage* with counterparts for outputs that had none, where the evidence is strong enough.
    Otherwise the output stays unmatched, with the best guess in its detail."""
    if device.framework is Framework.ASCEND:
        return _pinned_only(lineage, sources.pins)  # its attributes gave everything else
    matcher = _Matcher(lineage, device, sources)
    ordered = matcher.order()
    matcher.pin()
    if not matcher.open and not ordered and sources.pins is NO_PINS:
        return lineage
    if matcher.open:
        progress.stage("matching tensors by value", len(matcher.open))
        matcher.by_values(progress)
        matcher.by_waves(progress)
    return relinked(matcher.outputs, lineage.golden, device)


def _pinned_only(lineage: Lineage, pins: Pins) -> Lineage:
    if pins is NO_PINS:
        return lineage
    outputs = dict(lineage.outputs)
    _apply(pins, outputs)
    links = [
        LineageLink(device.op, golden.op, LineageRule.PINNED, device.port, golden.port)
        for device, golden in pins.pinned.items()
    ]
    return replace(lineage, outputs=outputs, links=(*lineage.links, *links))


def _apply(pins: Pins, outputs: dict[TensorRef, Counterpart]) -> None:
    """Apply the user's pins to *outputs*."""
    for device, golden in pins.pinned.items():
        outputs[device] = TensorMatch(device, golden, LineageRule.PINNED)
    for ref, found in outputs.items():
        if isinstance(found, TensorMatch) and not pins.allows(ref, found.golden):
            outputs[ref] = Unmatched(Reason.UNKNOWN_ORIGINAL, "forbidden by a match file")


class _Matcher:
    def __init__(self, lineage: Lineage, device: ModelGraph, sources: MatchSources) -> None:
        self.outputs: dict[TensorRef, Counterpart] = dict(lineage.outputs)
        self._lineage = lineage
        self._device_ops = lineage.device_ops
        self._device = device
        self._reach = GoldenReach(lineage.golden.graph)
        self._golden_constants = constant_ops(lineage.golden.graph)
        self._device_constants = constant_ops(device)
        self._pins = sources.pins
        self._open_executor = sources.open_executor
        kept = sources.memory // 4  # the rest is for re-running ops
        self._device_values = DumpedValues(sources.device_dump, kept)
        self._golden_values = DumpedValues(sources.golden_dump, kept)
        self._executor: Executor | None = None
        self._rerun = ReExecution(
            self._reach, self._device_values, self._golden_values, sources.memory // 2
        )
        self.open: list[TensorRef] = []

    def order(self) -> bool:
        """Correct what names suggest about orders of axes and tensors; False if nothing changed."""
        found = with_axis_orders(
            self._lineage, self._device, self._device_values, self._golden_values
        )
        self.outputs.update(found)
        wrong = contradicted(self._lineage, self.outputs, self._device_values, self._golden_values)
        self.outputs.update(wrong)
        return bool(found or wrong)

    def pin(self) -> None:
        """Apply the user's pins, then list what is open."""
        _apply(self._pins, self.outputs)
        self.open = [ref for op in self._device.ops for ref in op.makes if self._is_open(ref)]

    def by_values(self, progress: Progress) -> None:
        """Match tensors whose values are those of exactly one golden tensor."""
        lookup = ValueLookup(self._golden_values, self._reach)
        found: list[tuple[float, int, CounterpartChoice]] = []
        for place, ref in enumerate(self.open):
            progress.step(note=ref.op)
            value = self._device_values.of(ref)
            if value is None:
                continue
            candidates = lookup.candidates(value, blocked=self._is_blocked(ref))
            judgement = self._judged(ref, candidates)
            if judgement is not None:
                found.append((judgement.best.apart, place, judgement))
        for _, place, judgement in sorted(found, key=itemgetter(0, 1)):
            ref = self.open[place]
            if self._is_worse_than_another(ref, judgement.best) or self._belongs_to_input(
                ref, judgement.best
            ):
                continue
            rule = LineageRule.SAME_VALUES
            if judgement.best.reorder is not None:
                rule = LineageRule.SAME_VALUES_REORDERED
            self._settle(ref, rule, judgement)

    def _is_worse_than_another(self, ref: TensorRef, candidate: Candidate) -> bool:
        """Whether a golden tensor is only near, and already belongs to another device tensor. A
        golden Conv with bias is near the device's Conv without it, but its counterpart is the Add,
        even if only names say so."""
        taker = self._takers().get(candidate.golden)
        if taker is None or taker == ref:
            return False
        return candidate.apart > AS_IT_LIES or self._is_changed(ref, taker)

    def _is_changed(self, ref: TensorRef, taker: TensorRef) -> bool:
        """Whether the op of *taker* computes its output from *ref* and changes the values, however
        little."""
        op = self._device_ops[taker.op]
        if ref not in op.takes or op.type in _HANDING_ON:
            return False
        before, behind = self._device_values.of(ref), self._device_values.of(taker)
        return before is not None and behind is not None and distance(before, behind) > 0.0

    def _belongs_to_input(self, ref: TensorRef, candidate: Candidate) -> bool:
        """Whether the golden tensor is that of an input of the op of *ref*, which the op changes.
        The first of the parts of a Clip changes few values, and none of the parts is the Clip."""
        taker = self._takers().get(candidate.golden)
        return taker is not None and taker != ref and self._is_changed(taker, ref)

    def _takers(self) -> dict[TensorRef, TensorRef]:
        return {
            match.golden: match.device
            for ref, match in self.outputs.items()
            if isinstance(match, TensorMatch)
            and (self._device_values.has(ref) or self._lineage.outputs[ref] == match)
            # an op that hands it on to a Result has not taken it
            and (self._device_values.has(ref) or match.rule is not LineageRule.THROUGH_INSERTED)
        }

    def by_waves(self, progress: Progress) -> None:
        """Match ops after matched ones by re-running originals, else by structure."""
        progress.stage("matching tensors by re-execution")
        if any(map(self._is_open, self.open)):
            self._executor = self._open_executor()
        tried: set[tuple[TensorRef, tuple[TensorRef, ...]]] = set()
        while True:
            ready = [
                (ref, known)
                for ref in self.open
                if self._is_open(ref)
                and (known := self._known_inputs(self._device_ops[ref.op])) is not None
                and (ref, tuple(known)) not in tried
            ]
            if not ready:
                if not self._pass_on_transposed():
                    return
                continue
            tried.update((ref, tuple(known)) for ref, known in ready)
            self._run_wave(ready)
            progress.step(len(ready))

    def _pass_on_transposed(self) -> bool:
        """Match added Transposes to the counterpart of their input, in the permuted order. True if
        there were any."""
        before = len(self.open)
        for ref in [each for each in self.open if self._is_open(each)]:
            op = self._device_ops[ref.op]
            taken = op.source()
            match = None if taken is None or op.type != _TRANSPOSE else self._image(taken)
            moved = None if match is None else behind_transpose(match, op)
            if moved is not None and self._pins.allows(ref, moved.golden):
                order = None if self._lies_as_golden(moved, taken) else moved.reorder
                rule = LineageRule.THROUGH_INSERTED
                self.outputs[ref] = replace(moved, rule=rule, reorder=order)
                self.open.remove(ref)
        return len(self.open) < before

    def _lies_as_golden(self, moved: TensorMatch, taken: TensorRef | None) -> bool:
        """Whether a Transpose gives golden's own order and not that of *moved*: the order of an
        input that was not dumped is not known from names."""
        if moved.reorder is None or (taken is not None and self._device_values.has(taken)):
            return moved.reorder is None
        device, golden = self._device_values.of(moved.device), self._golden_values.of(moved.golden)
        if device is None or golden is None or device.shape != golden.shape:
            return False
        permuted = device.transpose(moved.reorder.axes)
        if permuted.shape != golden.shape:
            return True
        return distance(device, golden) < distance(permuted, golden)

    def _run_wave(self, ready: Sequence[tuple[TensorRef, Mapping[TensorRef, TensorMatch]]]) -> None:
        images = self._images()
        jobs: dict[str, tuple[TensorRef, ReachedPart]] = {}
        for ref, known in ready:
            size = self._device_values.size(ref)
            for part in self._reach.behind(known.keys(), images.keys()):
                if size is not None and self._may_be(ref, part, size):
                    jobs[str(len(jobs))] = (ref, part)
        found: Mapping[TensorRef, list[Candidate]] = {}
        if self._executor is not None:
            found = self._rerun.candidates(self._executor, jobs, images)
        for ref, known in ready:
            candidates = [*found.get(ref, ()), *self._handed_on(ref, known.values())]
            judgement = self._judged(
                ref, [each for each in candidates if not self._is_worse_than_another(ref, each)]
            )
            if judgement is not None and self._belongs_to_input(ref, judgement.best):
                judgement = None
            if judgement is not None and judgement.confidence >= SURE_ENOUGH:
                self._settle(ref, LineageRule.RE_EXECUTED, judgement)
            elif (same := self._same_structure(ref, known)) is not None:
                self._settle(
                    ref, LineageRule.SAME_STRUCTURE, CounterpartChoice(same, _STRUCTURE_ALONE)
                )
            elif judgement is not None:
                self._settle(ref, LineageRule.RE_EXECUTED, judgement)

    def _judged(self, ref: TensorRef, candidates: Sequence[Candidate]) -> CounterpartChoice | None:
        """The choice among candidates for a device tensor, without those that pins forbid."""
        kind, of_constants = self._device_ops[ref.op].type, ref.op in self._device_constants
        return judge(
            [
                replace(each, kin=self._reach.ops[each.golden.op].type == kind)
                for each in candidates
                # A Conv of zeros gives its bias, but is not the bias although the values agree.
                if self._pins.allows(ref, each.golden)
                and (each.golden.op not in self._golden_constants or of_constants)
            ]
        )

    def _may_be(self, ref: TensorRef, part: ReachedPart, size: int) -> bool:
        golden_size = self._golden_values.size(part.output)
        same = golden_size is None or golden_size == size
        return same and self._pins.allows(ref, part.output)

    def _handed_on(self, ref: TensorRef, known: Collection[TensorMatch]) -> Iterator[Candidate]:
        """Candidates that are the op's own inputs: it may do nothing, or next to nothing."""
        device = self._device_values.of(ref)
        for number, match in enumerate(known):
            value = self._device_values.of(match.device)
            if device is not None and value is not None and value.shape == device.shape:
                apart = distance(device, value)
                if apart < FAR:
                    yield Candidate(match.golden, apart, match.reorder, family=-1 - number)

    def _images(self) -> dict[TensorRef, TensorMatch]:
        """By golden tensor the match of the highest confidence whose values were dumped."""
        images: dict[TensorRef, TensorMatch] = {}
        for match in self.outputs.values():
            if isinstance(match, TensorMatch) and self._device_values.has(match.device):
                other = images.get(match.golden)
                if other is None or match.confidence > other.confidence:
                    images[match.golden] = match
        return images

    def _same_structure(
        self, ref: TensorRef, known: Mapping[TensorRef, TensorMatch]
    ) -> Candidate | None:
        """The only golden op of this type on exactly these inputs, if it has no counterpart yet."""
        op = self._device_ops[ref.op]
        taken = {each.golden for each in self.outputs.values() if isinstance(each, TensorMatch)}
        size = self._device_values.size(ref)
        fitting = [
            TensorRef(user, ref.port)
            for user in dict.fromkeys(
                user for each in known for user in self._reach.users_of_values(each)
            )
            if self._reach.ops[user].type == op.type and self._uses_just(user, known.keys())
        ]
        free = [
            each
            for each in fitting
            if each not in taken
            and self._pins.allows(ref, each)
            and ref.port < len(self._reach.ops[each.op].outputs)
            and self._golden_values.size(each) in (None, size)
        ]
        return Candidate(free[0], 0.0) if len(free) == 1 else None

    def _uses_just(self, golden_op: str, known: Collection[TensorRef]) -> bool:
        used = self._reach.ops[golden_op].takes
        computed = {ref for ref in used if ref.op not in self._golden_constants}
        root = self._reach.root
        return {root(ref) for ref in computed} == {root(ref) for ref in known}

    def _known_inputs(self, op: Op) -> dict[TensorRef, TensorMatch] | None:
        """The golden counterparts of an op's computed inputs; None while one of them is open."""
        known: dict[TensorRef, TensorMatch] = {}
        for ref in op.takes:
            if ref.op in self._device_constants:
                continue  # the golden graph's own constants serve for those
            match = self._image(ref)
            if match is None:
                return None
            known[match.golden] = match
        return known or None

    def _image(self, ref: TensorRef) -> TensorMatch | None:
        """The match of a device tensor, or of what an inserted op passes on to it."""
        seen: set[TensorRef] = set()
        while ref not in seen:
            seen.add(ref)
            found = self.outputs.get(ref)
            if isinstance(found, TensorMatch):
                return found
            source = self._device_ops[ref.op].source()
            inserted = isinstance(found, Unmatched) and found.reason is Reason.INSERTED
            if not inserted or source is None:
                return None
            ref = source
        return None

    def _is_open(self, ref: TensorRef) -> bool:
        found = self.outputs.get(ref)
        if not isinstance(found, Unmatched) or ref in self._pins.is_alone:
            return False
        if found.reason is Reason.INSERTED:
            kind = self._device_ops[ref.op].type
            unsettled = kind in _MOVING or (kind not in _QUANTISING and self._image(ref) is None)
        else:
            unsettled = found.reason in _OPEN
        return unsettled and self._device_values.has(ref)

    def _is_blocked(self, ref: TensorRef) -> bool:
        found = self.outputs[ref]
        blocked = isinstance(found, Unmatched) and found.reason is Reason.LAYOUT_UNSUPPORTED
        return blocked or self._device_ops[ref.op].type == "ReorderInput"

    def _settle(self, ref: TensorRef, rule: LineageRule, found: CounterpartChoice) -> None:
        best = found.best
        if found.confidence >= SURE_ENOUGH:
            self.outputs[ref] = TensorMatch(
                ref, best.golden, rule, round(found.confidence, 3), best.reorder
            )
            return
        name = self._reach.tensor_name(best.golden) or str(best.golden)
        said = f"perhaps {name} ({rule.value}, confidence {found.confidence:.2f})"
        self.outputs[ref] = Unmatched(Reason.LOW_CONFIDENCE, f"{said}; pin it to compare")
