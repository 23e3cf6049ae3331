"""The calls of a recorded run at which an error starts.

Nothing is run again. A call is judged by its own dumped inputs and outputs: in healthy runs a call
makes the error of its inputs at most some five times as large, whatever its kind, also where
errors have grown far over a limit, as gradients do after an update. So what is over a limit and
many times its inputs' error starts there. What is over a limit and is not has come with the inputs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from divergraph.graphs.arrivals import COLLECTIVE
from divergraph.metrics.limits.quantities import golden_root
from divergraph.metrics.statistics import BY_CHECKSUM
from divergraph.text.words import counted
from divergraph.thresholds.recorded.arguments import unlike_arguments
from divergraph.thresholds.recorded.call_pairs import CallPairs
from divergraph.thresholds.recorded.errors import (
    BROKEN,
    NONE,
    Error,
    error_of,
    is_bound,
    is_unequal,
    most,
)
from divergraph.thresholds.recorded.statistics_only import (
    gain,
    is_flushed,
    keeps_places,
    minds_order,
)
from graphstore.model import (
    Comparison,
    DType,
    Finding,
    FindingKind,
    Level,
    Op,
    Reason,
    TensorIO,
)
from importers.msprobe.graph import ARGUMENTS
from importers.msprobe.job import RANK, RANKS, bodies_of, split_place, split_rank

JUMP = 8.0
"""Healthy steps of a GPT in bfloat16 (two seeds, two steps, all calls) reach 4.7, at the first
block, behind one rounding; the least of 22 faults that are over a limit is 9.3."""
_CONTROL = 2.0
"""Calls of a kind may be worse by nature: those of the run that are fine tell."""
_SHIFTED = 3.0
"""What an argument that differs must do for it to be the cause."""
_TENSOR_FLOAT = 2.0**-11
"""The rounding of matrix units that take float32."""
_HIDDEN = 2.0**-8
"""Up to here the statistics of what a call reads show rounding. Of more, it was named in place of
the one at fault: behind a softmax of another axis, whose sums are the same."""
_EXACT = 4 * 2.0**-8
"""A weight of which no element is off by more, relative to a quarter of the largest, is golden's,
rounded to bfloat16 at most; the type of its file does not tell, msprobe's ``.npy`` are float32."""
_OFF = 2.0**-7
"""A weight that is off by less as a whole is no cause: after a few updates of float16 some are."""
_CHOSEN = 3.0
"""How much more than its choices explain a call must be off that chooses. Healthy steps of a small
convolutional net (leaky ReLU, max pooling; bfloat16 and float16) stay below 2."""
_CHOICES = re.compile(
    r".*(relu|hard|threshold|clamp|clip|abs|max|min|topk|sort|median|shrink)\w*\.backward$", re.I
)
_NO_CHOICE = re.compile(r".*(Linear|Conv|Norm|Embedding|Bias|Row|Column)", re.I)
"""Modules whose gradient chooses nothing; what others call may not have been recorded."""
_ALIGNED = 0.999
"""The cosine from which a tensor is golden's times a number, in 16 bits too."""
_WEIGHTS = 0.5
"""Share of the weights that must be golden's, rounded, for another one to be a fault: after updates
all of them differ."""

ARGUMENT, WEIGHT, INPUT = "argument_differs", "weight_differs", "input_differs"
DATA, UNEQUAL = "data_differs", "other_values_of_equal_ones"
_UNEQUAL_BITS = "it makes other values of equal ones (checksums); later calls show how far"
LAW = "law_broken"
REDUCTION = "reduction_differs"
MISSING, EXTRA, MOVED = "call_missing", "call_extra", "call_moved"
_WHOLE = frozenset({DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT8, DType.BOOL})


@dataclass
class Culprits:
    """``causes`` by device call, in the order of the calls; a call without a known one has "".
    ``data`` says which input of the job differs, "" if none does, ``arrived`` through which call an
    error comes from another rank. ``unexplained`` calls are over a
    limit, and what was compared of them cannot tell whether they are to blame."""

    causes: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    data: str = ""
    arrived: str = ""
    largest: float = 0.0
    unexplained: list[str] = field(default_factory=list)


