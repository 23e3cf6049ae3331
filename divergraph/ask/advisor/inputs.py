"""Whether both sides were fed the same: an error in the inputs is not an op's fault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np

from divergraph.ask.advisor.view import RunView
from divergraph.consistency.repeat import RANDOM_TYPES
from divergraph.text.unlike_inputs import unlike_input_text
from divergraph.thresholds.recorded.cause_labels import DATA, WEIGHT
from graphstore.model import Comparison, Finding, FindingKind, Op, TensorIO

INPUT_INCONSISTENT = "input_inconsistent"

_WEIGHTS = re.compile(r"(Const|Variable|RefData|VarHandleOp|ReadVariableOp|Parameter)")
_KEEPS_VALUES = re.compile(
    r"(Aipp|TransData|Trans_TransData|Cast|Identity|Reshape|ReFormat|Squeeze)"
)
_GIVES = re.compile(
    r"(Data|AnnData|AippData|RefData|IteratorGetNext|IteratorV2|GetNext|DequeueQueue|"
    r"Placeholder|PlaceholderWithDefault|Input|Parameter|QueueDequeue.*)$"
)

_PREPROCESSES = re.compile(r"Aipp(Data)?$")
_AIPP = (
    "the device preprocesses it (AIPP): feed golden what the preprocessing makes of it, or "
    "convert the model without AIPP and feed both sides the same"
)
_FEED_ALIKE = "feed both sides the same, preprocessed alike, and compare again"


def inconsistent_inputs(view: RunView) -> Iterator[Finding]:
    """One finding for each input of the network that is over a limit: outputs of ops that give
    data, copies of these, dumped inputs that come from them, and what the root-cause analysis found
    at the graph's inputs."""
    if view.recorded is not None:
        yield from _read_by_calls(view)
        return
    marks, ids = view.marks, view.arrays.ids
    over = np.flatnonzero(marks.over & marks.compared)
    seen_at: dict[str, tuple[str, TensorIO, int]] = {}
    rows = zip(
        *(one[over].tolist() for one in (marks.ops, marks.is_output, marks.ports)), strict=True
    )
    for number, is_output, port in rows:
        io = TensorIO.OUTPUT if is_output else TensorIO.INPUT
        source = _source(view, view.ops[ids[number]], io, port)
        if source is not None:
            seen_at.setdefault(source, (ids[number], io, port))
    view.outputs.load(op for op, *_ in seen_at.values())
    for source, (op, io, port) in seen_at.items():
        tensors = view.outputs.tensors(op)
        item = next(one for one in tensors if one.over and (one.io, one.port) == (io, port))
        yield _finding(view, source, item)
    yield from _entries(view, {*seen_at})


def _read_by_calls(view: RunView) -> Iterator[Finding]:
    """Weights and data of a recorded run: only what no golden call can have made is an input."""
    remedies = {WEIGHT: "load both from one checkpoint", DATA: ""}
    for finding in view.starts.recorded.findings:
        if finding.label not in remedies:
            continue
        remedy = remedies[finding.label]
        sentence = f"{finding.op}: {finding.sentence}" if remedy else finding.sentence
        yield Finding(
            FindingKind.ADVICE,
            INPUT_INCONSISTENT,
            f"{sentence}{': ' if remedy else ''}{remedy}; what follows from it is no op's fault",
            finding.op,
            finding.io,
            finding.port,
            finding.confidence,
            {"index": view.index(finding.op), "input": finding.op},
        )


def _source(view: RunView, op: Op, io: TensorIO, port: int) -> str | None:
    """The op, or the tensor without one, that a tensor of *op* is a copy of; None if an op computed
    it."""
    if io is TensorIO.OUTPUT:
        if _is_source(op):
            return None if _got_wrong_data(view, op) else op.id
        if not _KEEPS_VALUES.match(op.type):
            return None
        port = 0
    return _fed_input(view, op, port)


def _is_source(op: Op) -> bool:
    if _GIVES.match(op.type) or RANDOM_TYPES.match(op.type):
        return True
    return not op.inputs and _WEIGHTS.match(op.type) is not None


def _got_wrong_data(view: RunView, op: Op) -> bool:
    """Whether something directly before *op* (such as a dropout) was over a limit already."""
    return bool(view.over[view.before(op.id)].any())


def _fed_input(view: RunView, op: Op, port: int) -> str | None:
    for _ in range(len(view.ops)):
        ref = op.inputs[port] if port < len(op.inputs) else None
        if ref is None:
            return None
        if ref.producer is None:
            return ref.tensor
        producer = view.ops.get(ref.producer.op)
        if producer is None:
            return ref.tensor
        if (view.arrays.number[producer.id], ref.producer.port) in view.right:
            return None  # the source is right, so an op in between is to blame
        if _is_source(producer):
            return producer.id
        if not _KEEPS_VALUES.match(producer.type):
            return None
        op, port = producer, 0
    return None


def _finding(view: RunView, source: str, item: Comparison) -> Finding:
    assert item.metrics is not None
    op = view.ops.get(source)
    what, remedy = _about(view, op)
    seen = "" if source == item.op else f" (seen at {item.io} {item.port} of {item.op})"
    error = item.metrics.relative_euclidean_distance
    return Finding(
        FindingKind.ADVICE,
        INPUT_INCONSISTENT,
        f"{what} of {source} differ from golden{seen}, relative error {error:.3g}: {remedy}; "
        "what follows from it is no op's fault",
        item.op if op is None else source,
        item.io,
        item.port,
        0.9 if source == item.op else 0.7,
        {
            "index": view.index(item.op),
            "input": source,
            "seen_at": item.op,
            "cosine_similarity": item.metrics.cosine_similarity,
            "relative_euclidean_distance": error,
            "limit": item.limit,
        },
    )


def _about(view: RunView, op: Op | None) -> tuple[str, str]:
    """The kind of input, and what to do about it."""
    if op is not None and _is_preprocessed(view, op):
        return "the data", _AIPP
    if op is not None and _WEIGHTS.match(op.type):
        return "the weights or constants", "export both models from one checkpoint"
    if op is not None and RANDOM_TYPES.match(op.type):
        return "the random numbers", "fix the seed, or give both sides the same numbers"
    return "the data", _FEED_ALIKE


def _is_preprocessed(view: RunView, op: Op) -> bool:
    """Whether the device preprocesses what *op* brings in, itself or in what reads it."""
    return any(
        _PREPROCESSES.match(reader.type) or any("aipp" in key.lower() for key in reader.attrs)
        for reader in (op, *view.readers(op.id))
    )


def _entries(view: RunView, named: set[str]) -> Iterator[Finding]:
    for entry in view.run.analysis.mismatches:
        # An input that is no op of golden's is brought in by the device's op of its name.
        tensor, op = entry.tensor, entry.op or entry.tensor
        source = tensor.removesuffix(":0")  # the same seen again, behind a Cast
        if not tensor or source in named or op in named:
            continue
        named.add(source)
        brings = view.ops.get(op)
        preprocessed = brings is not None and _is_preprocessed(view, brings)
        remedy = _AIPP if preprocessed else _FEED_ALIKE
        yield Finding(
            FindingKind.ADVICE,
            INPUT_INCONSISTENT,
            f"{unlike_input_text(entry)}: {remedy}; what follows from it is no op's fault",
            op if op in view.ops else "",
            TensorIO.OUTPUT,
            -1,
            0.9,
            {"index": view.index(op), "input": tensor, **asdict(entry)},
        )
