"""The calls of a recorded run at which an error starts.

Nothing is run again. A call is judged by its own dumped inputs and outputs: in healthy runs a call
makes the error of its inputs at most some five times as large, whatever its kind, also where
errors have grown far over a limit, as gradients do after an update. So what is over a limit and
many times its inputs' error starts there. What is over a limit and is not has come with the inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from divergraph.execute.translate.torch.received import REDUCED
from divergraph.graphs.arrivals import COLLECTIVE
from divergraph.thresholds.recorded.arguments import unlike_arguments
from divergraph.thresholds.recorded.call_errors import (
    HIDDEN,
    JUMP,
    OFF,
    SHIFTED,
    CallErrors,
    error_text,
    factor_of,
)
from divergraph.thresholds.recorded.call_pairs import CallPairs
from divergraph.thresholds.recorded.call_structure import other_calls
from divergraph.thresholds.recorded.cause_labels import (
    ARGUMENT,
    DATA,
    EXTRA,
    INPUT,
    LAW,
    MISSING,
    REDUCTION,
    SCALED,
    SHAPE,
    UNEQUAL,
    WEIGHT,
)
from divergraph.thresholds.recorded.equal_values import EqualValues
from divergraph.thresholds.recorded.errors import BROKEN, NONE, Error, is_bound, is_unequal, most
from divergraph.thresholds.recorded.messages import unread_message
from divergraph.thresholds.recorded.replicas import replicas_text, same_spread
from divergraph.thresholds.recorded.seen_before import WHOLE, SeenBefore
from divergraph.thresholds.recorded.statistics_only import keeps_places, minds_order
from divergraph.thresholds.recorded.stopped_gradients import stopped_gradient
from divergraph.thresholds.recorded.sums_over_ranks import times_golden
from graphstore.model import (
    Comparison,
    Finding,
    FindingKind,
    Level,
    Op,
    Reason,
    TensorIO,
    TensorRef,
)
from importers.msprobe.calls import CallName
from importers.msprobe.graph import ARGUMENTS
from importers.msprobe.job_names import RANK, RANKS, split_place

_UNEQUAL_BITS = "it makes other values of equal ones (checksums); later calls show how far"
_LABELLED = re.compile(r".*(loss|cross_entropy|Loss)")
"""Calls that read labels: data as well, and read last."""
_SHAPED_BY_VALUES = re.compile(
    r".*(nonzero|argwhere|masked_select|unique|__getitem__|index|where|nms|repeat_interleave"
    r"|all_to_all|bincount|split|pack_padded)"
)
"""Calls whose outputs have a shape that follows from values, not from shapes alone."""


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
        self._errors = CallErrors(pairs)
        self._equal = EqualValues(pairs, self._errors)
        self._found = Culprits()
        self._explained: set[str] = set()
        self._said: set[str] = set()
        self._left_out: set[str] = set()
        self._alike: set[tuple[str, str, str]] = set()
        self._seen = SeenBefore(self._errors)
        self._bad_weights = self._equal.unlike_weights()

    def run(self) -> Culprits:
        """Judge the calls in their order."""
        for op in self._pairs.as_computed():
            if op.id in self._pairs.twins:
                self._judge(op)
            if self._found.data:
                self._found.causes.clear()
                break
        if self._found.unexplained and not self._found.causes:
            self._blame_first_unequal()
        return self._found

    # one call

    def _judge(self, op: Op) -> None:
        outputs = self._errors.outputs(op.id)
        read = self._pairs.inputs.get(op.id, ())
        for item in read:
            if item.port < len(op.inputs):  # others are of other ranks
                self._judge_input(op, item)
        off = [
            item
            for item in outputs
            if item.level in (Level.WARN, Level.FAIL) and not self._pairs.is_of_device(item)
        ]
        if op.id not in self._found.causes and op.id not in self._explained:
            label, sentence = stopped_gradient(self._pairs, op)
            if not sentence:
                label, sentence = self._shifted(op, outputs)
            if not sentence and op.id in self._pairs.statistics.laws:
                label, sentence = LAW, self._pairs.statistics.laws[op.id]
            if sentence:
                self._blame(op, label, sentence)
            elif outputs and self._equal.differs_of_equal_inputs(op, outputs):
                weight = self._equal.other_weight(op)
                self._blame(op, *(weight or other_calls(self._pairs, op, inside=True)))
            elif off:
                self._judge_output(op, off)
        if off or op.id in self._found.causes:
            self._explained.update(self._pairs.around(op.id))
        self._seen.add(op, read, outputs)

    def _shifted(self, op: Op, outputs: Sequence[Comparison]) -> tuple[str, str]:
        """The argument or the weight that differs, where what the call makes shows it."""
        twin = self._pairs.twin(op.id)
        is_reshaped = self._makes_another_shape(op)
        if twin is None or not (outputs or is_reshaped):
            return "", ""
        before, _ = self._errors.fed(op, weights=False)
        times = max((self._errors.times(item, before) for item in outputs), default=0.0)
        if times < SHIFTED and not is_reshaped:
            return "", ""
        is_unexplained = not (self._seen.is_over or self._seen.choices or self._found.causes)
        if difference := unlike_arguments(op, twin, with_sizes=is_unexplained):
            return ARGUMENT, difference
        for item in self._pairs.inputs.get(op.id, ()) if self._seen.is_forward else ():
            name, error = self._pairs.input_name(item), self._errors.of(item)
            if name in self._bad_weights and error and error.distance > OFF:
                self._bad_weights.discard(name)  # others that read it are not to blame
                weight = name.partition(".parameters.")[2]
                return WEIGHT, f"its {weight} differs from golden's ({error_text(item, error)})"
        return (SHAPE, self._shape_text(op)) if is_reshaped else ("", "")

    def _makes_another_shape(self, op: Op) -> bool:
        """Whether a call makes another shape than golden's of inputs of golden's shapes. Behind
        others its arguments may follow from them, as sizes of a view do; a way back has the shapes
        of whichever node of autograd was its last."""
        if op.attrs.get("direction") not in (None, "forward"):
            return False
        inputs, made = (items.get(op.id, ()) for items in (self._pairs.inputs, self._pairs.outputs))
        return any(x.misshapen for x in made) and not any(x.misshapen for x in inputs)

    def _shape_text(self, op: Op) -> str:
        """The sentence of a call that does; "" where its shape follows from values that differ."""
        inputs = self._pairs.inputs.get(op.id, ())
        errors = [self._errors.of(item) for item in inputs]
        follows = _SHAPED_BY_VALUES.match(op.type) and any(error != NONE for error in errors)
        if follows or self._seen.choices or not inputs or any(error is None for error in errors):
            return ""
        item = next(item for item in self._pairs.outputs[op.id] if item.misshapen)
        return f"its output {item.port} has another shape, of inputs of golden's: {item.detail}"

    def _judge_output(self, op: Op, off: Sequence[Comparison]) -> None:
        if any(item.over for item in off) and self._blame_proved_start(op):
            return
        before, is_complete = self._errors.fed(op)
        if RANKS in op.attrs:  # right by its own definition, where golden's reduces otherwise
            sentence = "" if self._seen.is_over else times_golden(op, off)
            if sentence:
                self._blame(op, REDUCTION, sentence)
            if sentence or not is_complete:  # what it reads are addends of golden's
                return
        if (
            not is_complete and op.attrs.get("kind") == COLLECTIVE
        ):  # a receiver makes nothing itself
            self._found.arrived = self._found.arrived or (
                f"the error arrives through {op.name}: look at the rank that sends it"
            )
            return
        if not is_complete and not self._seen.is_over:
            before, is_complete = self._seen.largest, True
        if any(map(is_bound, off)):  # of less than the errors, so larger ones may stand before it
            if self._found.causes:
                return
            is_complete = (
                is_complete
                and not self._found.unexplained
                and not self._seen.is_over
                and before.distance <= HIDDEN
            )
            before = most((before, self._seen.largest))
        times, limit = (
            max(self._errors.times(item, before) for item in off),
            self._errors.limits.get(op.type, JUMP),
        )
        if is_complete and times >= limit:
            if self._excuse(op.id):
                self._blame_misshapen(op)
            elif not self._blame_proved_start(op):
                structure = other_calls(self._pairs, op, inside=True)
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

    def _blame_misshapen(self, op: Op) -> None:
        """Blame what first reads an input of another shape than golden's, where *op* makes an error
        that none of its other inputs has: values of other shapes are compared with nothing."""
        waiting, seen = [op], {op.id}
        while waiting:
            call = waiting.pop()
            for item in self._pairs.inputs.get(call.id, ()):
                if not item.misshapen or item.port >= len(call.inputs):
                    continue
                ref = call.inputs[item.port]
                maker = ref.producer.op if ref is not None and ref.producer is not None else ""
                if any(made.misshapen for made in self._pairs.outputs.get(maker, ())):
                    waiting += [self._pairs.ops[maker]] if maker not in seen else []
                    seen.add(maker)
                    continue
                label, sentence = other_calls(self._pairs, call, inside=False)
                sentence = sentence or self._other_source(call, item)
                own = f"its input {item.port} has another shape than golden's: {item.detail}"
                self._blame(call, label or INPUT, sentence or own)
                return

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
        if any(self._errors.of(item) == BROKEN for item in off) or self._is_read_right(op):
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
            outputs, call = self._errors.outputs(reader), self._pairs.ops[reader]
            right = outputs and all(item.level is Level.PASS for item in outputs)
            if right and call.attrs.get("direction") == "forward" and minds_order(call):
                return True
        return False

    def _brought(self, op: Op, off: Sequence[Comparison]) -> None:
        """Note where another rank brings an error to a collective call that this rank does not."""
        read = self._pairs.inputs.get(op.id, ())
        own = [item for item in read if item.port < len(op.inputs)]
        others = [item for item in read if item.port >= len(op.inputs)]
        before = self._errors.largest(own)
        if others and max(self._errors.times(item, before) for item in off) >= JUMP:
            worst = max(others, key=lambda item: self._errors.of(item) or NONE)
            self._found.arrived = self._found.arrived or (
                f"the error arrives through {op.name}: {worst.detail.partition(':')[0]} is off "
                f"({error_text(worst, self._errors.of(worst) or NONE)}); look at that rank"
            )

    def _blame_proved_start(self, op: Op) -> bool:
        """Blame the first call from which checksums prove that the error of *op* comes, unless that
        is known; false where they prove nothing."""
        starts = self._equal.proved_starts(op)
        if starts and not {*self._found.causes, *self._explained}.intersection(starts):
            self._blame_unequal(self._pairs.ops[starts[0]])
        return bool(starts)

    def _blame_unequal(self, op: Op) -> None:
        self._blame(op, *(self._equal.other_weight(op) or (UNEQUAL, _UNEQUAL_BITS)))

    def _blame_first_unequal(self) -> None:
        """Blame the first call that checksums prove to make other values: what is over a limit
        somewhere has come from there, as all before it is equal."""
        for op in self._pairs.device.ops:
            if op.id in self._pairs.twins and self._equal.makes_unequal(op):
                self._blame_unequal(op)
                self._found.unexplained.clear()
                return

    # one input

    def _judge_input(self, op: Op, item: Comparison) -> None:
        error = self._errors.of(item)
        if error is None:
            return
        if self._pairs.is_weight(item) or self._is_overwritten(op, item):
            return  # judged by what the call makes of it
        if item.golden is None and item.device_dtype in WHOLE:
            off = item.over or (self._seen.is_first and (error != NONE or is_unequal(item)))
            further = self._further_before(op, item) if off else ""
            is_behind = self._seen.is_over and not further
            if off and not is_behind and not self._found.causes:
                self._judge_given(op, item, error, further)
            elif not off:
                self._seen.fed_right.add(op.attrs.get(RANK))
        elif self._is_other_constant(op, item):
            self._judge_constant(op, item)
        elif item.level in (Level.WARN, Level.FAIL) and op.id not in self._explained:
            self._judge_arrival(op, item, error)
            self._seen.is_over |= item.over

    def _is_other_constant(self, op: Op, item: Comparison) -> bool:
        """Whether floats that no recorded call made are not golden's rounded, element by element,
        where all that was computed before is: a norm does not see the small ones, as of the
        frequencies of rotary embeddings. Elsewhere they may be what an unrecorded op made. Healthy
        constants of 18 published models have means up to 0.0017, as rounding to bfloat16 gives."""
        ref, metrics, seen = op.inputs[item.port], item.metrics, self._seen
        is_given = item.golden is None and (ref is None or ref.producer is None)
        if not is_given or metrics is None or not seen.is_forward or self._is_decided:
            return False
        is_early = not (seen.is_first or seen.choices) and seen.elements <= OFF
        return is_early and metrics.mean_relative_error > OFF

    def _judge_constant(self, op: Op, item: Comparison) -> None:
        assert item.metrics is not None
        sentence = (
            f"its input {item.port}, a constant or a buffer that no recorded call made, is not "
            f"golden's: its elements are off by {item.metrics.mean_relative_error:.2g} on average"
        )
        self._blame(op, INPUT, sentence)

    def _is_overwritten(self, op: Op, item: Comparison) -> bool:
        """Whether a call in place leaves nothing of what was there, such as memory without a value
        that ``torch.empty`` gives."""
        outputs = self._errors.outputs(op.id)
        is_right = bool(outputs) and all(output.level is Level.PASS for output in outputs)
        return is_right and item.port == 0 and op.type.endswith("_")

    def _judge_given(self, op: Op, item: Comparison, error: Error, further: str) -> None:
        """Whole numbers that no call made, and that differ: what *further* calls made of them, or
        other data, or, where a rank has read its data right, what the run numbers itself, such as
        places of a sequence."""
        if further:
            self._blame(op, EXTRA, further)
            return
        is_data = _LABELLED.match(op.type) or self._is_given_to_model(op, item)
        if op.attrs.get(RANK) not in self._seen.fed_right or is_data:
            self._feeds(op, item, error, "which no recorded call made")
            return
        sentence = (
            f"its input {item.port}, whole numbers that no recorded call made, differs from "
            f"golden's ({error_text(item, error)}), and the data read before does not: places, a "
            "mask or an index made otherwise"
        )
        self._blame(op, INPUT, sentence)

    def _is_given_to_model(self, op: Op, item: Comparison) -> bool:
        """Whether an input is one of the outermost module, as labels are that a model reshapes."""
        return any(
            read.shape == item.shape and _same_figures(read, item)
            for call in self._pairs.outermost
            if call.attrs.get(RANK) == op.attrs.get(RANK)
            for read in self._pairs.inputs.get(call.id, ())
        )

    def _judge_arrival(self, op: Op, item: Comparison, error: Error) -> None:
        """An input off by more than what made it is: a call between was left out, or is another."""
        if not item.over and not self._errors.is_felt(op, item):
            return
        source, is_complete = self._errors.source(item)
        is_complete = is_complete and not self._is_chosen_otherwise(item)
        is_behind = (self._seen.is_over or bool(self._seen.choices)) and not self._further_before(
            op, item
        )
        unsummed = self._unsummed(op, item) or (
            replicas_text(self._pairs, op, item)
            if self._seen.choices.issuperset(self._found.causes)
            else ""
        )
        if (not (is_complete or unsummed) and is_behind) or (is_bound(item) and self._is_decided):
            return
        is_recorded = is_complete or bool(unsummed)
        before = source if is_recorded else self._seen.largest
        if self._errors.arrival_times(item, before, is_recorded=is_recorded) < JUMP:
            return
        if not is_complete and self._seen.is_first:
            self._feeds(op, item, error, "the first that is read")
            return
        label, sentence = other_calls(self._pairs, op, inside=False)
        if label != MISSING and (message := unread_message(self._pairs, op)) is not None:
            self._blame(
                message,
                REDUCTION,
                f"{op.name} is fed with its message and reads other values than golden's "
                f"({error_text(item, error)}): lost, stale, or read before it came",
            )
            return
        if label == MISSING and self._is_left_out(op):
            return
        sentence = sentence or unsummed or self._other_source(op, item)
        if sentence and sentence in self._said:
            return  # another that reads what is missing
        source_text = (
            "what was recorded before it is not" if is_complete else "no recorded call made it"
        )
        sentence = sentence or (
            f"{_input_text(op, item)} is off already ({error_text(item, error)}), and "
            f"{source_text}: "
            "a weight, or an unrecorded op (a view, a cast, an index), differs"
        )
        label = label or (INPUT if factor_of(item) == 1.0 else SCALED)
        self._blame(self._reduction_before(op, item) or op, label, sentence)

    def _further_before(self, op: Op, item: Comparison) -> str:
        """That the device has calls which golden does not, where it reads an input that no paired
        call made, on a rank that has been right so far and was given nothing wrong by others; ""
        where it is not so. What other ranks chose otherwise does not explain such an input."""
        ref = op.inputs[item.port]
        is_paired = ref and ref.producer and ref.producer.op in self._pairs.twins
        if is_paired or RANKS in op.attrs or op.attrs.get(RANK) in self._seen.ranks_off:
            return ""
        label, sentence = other_calls(self._pairs, op, inside=False)
        return sentence if label == EXTRA else ""

    def _is_chosen_otherwise(self, item: Comparison) -> bool:
        """Whether an input has other rows than golden's, or in another order, since others were
        chosen before: it is of a call that gives as many rows as the values before it say, or has
        the values of what it was made of in an order of its own, which unrecorded indices give."""
        golden = item.golden
        if golden is None or not self._seen.choices:
            return False
        is_by_values = _SHAPED_BY_VALUES.match(self._pairs.golden_ops[golden.op].type)
        made = self._pairs.outputs.get(self._pairs.device_twins.get(golden.op, ""), ())
        return bool(is_by_values) or any(
            same_spread(item.figures.device, output.figures.device)
            and same_spread(item.figures.golden, output.figures.golden)
            for output in made
            if output.port == golden.port and output.figures and item.figures
        )

    def _feeds(self, op: Op, item: Comparison, error: Error, which: str) -> None:
        self._found.data = (
            f"input {item.port} of {op.name}, {which}, differs from golden's "
            f"({error_text(item, error)}): feed both sides the same data, in the same order"
        )
        finding = Finding(
            FindingKind.CAUSE, DATA, self._found.data, op.id, TensorIO.INPUT, item.port, 0.9
        )
        self._found.findings = [finding]

    def _other_source(self, op: Op, item: Comparison) -> str:
        """That an input is what another call gives than golden's is; "" where that is not known."""
        sources, golden = _sources(op, item), item.golden
        twin = self._pairs.device_twins.get(golden.op) if golden is not None else None
        if golden is None or twin is None or len(sources) != 1 or sources[0].op == twin:
            return ""
        name = self._pairs.golden_ops[golden.op].name
        self._left_out.add(name)
        given = f"its input {item.port} is what {self._pairs.ops[sources[0].op].name} gives"
        return f"{given}, in place of {name}"

    def _is_left_out(self, op: Op) -> bool:
        """Whether what golden calls before *op*, and the device does not, are ways back of calls
        whose results were left out on the way there."""
        twin = self._pairs.twin(op.id)
        lacking = {call.id: call for call in self._pairs.missing}
        calls = [lacking[ref.op] for ref in twin.takes if ref.op in lacking] if twin else []
        return bool(calls) and all(
            self._left_out.intersection(CallName.of(call.name).before) for call in calls
        )

    # causes

    def _reduction_before(self, op: Op, item: Comparison) -> Op | None:
        """The reduction over ranks that *op* reads as it is: golden's is followed by a call that
        the device lacks."""
        sources = [self._pairs.ops[ref.op] for ref in _sources(op, item)]
        is_reduced = len(sources) == 1 and sources[0].type in REDUCED and RANKS in sources[0].attrs
        return sources[0] if is_reduced and other_calls(self._pairs, op, inside=False)[0] else None

    def _unsummed(self, op: Op, item: Comparison) -> str:
        """That a call of a job reads what a rank gives, and golden something else, by more than
        rounding: a sum."""
        ref = op.inputs[item.port] if RANK in op.attrs and item.over else None
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


