"""Model graphs of any size as large training jobs have them, with a fused device graph.

The original graph is made of stages; a stage is four branches side by side (two
transformer encoders, a residual network, a feature tower) whose results are added up. It
goes forward through all stages and backward again, as training graphs do; constants
shared by all layers fan out as far as there are layers. A device op is made of about three
originals, so the device graph has about a third of the ops; every original op has lineage, 60 % of
the device ops are measured.

:func:`made_run` is seeded: the same size and seed give the same values.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from benchmarks.scale.layers import BOTTLENECK, ENCODER_LAYER, FEATURE_LAYER, LayerPart, Template
from graphstore.contract import RunData
from graphstore.gc_paused import gc_paused
from graphstore.model import (
    AttrValue,
    Comparison,
    Counts,
    DType,
    Framework,
    GraphKind,
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
    Run,
    Shape,
    Tensor,
    TensorIO,
    TensorOrigin,
    TensorRef,
    Verdict,
)

MEASURED = 0.6
INSERTED = 0.06
"""Share of the device ops that stand for no original."""
FAULTY = 1000
"""One device op in so many adds an error of its own."""
LIMITS = {"cosine_similarity": 0.99, "relative_euclidean_distance": 0.05}

_SHARED = (
    ("Const/attention_mask", "Cast", (8, 1, 128, 128)),
    ("Const/scale", "Const", ()),
    ("Const/epsilon", "Const", ()),
    ("Const/heads_shape", "Const", (4,)),
    ("Const/perm", "Const", (4,)),
    ("Const/keep_prob", "Const", ()),
    ("Const/learning_rate", "Const", ()),
)
_BRANCHES: tuple[tuple[str, Template], ...] = (
    ("bert/encoder", ENCODER_LAYER),
    ("resnet/block", BOTTLENECK),
    ("text/decoder", ENCODER_LAYER),
    ("features/tower", FEATURE_LAYER),
)


@dataclass
class _Draft:
    """The ops of the original graph as columns; ``inputs`` are places of earlier ops."""

    names: list[str] = field(default_factory=list)
    parts: list[LayerPart] = field(default_factory=list)
    inputs: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, name: str, part: LayerPart, inputs: tuple[int, ...]) -> int:
        self.names.append(name)
        self.parts.append(part)
        self.inputs.append(inputs)
        return len(self.names) - 1


def made_run(size: int, seed: int = 0, name: str = "large") -> RunData:
    """A diverging run whose original graph has exactly *size* ops (at least 1000)."""
    rng = random.Random(seed)
    with gc_paused():
        draft = _original_draft(size)
        golden = _original_graph(draft, f"golden_{size}")
        device, links, origin_of = _device_graph(draft, rng, f"device_{size}")
        del draft
        return _results(name, golden, device, links, origin_of, np.random.default_rng(seed))


def made_graph(size: int) -> ModelGraph:
    """The original graph alone."""
    with gc_paused():
        return _original_graph(_original_draft(size), f"golden_{size}")


def _original_draft(size: int) -> _Draft:
    draft = _Draft()
    shared = {
        key.rpartition("/")[2]: draft.add(key, LayerPart(key, kind, (), shape), ())
        for key, kind, shape in _SHARED
    }
    hidden = (8, 128, 768)
    added = LayerPart("AddN", "AddN", (), hidden)
    last = draft.add("input/tokens", LayerPart("tokens", "Placeholder", (), hidden), ())
    cost = sum(len(template.forward) + len(template.backward) for _, template in _BRANCHES) + 2
    layers = max(1, (size - len(draft.names) - 8) // cost)
    taped: list[tuple[str, Template, int]] = []
    for layer in range(layers):
        ends = []
        for branch, template in _BRANCHES:
            tower = f"_{layer // 24}" if layer >= 24 else ""
            prefix = f"{branch}{tower}/layer_{layer % 24}"
            base = len(draft.names)
            for part in template.forward:
                draft.add(f"{prefix}/{part.name}", part, _places(part, base, last, shared))
            taped.append((prefix, template, base))
            ends.append(len(draft.names) - 1)
        last = draft.add(f"stage_{layer}/AddN", added, tuple(ends))
    grad = draft.add("gradients/loss/mul_grad/Mul", LayerPart("g", "Mul", (), hidden), (last,))
    for layer in reversed(range(layers)):
        ends = []
        for prefix, template, base in taped[layer * len(_BRANCHES) :][: len(_BRANCHES)]:
            start = len(draft.names)
            for part in template.backward:
                places = _places(part, start, grad, shared, base)
                draft.add(f"gradients/{prefix}/{part.name}", part, places)
            ends.append(start + template.gradient)
        grad = draft.add(f"gradients/stage_{layer}/AddN", added, tuple(ends))
    head = LayerPart("head", "Identity", (), (8, 768))
    for number in count():
        if len(draft.names) >= size:
            break
        last = draft.add(f"head/Identity_{number}", head, (last,))
    return draft


def _places(
    part: LayerPart, base: int, outer: int, shared: dict[str, int], forward: int = 0
) -> tuple[int, ...]:
    """Places of the inputs: in this layer, the layer's own input, a shared constant, or (of
    a gradient) the forward layer at *forward*."""
    return tuple(
        [
            base + read
            if isinstance(read, int)
            else outer
            if read == "x"
            else forward + int(read[1:])
            if read[0] == "@"
            else shared[read]
            for read in part.reads
        ]
    )


def _original_graph(draft: _Draft, name: str) -> ModelGraph:
    refs = _refs(draft.names)
    ops = tuple(
        Op(
            op,
            op,
            part.type,
            tuple([refs[place] for place in inputs]),
            (),
            (Tensor(refs[number].tensor, DType.FLOAT32, part.shape),),
            part.attrs,
            "",
            (),
            None,
            number,
        )
        for number, (op, part, inputs) in enumerate(
            zip(draft.names, draft.parts, draft.inputs, strict=True)
        )
    )
    return ModelGraph(
        name, GraphKind.ORIGINAL, Framework.TENSORFLOW, "made", ops, source="made", sha256="1" * 64
    )


def _refs(names: Iterable[str]) -> list[InputRef]:
    """What reads the first output of each op; shared by all readers, as its text is."""
    return [InputRef(f"{name}:0", TensorRef(name, 0)) for name in names]


def _groups(parts: Sequence[LayerPart], rng: random.Random) -> list[int]:
    """The first place of each device op: runs of one to six originals."""
    starts = []
    place = 0
    sizes = (2, 3, 4, 3, 5, 2, 6, 1, 3, 4)
    while place < len(parts):
        starts.append(place)
        place += rng.choice(sizes)
    return starts


def _device_graph(
    draft: _Draft, rng: random.Random, name: str
) -> tuple[ModelGraph, tuple[LineageLink, ...], list[int]]:
    """(graph, links, place of the original each device op's output stands for, -1: none)."""
    starts = _groups(draft.parts, rng)
    group_of = np.repeat(
        np.arange(len(starts)), np.diff(np.asarray([*starts, len(draft.names)]))
    ).tolist()
    ops: list[Op] = []
    links: list[LineageLink] = []
    origin_of: list[int] = []
    output: list[InputRef] = []
    for group, start in enumerate(starts):
        end = starts[group + 1] if group + 1 < len(starts) else len(draft.names)
        members = tuple(draft.names[start:end])
        reads = dict.fromkeys(
            [group_of[p] for m in range(start, end) for p in draft.inputs[m] if p < start]
        )
        inputs = [output[read] for read in reads]
        if inputs and rng.random() < INSERTED:
            cast = f"trans_Cast_{len(ops)}"
            ref = InputRef(f"{cast}:0", TensorRef(cast, 0))
            ops.append(_device_op(cast, draft.parts[start], (inputs[0],), ref, (), None, len(ops)))
            origin_of.append(-1)
            inputs[0] = ref
        # a pair keeps both names, as the compiler joins them; more than that are named anew
        op = members[-1] if len(members) != 2 else f"{members[0]}{draft.parts[end - 1].name}"
        ref = InputRef(f"{op}:0", TensorRef(op, 0))
        shown = TensorOrigin(members[-1], 0, "NHWC", DType.FLOAT32)
        part = draft.parts[end - 1]
        ops.append(_device_op(op, part, tuple(inputs), ref, members, shown, len(ops)))
        origin_of.append(end - 1)
        output.append(ref)
        links.append(LineageLink(op, members[-1], LineageRule.ORIGIN_OUTPUT, 0, 0))
        links += [LineageLink(op, member, LineageRule.ORIGINAL_NAMES) for member in members[:-1]]
    graph = ModelGraph(
        name, GraphKind.DEVICE, Framework.ASCEND, "made", tuple(ops), source="made", sha256="2" * 64
    )
    return graph, tuple(links), origin_of


_DEVICE_ATTRS: tuple[dict[str, AttrValue], ...] = tuple(
    {"stream_id": stream, "_kernel": "AiCore", "_block_dim": 32} for stream in range(4)
)


def _device_op(
    op: str,
    part: LayerPart,
    inputs: tuple[InputRef, ...],
    output: InputRef,
    originals: tuple[str, ...],
    origin: TensorOrigin | None,
    number: int,
) -> Op:
    kind = part.type if originals else "Cast"
    tensor = Tensor(output.tensor, DType.FLOAT16, part.shape, "ND", origin)
    return Op(
        op, op, kind, inputs, (), (tensor,), _DEVICE_ATTRS[number % 4], "", (), originals, number
    )


def _results(
    name: str,
    golden: ModelGraph,
    device: ModelGraph,
    links: tuple[LineageLink, ...],
    origin_of: list[int],
    rng: np.random.Generator,
) -> RunData:
    size = len(device.ops)
    original = np.asarray(origin_of) >= 0
    measured = (rng.random(size) < MEASURED / original.mean()) & original
    faulty = measured & (rng.random(size) < 1 / FAULTY)
    faulty[np.flatnonzero(measured)[0]] = True
    errors, over, tainted = _spread(device, measured.tolist(), faulty.tolist(), rng)
    sets = _metric_sets(errors, rng)
    states: dict[str, OpState] = {}
    comparisons: list[Comparison] = []
    origins: list[Origin] = []
    for number, op in enumerate(device.ops):
        metrics = sets[number] if measured[number] else None
        first = over[number] and not tainted[number]
        if metrics is None:
            states[op.id] = OpState.NOT_COMPARED
        elif first:
            states[op.id] = OpState.ORIGIN
        elif over[number]:
            states[op.id] = OpState.INHERITED
        else:
            states[op.id] = OpState.CLEAN
        place = origin_of[number]
        ref = None if place < 0 else TensorRef(golden.ops[place].id, 0)
        comparisons.append(_comparison(op, ref, metrics, over[number], number))
        if first and metrics is not None and ref is not None:
            origins.append(
                Origin(len(origins) + 1, op.id, op.type, 0, (ref,), metrics, Level.FAIL, 0.9, None)
            )
    counts = Counts(size, size, int(measured.sum()), sum(over), size - int(measured.sum()))
    run = Run(
        name,
        golden.id,
        device.id,
        "2026-03-01T12:00:00+00:00",
        Verdict.DIVERGED,
        Method.THRESHOLDS,
        counts,
        LIMITS,
        {"golden": "golden/", "device": "device/"},
        version="0",
    )
    return RunData(run, golden, device, links, tuple(comparisons), states, tuple(origins))


def _spread(
    device: ModelGraph, measured: list[bool], faulty: list[bool], rng: np.random.Generator
) -> tuple[list[float], list[bool], list[bool]]:
    """(error, over a limit, reached by an op that is over) of each op; errors fade slowly."""
    errors = (1e-4 * (1 + rng.random(len(measured)))).tolist()
    number = {op.id: place for place, op in enumerate(device.ops)}
    over: list[bool] = []
    tainted: list[bool] = []
    for place, op in enumerate(device.ops):
        sources = [number[ref.producer.op] for ref in op.inputs if ref and ref.producer]
        strongest = max([errors[source] for source in sources], default=0.0)
        errors[place] = max(errors[place], 0.4 if faulty[place] else strongest * 0.8)
        over.append(measured[place] and errors[place] > LIMITS["relative_euclidean_distance"])
        tainted.append(any(over[s] if measured[s] else tainted[s] for s in sources))
    return errors, over, tainted


def _metric_sets(errors: list[float], rng: np.random.Generator) -> list[MetricSet]:
    error = np.asarray(errors)
    noise = 1 + rng.random((13, len(error)))
    columns: dict[str, Any] = {
        "cosine_similarity": 1 - error * error / 2,
        "max_absolute_error": error * noise[4],
        "accumulated_relative_error": error * noise[5],
        "relative_euclidean_distance": error,
        "kullback_leibler_divergence": error * noise[6] / 100,
        "mean_absolute_error": error * noise[7],
        "root_mean_square_error": error * noise[8],
        "max_relative_error": error * noise[9],
        "mean_relative_error": error * noise[10],
        "elements": rng.integers(1, 1000, len(error)) * 1024,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    spread = zip(*(noise[row].tolist() for row in range(4)), strict=True)
    return [
        MetricSet(**dict(zip(columns, row, strict=True)), standard_deviation=deviation)
        for row, deviation in zip(rows, spread, strict=True)
    ]


def _comparison(
    op: Op, golden: TensorRef | None, metrics: MetricSet | None, over: bool, number: int
) -> Comparison:
    tensor = op.outputs[0]
    if metrics is None:
        reason = Reason.INSERTED if op.is_inserted else Reason.NO_DEVICE_DUMP
        rule = None if golden is None else LineageRule.ORIGIN_OUTPUT
        return Comparison(op.id, TensorIO.OUTPUT, 0, golden, rule, reason=reason)
    flat = op.name.replace("/", "_")
    written = 1700000000000000 + number
    failed = (Metric.RELATIVE_EUCLIDEAN_DISTANCE,) if over else ()
    shape: Shape | None = tensor.shape
    return Comparison(
        op.id,
        TensorIO.OUTPUT,
        0,
        golden,
        LineageRule.ORIGIN_OUTPUT,
        metrics,
        Level.FAIL if over else Level.PASS,
        failed,
        shape=None if shape is None else tuple(size or 0 for size in shape),
        device_dtype=DType.FLOAT16,
        golden_dtype=DType.FLOAT32,
        device_path=f"dump/20260301120000/0/net/1/0/{op.type}.{flat}.{number}.7.{written}",
        golden_path=f"golden/{flat}.0.{written}.npy",
        address=0x1000_0000 + 512 * number,
        overflow=False,
    )