def culprits(pairs: CallPairs, excuse: Callable[[str], str]) -> Culprits:
    """The calls the error starts at. *excuse* says why a call over a limit is no fault, or ""."""
    return _Search(pairs, excuse).run()


class _Search:
    def __init__(self, pairs: CallPairs, excuse: Callable[[str], str]) -> None:
        self._pairs, self._excuse = pairs, excuse
        self._errors = {id(item): _error(item) for item in pairs.comparisons}
        self._found = Culprits()
        self._explained: set[str] = set()
        self._said: set[str] = set()
        self._alike: set[tuple[str, str, str]] = set()
        self._seen_over = False
        self._so_far = NONE
        self._is_first = self._is_forward = True
        self._limits = self._control_group()
        self._bad_weights = self._unlike_weights()
        self._places = {op.id: place for place, op in enumerate(pairs.device.ops)}
        back = (op.id for op in pairs.device.ops if op.attrs.get("direction") == "backward")
        self._first_back = self._places.get(next(back, ""), len(self._places))
        same = [item.detail == BY_CHECKSUM for item in self._weight_items()]
        self._has_equal_weights = sum(same) > _WEIGHTS * len(same)

    def run(self) -> Culprits:
        """Judge the calls in their order."""
        for op in self._pairs.device.ops:
            if op.id in self._pairs.twins:
                self._judge(op)
            if self._found.data:
                self._found.causes.clear()
                break
        if self._found.unexplained and not self._found.causes:
            self._blame_first_unequal()
        return self._found

    # what a call was fed

    def _fed(self, op: Op, *, weights: bool = True) -> tuple[Error, bool]:
        """The error of all that *op* read, and whether all of it is known."""
        items = list(self._pairs.inputs.get(op.id, ()))
        if not weights:
            items = [item for item in items if not self._pairs.is_weight(item)]
        for before in self._pairs.before(op):
            items += [*self._pairs.inputs.get(before, ()), *self._pairs.outputs.get(before, ())]
        errors = [self._errors[id(item)] for item in items if item.port >= 0]
        finite_errors = [error for error in errors if error is not None]
        return most(finite_errors), bool(finite_errors) and len(finite_errors) == len(errors)

    def _made(self, op: str) -> list[Comparison]:
        return [item for item in self._pairs.outputs.get(op, ()) if item.compared]

    def _times(self, item: Comparison, before: Error) -> float:
        error = self._errors[id(item)]
        if error is None:
            return 0.0
        if _chooses(self._pairs.ops[item.op]):
            return error.over_choices(before) * JUMP / _CHOSEN
        op = self._pairs.ops[item.op]
        way_before = list(self._pairs.before(op))[-1:] if op.type.endswith("_grad") else []
        read = [each for call in (op.id, *way_before) for each in self._pairs.inputs.get(call, ())]
        return error.over(before, item.failed) / gain(op, item, read)

    def _control_group(self) -> Mapping[str, float]:
        """By kind of call the limit that its calls of this run set, which are within theirs."""
        limits: dict[str, float] = {}
        for op in self._pairs.device.ops:
            before, is_complete = self._fed(op)
            outputs = self._made(op.id)
            if is_complete and outputs and all(item.level is Level.PASS for item in outputs):
                times = max(self._times(item, before) for item in outputs)
                limits[op.type] = max(limits.get(op.type, JUMP), _CONTROL * times)
        return limits

    # one call

    def _judge(self, op: Op) -> None:
        outputs = self._made(op.id)
        for item in self._pairs.inputs.get(op.id, ()):
            if item.port < len(op.inputs):  # others are of other ranks
                self._judge_input(op, item)
        off = [item for item in outputs if item.level in (Level.WARN, Level.FAIL)]
        if op.id not in self._found.causes and op.id not in self._explained:
            label, sentence = self._shifted(op, outputs)
            if not sentence and op.id in self._pairs.statistics.laws:
                label, sentence = LAW, self._pairs.statistics.laws[op.id]
            if sentence:
                self._blame(op, label, sentence)
            elif outputs and self._of_equal_inputs(op, outputs):
                weight = self._other_weight(op)
                self._blame(op, *(weight or self._structure(op, inside=True)))
            elif off:
                self._judge_output(op, off)
        if any(item.over for item in outputs):
            self._seen_over = True
        if off or op.id in self._found.causes:
            self._explained.update(self._pairs.around(op.id))
        self._so_far = most((self._so_far, *filter(None, (self._errors[id(i)] for i in outputs))))
        self._is_first = self._is_first and not outputs
        self._is_forward = self._is_forward and op.attrs.get("direction") in (None, "forward")

    def _shifted(self, op: Op, outputs: Sequence[Comparison]) -> tuple[str, str]:
        """The argument or the weight that differs, where what the call makes shows it."""
        twin = self._pairs.twin(op.id)
        if twin is None or not outputs:
            return "", ""
        before, _ = self._fed(op, weights=False)
        if max(self._times(item, before) for item in outputs) < _SHIFTED:
            return "", ""
        if difference := unlike_arguments(op, twin):
            return ARGUMENT, difference
        for item in self._pairs.inputs.get(op.id, ()) if self._is_forward else ():
            name, error = self._pairs.input_name(item), self._errors[id(item)]
            if name in self._bad_weights and error and error.distance > _OFF:
                self._bad_weights.discard(name)  # others that read it are not to blame
                weight = name.partition(".parameters.")[2]
                return WEIGHT, f"its {weight} differs from golden's ({_much(item, error)})"
        return "", ""

    def _judge_output(self, op: Op, off: Sequence[Comparison]) -> None:
        if any(item.over for item in off) and self._blame_proved_start(op):
            return
        before, is_complete = self._fed(op)
        if not is_complete and RANKS in op.attrs:  # what it reads are addends of golden's
            if not self._seen_over and (sentence := _times_golden(op, off)):
                self._blame(op, REDUCTION, sentence)
            return
        if (
            not is_complete and op.attrs.get("kind") == COLLECTIVE
        ):  # a receiver makes nothing itself
            self._found.arrived = self._found.arrived or (
                f"the error arrives through {op.name}: look at the rank that sends it"
            )
            return
        if not is_complete and not self._seen_over:
            before, is_complete = self._so_far, True
        if any(map(is_bound, off)):  # of less than the errors, so larger ones may stand before it
            if self._found.causes:
                return
            is_complete = (
                is_complete
                and not self._found.unexplained
                and not self._seen_over
                and before.distance <= _HIDDEN
            )
            before = most((before, self._so_far))
        times, limit = (
            max(self._times(item, before) for item in off),
            self._limits.get(op.type, JUMP),
        )
        if is_complete and times >= limit:
            if not self._excuse(op.id) and not self._blame_proved_start(op):
                structure = self._structure(op, inside=True)
                if structure[0] or not self._may_be_reordered(op, off):
                    self._blame(op, *structure)
                else:
                    self._found.unexplained.append(op.id)
        elif is_complete and not any(item.over and is_bound(item) for item in off):
            self._found.largest = max(self._found.largest, times)
            self._brought(op, off)
        elif self._found.causes or self._excuse(op.id):
            return
        elif any(item.over for item in off):
            self._found.unexplained.append(op.id)

    @property
    def _is_decided(self) -> bool:
        return bool(self._found.causes or self._found.unexplained)

    def _may_be_reordered(self, op: Op, off: Sequence[Comparison]) -> bool:
        """Whether what *op* gives would be off like that if it read golden's values in another
        order, which statistics do not show."""
        pairs = self._pairs
        read = [item for item in pairs.inputs.get(op.id, ()) if not pairs.is_weight(item)]
        if not any(map(is_bound, read)) or not minds_order(op):
            return False
        if any(self._errors[id(item)] == BROKEN for item in off) or self._is_read_right(op):
            return False
        sides = [pairs.statistics.sides(item, pairs.twins[op.id]) for item in off]
        return not keeps_places([pair for pair in sides if pair is not None])

    def _is_read_right(self, op: Op) -> bool:
        """Whether other calls that mind the order make of all *op* reads what golden's make."""
        if op.attrs.get("direction") != "forward":  # sums of gradients have further parts
            return False
        others = [
            [reader for reader in self._pairs.readers.get(ref, ()) if reader != op.id]
            for ref in op.takes
        ]
        return bool(others) and all(map(self._any_right, others))

    def _any_right(self, readers: Sequence[str]) -> bool:
        for reader in readers:
            outputs, call = self._made(reader), self._pairs.ops[reader]
            right = outputs and all(item.level is Level.PASS for item in outputs)
            if right and call.attrs.get("direction") == "forward" and minds_order(call):
                return True
        return False

    def _brought(self, op: Op, off: Sequence[Comparison]) -> None:
        """Note where another rank brings an error to a collective call that this rank does not."""
        read = self._pairs.inputs.get(op.id, ())
        own = [item for item in read if item.port < len(op.inputs)]
        others = [item for item in read if item.port >= len(op.inputs)]
        before = most(filter(None, (self._errors[id(item)] for item in own)))
        if others and max(self._times(item, before) for item in off) >= JUMP:
            worst = max(others, key=lambda item: self._errors[id(item)] or NONE)
            self._found.arrived = self._found.arrived or (
                f"the error arrives through {op.name}: {worst.detail.partition(':')[0]} is off "
                f"({_much(worst, self._errors[id(worst)] or NONE)}); look at that rank"
            )

    def _of_equal_inputs(self, op: Op, outputs: Sequence[Comparison]) -> bool:
        """Whether checksums prove that *op* makes another output, by more than rounding, of what is
        the same on both sides but for a weight."""
        return self._makes_unequal(op) and any(
            is_unequal(item) and self._is_more_than_rounding(item) for item in outputs
        )

    def _is_other_weight(self, op: Op, item: Comparison) -> bool:
        """Whether checksums prove a weight another, most being the same. What reads weights behind
        the first way back updates them."""
        is_there = self._has_equal_weights and self._places[op.id] < self._first_back
        return is_there and self._pairs.is_weight(item) and is_unequal(item)

    def _other_weight(self, op: Op) -> tuple[str, str] | tuple[()]:
        for item in self._pairs.inputs.get(op.id, ()):
            if self._is_other_weight(op, item):
                weight = self._pairs.input_name(item).partition(".parameters.")[2]
                error = self._errors[id(item)]
                much = "its statistics are equal: perhaps golden's values in another order"
                if error is not None and error.distance > 0.0:
                    much = _much(item, error)
                return WEIGHT, f"its {weight} differs from golden's ({much})"
        return ()

    def _blame_proved_start(self, op: Op) -> bool:
        """Blame the first call from which checksums prove that the error of *op* comes, unless that
        is known; false where they prove nothing."""
        starts = self._proved_starts(op)
        if starts and starts.isdisjoint(self._found.causes.keys() | self._explained):
            self._blame_unequal(self._pairs.ops[min(starts, key=self._places.__getitem__)])
        return bool(starts)

    def _blame_unequal(self, op: Op) -> None:
        self._blame(op, *(self._other_weight(op) or (UNEQUAL, _UNEQUAL_BITS)))

    def _blame_first_unequal(self) -> None:
        """Blame the first call that checksums prove to make other values: what is over a limit
        somewhere has come from there, as all before it is equal."""
        for op in self._pairs.device.ops:
            if op.id in self._pairs.twins and self._makes_unequal(op):
                self._blame_unequal(op)
                self._found.unexplained.clear()
                return

    def _makes_unequal(self, op: Op) -> bool:
        """Whether *op* by checksums makes other values of what is equal but for weights."""
        read = self._pairs.inputs.get(op.id, ())
        return (
            bool(read)
            and any(map(is_unequal, self._pairs.outputs.get(op.id, ())))
            and all(item.detail == BY_CHECKSUM or self._is_other_weight(op, item) for item in read)
        )

    def _proved_starts(self, op: Op) -> set[str]:
        """The calls that by checksums make other values of equal ones, and lead to *op*."""
        starts: set[str] = set()
        seen, waiting = {op.id}, [op]
        while waiting:
            call = waiting.pop()
            if self._makes_unequal(call):
                starts.add(call.id)
                continue
            for item in self._pairs.inputs.get(call.id, ()):
                source = call.inputs[item.port] if item.port < len(call.inputs) else None
                maker = source.producer.op if source is not None and source.producer else ""
                if is_unequal(item) and maker and maker not in seen:
                    seen.add(maker)
                    waiting.append(self._pairs.ops[maker])
        return starts

    def _is_more_than_rounding(self, item: Comparison) -> bool:
        error = self._errors[id(item)]
        unit = _TENSOR_FLOAT if item.device_dtype is DType.FLOAT32 else _HIDDEN
        return error is not None and error.distance > 2 * unit

    # one input

    def _judge_input(self, op: Op, item: Comparison) -> None:
        error = self._errors[id(item)]
        if error is None:
            return
        if self._pairs.is_weight(item):
            return  # judged by what the call makes of it
        if item.golden is None and item.device_dtype in _WHOLE:
            off = item.over or (self._is_first and (error != NONE or is_unequal(item)))
            if off and not self._seen_over and not self._found.causes:
                self._feeds(op, item, error, "which no recorded call made")
        elif item.level in (Level.WARN, Level.FAIL) and op.id not in self._explained:
            self._judge_arrival(op, item, error)
            self._seen_over |= item.over

    def _judge_arrival(self, op: Op, item: Comparison, error: Error) -> None:
        """An input off by more than what made it is: a call between was left out, or is another."""
        source, is_complete = self._source(item)
        if (not is_complete and self._seen_over) or (is_bound(item) and self._is_decided):
            return
        if not item.over and not self._is_felt(op, item):
            return
        before = source if is_complete else self._so_far
        if error.over(before, item.failed) < JUMP:
            return
        if not is_complete and self._is_first:
            self._feeds(op, item, error, "the first that is read")
            return
        label, sentence = self._structure(op, inside=False)
        if sentence and sentence in self._said:
            return  # another that reads what is missing
        sentence = sentence or self._unsummed(op, item)
        source_text = (
            "what was recorded before it is not" if is_complete else "no recorded call made it"
        )
        sentence = sentence or (
            f"{_input_text(op, item)} is off already ({_much(item, error)}), and {source_text}: "
            "a weight, or an unrecorded op (a view, a cast, an index), differs"
        )
        self._blame(op, label or INPUT, sentence)

    def _feeds(self, op: Op, item: Comparison, error: Error, which: str) -> None:
        self._found.data = (
            f"input {item.port} of {op.name}, {which}, differs from golden's "
            f"({_much(item, error)}): feed both sides the same data, in the same order"
        )
        finding = Finding(
            FindingKind.CAUSE, DATA, self._found.data, op.id, TensorIO.INPUT, item.port, 0.9
        )
        self._found.findings = [finding]

    def _is_felt(self, op: Op, item: Comparison) -> bool:
        """Whether what *op* makes is off, too, by more than its other inputs are."""
        others = [
            item_before
            for item_before in self._pairs.inputs.get(op.id, ())
            if item_before is not item
        ]
        before = most(filter(None, (self._errors[id(other)] for other in others)))
        outputs = [output for output in self._made(op.id) if output.level is not Level.PASS]
        return bool(others) and any(self._times(output, before) >= _SHIFTED for output in outputs)

    def _source(self, item: Comparison) -> tuple[Error, bool]:
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
                    if output.port == ref.port and (error := self._errors[id(output)]) is not None
                ]
                errors_before += errors
            elif ref.op not in seen:
                seen.add(ref.op)
                waiting += self._pairs.golden_ops[ref.op].takes
        return most(errors_before), bool(errors_before)

    # causes

    def _structure(self, op: Op, *, inside: bool) -> tuple[str, str]:
        """What the device calls otherwise near *op*: within it, or before it where it is called."""
        pairs = self._pairs
        missing = [call for call in pairs.missing if self._is_near(call, op, inside=inside)]
        kinds = {(call.type, call.subgraph) for call in missing}
        between = _between_ranks(missing, pairs)
        missing = between or [c for c in pairs.missing if (c.type, c.subgraph) in kinds]
        bodies = {op.name} if inside else {op.subgraph}
        extra = [call for call in pairs.extra if call.subgraph in bodies]
        moved = [call for call in pairs.moved if call.subgraph in bodies]
        if missing:
            on = _gradient_text(missing, pairs) or _mean_text(missing[0], pairs)
            return MISSING, f"golden calls {_listed(missing)}{on}, which the device does not"
        if extra:
            return EXTRA, f"the device calls {_listed(extra)}, which golden does not"
        if moved:
            return MOVED, f"{_listed(moved)} ran in another order than golden's"
        return "", ""

    def _unsummed(self, op: Op, item: Comparison) -> str:
        """That a call of a job reads what a rank gives, and golden something else: a sum."""
        ref = op.inputs[item.port] if RANK in op.attrs else None
        source = None if ref is None else ref.producer
        all_outputs = self._pairs.outputs.get(source.op, ()) if source is not None else ()
        outputs = [each for each in all_outputs if source and each.port == source.port]
        if not outputs or any(output.level in (Level.WARN, Level.FAIL) for output in outputs):
            return ""
        is_product = self._pairs.ops[outputs[0].op].type == "linear"
        if not is_product and outputs[0].reason is not Reason.ADDEND:
            return ""
        return (
            f"its input {item.port} is what {outputs[0].op} gives on this rank, which is right, "
            "where golden has other values: a sum over ranks (all_reduce) is missing or comes later"
        )

    def _is_near(self, missing: Op, op: Op, *, inside: bool) -> bool:
        twin = self._pairs.twin(op.id)
        if twin is None:
            return False
        if inside:
            return twin.name in bodies_of(missing)
        takes = {ref.op for ref in twin.takes}
        return missing.id in takes or missing.subgraph == twin.subgraph

    def _blame(self, op: Op, label: str, sentence: str) -> None:
        if sentence and (label, op.type, sentence) in self._alike:
            return  # the optimizer's beta, say, is an argument of a call for each parameter
        self._alike.add((label, op.type, sentence))
        self._said.add(sentence)
        self._found.causes[op.id] = sentence
        if sentence:
            self._found.findings.append(
                Finding(FindingKind.CAUSE, label, sentence, op.id, TensorIO.OUTPUT, 0, 0.9)
            )

    # weights

    def _unlike_weights(self) -> set[str]:
        errors: dict[str, Error] = {}
        for item in self._weight_items():
            error = self._errors[id(item)]
            if error is not None:
                # A weight that equals another goes by the name of the first, which may be right.
                name = self._pairs.input_name(item)
                errors[name] = most((errors.get(name, NONE), error))
        unlike = {name for name, error in errors.items() if error.worst > _EXACT}
        return unlike if len(unlike) <= (1 - _WEIGHTS) * len(errors) else set()

    def _weight_items(self) -> Iterator[Comparison]:
        for items in self._pairs.inputs.values():
            yield from (item for item in items if self._pairs.is_weight(item))