def _same_figures(one: Comparison, other: Comparison) -> bool:
    """Whether two tensors are compared with the same result, as one that is read twice is."""
    if one.metrics is None or other.metrics is None:
        return False
    figures = [
        (each.mean_absolute_error, each.max_absolute_error, each.standard_deviation)
        for each in (one.metrics, other.metrics)
    ]
    return figures[0] == figures[1]


def _sources(op: Op, item: Comparison) -> list[TensorRef]:
    """What an input was made of: the output that it is, or those that views, casts and sums which
    nobody recorded brought."""
    own = op.inputs[item.port]
    name = "" if own is None else own.tensor
    return [
        ref.producer
        for ref in op.inputs
        if ref and ref.producer and ref.tensor.partition(" (")[0] == name
    ]


def _input_text(op: Op, item: Comparison) -> str:
    """``its input 1``, or ``what rank 1 gives``; how many times golden's it is, if that is all."""
    arguments = op.attrs.get(ARGUMENTS, ())
    text = f"its input {item.port}"
    if RANKS in op.attrs and isinstance(arguments, tuple) and item.port < len(arguments):
        text = f"what rank {split_place(str(arguments[item.port]))[0]} gives"
    factor = factor_of(item)
    return text if factor == 1.0 else f"{text}, {factor:.3g} times golden's,"
