"""Small runs written by hand, a line an op, to check queries with.

A line is ``NAME: TYPE(INPUT, ...)`` and what is known of the op's one output::

    conv: Conv error=0.001
    add: Add(conv) error=0.5 over originals=add,bias guilt=guilty introduced=0.4

=================== =============================================================================
``error=N``         it was compared, with this relative Euclidean distance and as large others
``over``, ``origin`` it is past a limit; an error starts there
``originals=A,B``   what it was made of; without it an original of its name, empty: it was inserted
``reason=WORD``     why it was not compared; without error and reason: no_device_dump
``cause=LABEL``     the finding on why it is wrong
a field of MetricSet or ErrorSplit (``cosine_similarity=0.5``, ``guilt=guilty``) sets that number
=================== =============================================================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import (
    SPLIT_NUMBERS,
    Comparison,
    Counts,
    ErrorSplit,
    Finding,
    FindingKind,
    Framework,
    GraphKind,
    Guilt,
    InputRef,
    Level,
    LineageLink,
    LineageRule,
    Method,
    Metric,
    MetricSet,
    ModelGraph,
    Op,
    OpState,
    Origin,
    Reason,
    Role,
    Run,
    Tensor,
    TensorIO,
    TensorRef,
    Verdict,
)

_LINE = re.compile(r"(?P<name>\S+): (?P<type>\w+)(?:\((?P<inputs>[^()]*)\))?(?P<known>(?: \S+)*)")
_FLAGS = ("over", "origin")
_TEXTS = ("error", "originals", "reason", "cause", "role", "guilt")
_METRICS = tuple(metric.value for metric in Metric if metric is not Metric.STANDARD_DEVIATION)
_KNOWN = (*_TEXTS, *_METRICS, *SPLIT_NUMBERS)
_CREATED = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class _OpLine:
    """One op: what it reads, the bare words and the values said of it; ``place`` is its line."""

    name: str
    type: str
    inputs: tuple[str, ...]
    place: str
    flags: frozenset[str] = frozenset()
    known: Mapping[str, str] = field(default_factory=dict)

    @property
    def originals(self) -> tuple[str, ...]:
        text = self.known.get("originals", self.name)
        return tuple(name for name in text.split(",") if name)

    @property
    def over(self) -> bool:
        return bool(self.flags)

    def number(self, name: str, default: float) -> float:
        """The value of *name*."""
        text = self.known.get(name)
        try:
            return default if text is None else float(text)
        except ValueError as error:
            raise InputError(f"{name} is a number, not {text!r}", where=self.place) from error

    def wrong(self, name: str, choices: Iterable[str]) -> InputError:
        """The error about a value that is no choice."""
        hint = f"one of {', '.join(choices)}"
        return InputError(f"{self.known[name]!r} is no {name}", where=self.place, hint=hint)


def small_run(name: str, lines: Sequence[tuple[int, str]], file: str) -> RunData:
    """The run *name* that the numbered *lines* of *file* describe.

    Raises:
        InputError: a line is not what it should be; says which.
    """
    ops = [_op_line(text, f"{file}:{number}") for number, text in lines]
    if len({op.name for op in ops}) < len(ops) or not ops:
        where = f"{file}:{lines[0][0]}" if lines else file
        raise InputError("a graph has ops, each with a name of its own", where=where)
    _check_inputs(ops)
    device = _graph("device", GraphKind.DEVICE, map(_device_op, ops))
    golden = _graph("golden", GraphKind.ORIGINAL, _golden_ops(ops))
    comparisons = tuple(_comparison(op) for op in ops)
    diverged = any(op.over for op in ops)
    over, compared = (
        sum(op.over for op in ops),
        sum(comparison.compared for comparison in comparisons),
    )
    run = Run(
        name,
        golden.id,
        device.id,
        _CREATED,
        Verdict.DIVERGED if diverged else Verdict.CLEAN,
        Method.ROOT_CAUSE,
        Counts(len(ops), len(ops), compared, over, len(ops) - compared),
        {},
    )
    return RunData(
        run,
        golden,
        device,
        tuple(
            LineageLink(op.name, one, LineageRule.ORIGINAL_NAMES, *_ports(op, one))
            for op in ops
            for one in op.originals
        ),
        comparisons,
        {op.name: _state(op, comparison) for op, comparison in zip(ops, comparisons, strict=True)},
        tuple(_origins(ops, comparisons)),
        findings=tuple(
            Finding(FindingKind.CAUSE, op.known["cause"], op.known["cause"], op.name, port=0)
            for op in ops
            if "cause" in op.known
        ),
    )


def _op_line(text: str, place: str) -> _OpLine:
    match = _LINE.fullmatch(text)
    if match is None:
        hint = "NAME: TYPE(INPUT, ...) error=0.5 over"
        raise InputError(f"{text!r} is no op", where=place, hint=hint)
    words = match["known"].split()
    values = dict(word.partition("=")[::2] for word in words if "=" in word)
    flags = frozenset(word for word in words if "=" not in word)
    for word in (*sorted(flags - {*_FLAGS}), *(key for key in values if key not in _KNOWN)):
        hint = f"there are {', '.join((*_FLAGS, *_KNOWN))}"
        raise InputError(f"{word!r} says nothing of an op", where=place, hint=hint)
    inputs = tuple(part.strip() for part in (match["inputs"] or "").split(",") if part.strip())
    return _OpLine(match["name"], match["type"], inputs, place, flags, values)


def _check_inputs(ops: Sequence[_OpLine]) -> None:
    names = {op.name for op in ops}
    for op in ops:
        for one in op.inputs:
            if one not in names:
                raise InputError(f"{op.name} takes {one}, which is no op", where=op.place)


def _graph(name: str, kind: GraphKind, ops: Iterable[Op]) -> ModelGraph:
    return ModelGraph(name, kind, Framework.ONNX, "onnx", tuple(ops))


def _device_op(op: _OpLine) -> Op:
    return Op(
        op.name,
        op.name,
        op.type,
        tuple(InputRef(f"{one}:0", TensorRef(one, 0)) for one in op.inputs),
        outputs=(Tensor(f"{op.name}:0"),),
        original_names=op.originals,
    )


def _golden_ops(ops: Sequence[_OpLine]) -> Iterable[Op]:
    """The originals, in a chain inside each device op, fed by those of its inputs."""
    ends = {op.name: op.originals[-1] for op in ops if op.originals}
    produced: set[str] = set()
    for op in ops:
        feeds = [ends[one] for one in op.inputs if one in ends]
        for one in op.originals:
            if one not in produced:
                produced.add(one)
                refs = tuple(InputRef(f"{feed}:0", TensorRef(feed, 0)) for feed in feeds)
                yield Op(one, one, op.type, refs, outputs=(Tensor(f"{one}:0"),))
            feeds = [one]


def _ports(op: _OpLine, original: str) -> tuple[int | None, int | None]:
    return (0, 0) if original == op.originals[-1] else (None, None)


def _comparison(op: _OpLine) -> Comparison:
    golden = TensorRef(op.originals[-1], 0) if op.originals else None
    item = Comparison(op.name, TensorIO.OUTPUT, 0, golden, split=_split(op))
    if "error" not in op.known:
        reason = op.known.get("reason", Reason.NO_DEVICE_DUMP)
        if op.over:
            message = f"{op.name} is past a limit, but without error"
            raise InputError(message, where=op.place, hint="add error=N")
        if reason not in list(Reason):
            raise op.wrong("reason", Reason)
        return replace(item, reason=Reason(reason))
    return replace(
        item,
        rule=LineageRule.ORIGINAL_NAMES,
        metrics=_metrics(op),
        level=Level.FAIL if op.over else Level.PASS,
        failed=(Metric.RELATIVE_EUCLIDEAN_DISTANCE,) if op.over else (),
    )


def _metrics(op: _OpLine) -> MetricSet:
    error = op.number("error", math.nan)
    values: dict[str, Any] = {name: op.number(name, error) for name in _METRICS}
    values["cosine_similarity"] = op.number("cosine_similarity", 1 - error)
    return MetricSet(**values, standard_deviation=(0.0, 1.0, 0.0, 1.0), elements=1)


def _split(op: _OpLine) -> ErrorSplit | None:
    if not {"role", "guilt", *SPLIT_NUMBERS} & op.known.keys():
        return None
    for name, kind in (("role", Role), ("guilt", Guilt)):
        if op.known.get(name, Role.CLEAN if kind is Role else Guilt.NONE) not in list(kind):
            raise op.wrong(name, kind)
    names = [name for name in SPLIT_NUMBERS if name in op.known]
    numbers: dict[str, Any] = {name: op.number(name, 0.0) for name in names}
    role, guilt = op.known.get("role", Role.CLEAN), op.known.get("guilt", Guilt.NONE)
    return ErrorSplit(Role(role), Guilt(guilt), **numbers)


def _state(op: _OpLine, item: Comparison) -> OpState:
    if not item.compared:
        return OpState.NOT_COMPARED
    if "origin" in op.flags:
        return OpState.ORIGIN
    return OpState.INHERITED if op.over else OpState.CLEAN


def _origins(ops: Sequence[_OpLine], items: Sequence[Comparison]) -> Iterable[Origin]:
    guilty = [pair for pair in zip(ops, items, strict=True) if "origin" in pair[0].flags]
    for rank, (op, item) in enumerate(guilty, 1):
        golden = () if item.golden is None else (item.golden,)
        suspicion = None if item.split is None else item.split.suspicion
        assert item.metrics is not None, "an op past a limit has an error"
        cause = op.known.get("cause")
        yield Origin(rank, op.name, op.type, 0, golden, item.metrics, Level.FAIL, suspicion, cause)