def _error(item: Comparison) -> Error | None:
    is_little = item.metrics is not None and is_flushed(item, golden_root(item.metrics))
    return None if is_little and is_bound(item) else error_of(item)


def _between_ranks(missing: Sequence[Op], pairs: CallPairs) -> list[Op]:
    """The calls between ranks among the *missing* ones, and those that only such are made of."""
    by_id = {op.id: op for op in pairs.missing}
    waiting, seen = list(missing), {op.id for op in missing}
    found: list[Op] = []
    while waiting:
        op = waiting.pop()
        found += [op] if RANKS in op.attrs else []
        new = {ref.op for ref in op.takes if ref.op in by_id} - seen
        seen |= new
        waiting += [by_id[each] for each in new]
    return found


def _gradient_text(missing: Sequence[Op], pairs: CallPairs) -> str:
    """`` on the gradient of blocks.0.mlp.down``, where a call between ranks was given that."""
    takes = [ref.op for op in missing[:1] if RANKS in op.attrs for ref in op.takes]
    name = pairs.golden_ops[takes[0]].name if takes else ""
    module, way, _ = name.partition(".parameters_grad")
    if not way:
        return ""
    return f" on the gradient of {split_rank(module)[1].partition('.')[2].rpartition('.')[0]}"


def _mean_text(missing: Op, pairs: CallPairs) -> str:
    """That what golden divides is the sum over as many ranks, where it is."""
    source = pairs.golden_ops[missing.takes[0].op] if missing.takes else missing
    group = source.attrs.get(RANKS, ())
    count = len(group) if isinstance(group, tuple) else 0
    if not missing.type.startswith(("div", "__truediv__")) or missing.attrs.get("input.1") != count:
        return ""
    return f" (the mean of {count} ranks: the device has their sum)"


