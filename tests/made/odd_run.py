"""A run with everything that is hard to keep: odd names and numbers, loops, loose links."""

from __future__ import annotations

import math
from dataclasses import replace

from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
    Counts,
    DeviceArithmetic,
    DType,
    ErrorSplit,
    Figures,
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
    RunAnalysis,
    SideFigures,
    Subgraph,
    Tensor,
    TensorIO,
    TensorRef,
    Verdict,
)

ODD_NAMES = (
    "plain",
    "with/slash:0",
    "quo\"te's `and` $sign {brace}",
    "new\nline\ttab",
    "größe 尺寸 🙂",
    "half \ud83d pair",
    " ends with space ",
    "\\backslash\\ud83d",
)


def odd_graph(name: str = "odd", kind: GraphKind = GraphKind.DEVICE) -> ModelGraph:
    """A ring of ops with odd names (a loop as in old TensorFlow graphs) and a body."""
    ops = [
        Op(
            id=text,
            name=text,
            type="Merge" if place == 0 else "Add",
            inputs=(
                InputRef(f"{ODD_NAMES[place - 1]}:0", TensorRef(ODD_NAMES[place - 1], 0)),
                None,
                InputRef("from nowhere"),
            ),
            control_inputs=(ODD_NAMES[0],) if place > 1 else (),
            outputs=(
                Tensor(f"{text}:0", DType.FLOAT16, (None, 0, 3), "NC1HWC0"),
                Tensor(""),
            ),
            attrs={
                text: text,
                "nan": math.nan,
                "inf": (math.inf, -math.inf, -0.0),
                "big": 2**80,
                "deep": ((1, (2.5, "x")), True, ()),
            },
            original_names=None if place % 3 == 0 else tuple(ODD_NAMES[:place]),
            sequence=(-1) ** place * 2**65,
        )
        for place, text in enumerate(ODD_NAMES)
    ]
    owner = Op("owner", "owner", "While", outputs=(Tensor("owner:0"),), owns=("body",))
    inner = Op("body/x", "x", "Data", outputs=(Tensor("x:0"),), subgraph="body")
    return ModelGraph(
        name=name,
        kind=kind,
        framework=Framework.ASCEND if kind is GraphKind.DEVICE else Framework.TENSORFLOW,
        format="made by hand",
        ops=(*ops, owner, inner),
        subgraphs=(
            Subgraph("body", "owner", "body", ((0, "body/x"),), ((0, TensorRef("body/x", 0)),)),
        ),
        inputs=(Tensor("x", None, None),),
        outputs=(TensorRef(ODD_NAMES[5], 1),),
        attrs={"half \udc00": math.nan},
        warnings=("half \ud83d",),
        source="/a \udcff b",
        sha256="",
    )


def odd_metrics(value: float) -> MetricSet:
    return MetricSet(
        *[value] * 5,
        (value, 0.5, -value, math.inf),
        *[-value] * 4,
        2**40,
        1,
        2,
        3,
        {Metric.COSINE_SIMILARITY: "why 尺"},
    )


def odd_figures(value: float) -> Figures:
    side = SideFigures(value, -value, value, 0.5, 2**40, 2**62, 3)
    other = SideFigures(-value, value, -value, math.nan)
    numbers = [value] * 6
    return Figures(side, other, value, -value, 1, 2, -1, 2**62, *numbers, "channel 尺\n")


def odd_split(value: float, op: str) -> ErrorSplit:
    return ErrorSplit(
        Role.ATTENUATES,
        Guilt.SUSPECT,
        value,
        -value,
        None,
        value,
        -value,
        (op, "gone 尺", ODD_NAMES[5]),
        "numpy 尺",
        "failed\n",
    )


def odd_run(name: str = "odd") -> RunData:
    device = odd_graph()
    golden = odd_graph("odd golden", GraphKind.ORIGINAL)
    values = (math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1)
    comparisons = []
    for place, op in enumerate(device.ops):
        io = TensorIO.INPUT if place == 1 else TensorIO.OUTPUT
        if place < len(values):
            comparisons.append(
                Comparison(
                    op.id,
                    io,
                    place % 2,
                    TensorRef(golden.ops[place].id, 0),
                    LineageRule.SAME_NAME,
                    odd_metrics(values[place]),
                    Level.FAIL,
                    (Metric.COSINE_SIMILARITY, Metric.MAX_RELATIVE_ERROR),
                    None,
                    "detail 尺\n",
                    (0, 3),
                    DType.FLOAT16,
                    DType.FLOAT32,
                    "/dump ÿ/a",
                    "golden\nb",
                    2**64,
                    place % 2 == 0,
                    odd_figures(values[place]),
                    odd_split(values[place], ODD_NAMES[place]),
                    "limit 尺\n",
                )
            )
        else:
            comparisons.append(Comparison(op.id, io, -1, reason=Reason.UNREADABLE_DUMP, detail="x"))
    states = list(OpState)
    run = Run(
        name,
        golden.id,
        device.id,
        "2026-01-02T03:04:05.678Z",
        Verdict.DIVERGED,
        Method.THRESHOLDS,
        Counts(1, 2, 3, 4, 5),
        {"cosine_similarity": math.nan, "max_absolute_error": math.inf},
        {"golden \ud83d": "\udcff"},
        ("a \ud83d warning", ""),
        "0.0",
        RunAnalysis(note="half \ud83d", arithmetic=DeviceArithmetic(functions={"\udcff": 2.0**80})),
    )
    links = (
        LineageLink(ODD_NAMES[5], ODD_NAMES[7], LineageRule.RENAMED, 0, 1),
        LineageLink(ODD_NAMES[1], "gone 尺", LineageRule.ORIGINAL_NAMES),
        LineageLink(ODD_NAMES[0], ODD_NAMES[0], LineageRule.SAME_NAME),
    )
    origin = Origin(
        1,
        ODD_NAMES[5],
        "Add",
        0,
        (TensorRef(ODD_NAMES[7], 0), TensorRef("gone", -1)),
        odd_metrics(math.nan),
        Level.FAIL,
        math.nan,
        "cause 尺",
    )
    return RunData(
        run,
        golden,
        device,
        links,
        tuple(comparisons),
        {op.id: states[place % len(states)] for place, op in enumerate(device.ops)},
        (origin,),
        (replace(origin, rank=7, suspicion=-math.inf), origin),
        (
            Finding(
                FindingKind.ADVICE,
                "",
                "尺\n",
                ODD_NAMES[5],
                TensorIO.INPUT,
                -1,
                math.nan,
                {"half \ud83d": [[math.nan], {"\udcff": -math.inf}], "big": -(2**80)},
            ),
        ),
    )