def _input_text(op: Op, item: Comparison) -> str:
    """``its input 1``, or ``what rank 1 gives``; how many times golden's it is, if that is all."""
    arguments = op.attrs.get(ARGUMENTS, ())
    text = f"its input {item.port}"
    if RANKS in op.attrs and isinstance(arguments, tuple) and item.port < len(arguments):
        text = f"what rank {split_place(str(arguments[item.port]))[0]} gives"
    figures, metrics = item.figures, item.metrics
    if figures is None or metrics is None or not metrics.cosine_similarity >= _ALIGNED:
        return text
    times = figures.device.std / figures.golden.std if figures.golden.std else 1.0
    return text if abs(times - 1) < _OFF else f"{text}, {times:.3g} times golden's,"


def _chooses(op: Op) -> bool:
    """Whether a way back lets through, or goes to, what was chosen on the way there."""
    if op.attrs.get("kind") in ("Module", "Cell") and op.attrs.get("direction") == "backward":
        return not _NO_CHOICE.match(op.type)
    return bool(_CHOICES.match(op.type))


def _times_golden(op: Op, off: Sequence[Comparison]) -> str:
    """The number of ranks by which what *op* gives is too large, or too small, in words; empty
    where it is off otherwise."""
    ranks = op.attrs.get(RANKS)
    count = len(ranks) if isinstance(ranks, tuple) else 1
    sides = [item.figures for item in off if item.figures is not None]
    ratios = [side.device.std / side.golden.std for side in sides if side.golden.std > 0.0]
    if count < 2 or not ratios:
        return ""
    if all(abs(ratio / count - 1.0) <= _HIDDEN for ratio in ratios):
        return f"{count} times golden's: {counted(count, 'rank')} are added up, golden has the mean"
    if all(abs(ratio * count - 1.0) <= _HIDDEN for ratio in ratios):
        return f"1/{count} of golden's: the mean over {counted(count, 'rank')}, golden has the sum"
    return ""


def _listed(ops: Sequence[Op]) -> str:
    kinds = {op.type for op in ops}
    if len(ops) == 1:
        return ops[0].name
    if len(kinds) == 1:
        return f"{ops[0].name} and {counted(len(ops) - 1, 'more call')} of {ops[0].type}"
    return f"{ops[0].name} and {counted(len(ops) - 1, 'more call')}"


def _much(item: Comparison, error: Error) -> str:
    bound = "at least " if is_bound(item) else ""
    return "not finite" if math.isinf(error.distance) else f"relative {bound}{error.distance:.2g}"
