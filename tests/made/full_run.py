"""A small run with every kind of fact in it, made by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
    Constant,
    Counts,
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
    OutputShares,
    Reason,
    Role,
    Run,
    RunAnalysis,
    SideFigures,
    Subgraph,
    Tensor,
    TensorIO,
    TensorOrigin,
    TensorRef,
    Verdict,
)


def metric_set(error: float = 0.0, **more: object) -> MetricSet:
    values: dict = {
        "cosine_similarity": 1.0 - error,
        "max_absolute_error": error,
        "accumulated_relative_error": error / 3,
        "relative_euclidean_distance": error,
        "kullback_leibler_divergence": math.inf if error > 1 else 0.1,
        "standard_deviation": (0.1, 1.0, 0.2, 1.1),
        "mean_absolute_error": error / 2,
        "root_mean_square_error": error,
        "max_relative_error": error,
        "mean_relative_error": error,
        "elements": 24,
    }
    return MetricSet(**{**values, **more})


def figures(error: float = 0.0, **more: object) -> Figures:
    side = SideFigures(-1.5, 2.0, 0.2, 1.1, zeros=3)
    values: dict = {
        "device": SideFigures(-1.5, 2.0 + error, 0.1, 1.0, 1, 0, 2),
        "golden": side,
        "atol": 1e-6,
        "rtol": 0.01,
        "equal": 20,
        "bad": 4,
        "first_bad": 7,
        "worst": 11,
        "worst_device": 2.0 + error,
        "worst_golden": 2.0,
        "snr": 40.5,
        "psnr": math.inf,
        "max_ulp": 3.0,
        "where_bad": "channels 8-15 of axis 1",
    }
    return Figures(**{**values, **more})


def original_graph(name: str = "net") -> ModelGraph:
    """x -> conv -> bias -> relu -> pool, with an unconnected optional input and a constant."""
    return ModelGraph(
        name=name,
        kind=GraphKind.ORIGINAL,
        framework=Framework.TENSORFLOW,
        format="meta",
        ops=(
            _op("x", "Placeholder", ()),
            _op("conv", "Conv2D", ("x", None), {"strides": (1, 2), "pad": "SAME", "alpha": 0.5}),
            _op("block/bias", "BiasAdd", ("conv",), {"deep": ((1, 2), ("a",)), "on": True}),
            _op("block/relu", "Relu", ("block/bias",)),
            _op("pool", "MaxPool", ("block/relu",)),
        ),
        inputs=(Tensor("x", DType.FLOAT32, (None, 3)),),
        outputs=(TensorRef("pool", 0),),
        constants=(Constant(Tensor("w", DType.FLOAT16, (3, 3)), "weights.bin", 8, 18),),
        attrs={"producer": "hand", "version": 3},
        warnings=("one attribute was left out",),
        source="net.meta",
        sha256="ab" * 32,
    )


def device_graph(name: str = "net_device") -> ModelGraph:
    """x -> fused conv -> inserted cast -> loop owner with a body -> pool; one control edge."""
    fused = Tensor(
        "conv:0",
        DType.FLOAT16,
        (1, 1, 4, 4, 16),
        "NC1HWC0",
        TensorOrigin("block/relu", 0, "NHWC", DType.FLOAT32, (1, 4, 4, 3)),
    )
    cast = Op(
        "trans",
        "trans",
        "Cast",
        (feed("conv"),),
        outputs=(Tensor("trans:0"),),
        original_names=(),
        sequence=3,
    )
    owner = Op(
        "loop",
        "loop",
        "While",
        (feed("trans"),),
        outputs=(Tensor("loop:0"),),
        owns=("body",),
        original_names=("x",),
        sequence=4,
    )
    return ModelGraph(
        name=name,
        kind=GraphKind.DEVICE,
        framework=Framework.ASCEND,
        format="ge_proto",
        ops=(
            _op("x", "Data", (), originals=("x",)),
            Op(
                "conv",
                "conv",
                "Conv2D",
                (feed("x"), None, InputRef("w")),
                control_inputs=("x",),
                outputs=(fused,),
                original_names=("conv", "block/bias", "block/relu"),
                sequence=2,
            ),
            cast,
            owner,
            _op("pool", "Pooling", ("loop",), originals=("pool",)),
            Op("body/in", "in", "Data", (), (), (Tensor("in:0"),), subgraph="body"),
            Op("body/é 'q'\"", "é 'q'\"", "Add", (feed("body/in"),), (), (Tensor(""),), {}, "body"),
        ),
        subgraphs=(
            Subgraph(
                "body", "loop", "body", ((0, "body/in"),), ((0, TensorRef("body/é 'q'\"", 0)),)
            ),
        ),
        outputs=(TensorRef("pool", 0),),
        sha256="cd" * 32,
    )


def sample_run(name: str = "first", created: str = "2026-01-01T00:00:00Z") -> RunData:
    """A run of the two graphs with an origin, an inherited op, NaN and infinite metrics."""
    bad = metric_set(2.0, notes={Metric.KULLBACK_LEIBLER_DIVERGENCE: "golden has a zero"})
    broken = metric_set(
        math.nan,
        standard_deviation=(math.nan, 0.0, 0.5, math.inf),
        device_nonfinite=7,
        notes={Metric.COSINE_SIMILARITY: "not a number on the device"},
    )
    golden, device = original_graph(), device_graph()
    comparisons = (
        not_compared("x", Reason.NO_TASK),
        Comparison(
            "conv",
            TensorIO.OUTPUT,
            0,
            TensorRef("block/relu", 0),
            LineageRule.ORIGIN_OUTPUT,
            bad,
            Level.FAIL,
            (Metric.RELATIVE_EUCLIDEAN_DISTANCE,),
            shape=(1, 4, 4, 3),
            device_dtype=DType.FLOAT16,
            golden_dtype=DType.FLOAT32,
            device_path="dump/Conv2D.conv.1.2",
            golden_path="dump/block_relu.0.npy",
            address=2**63 + 5,
            overflow=True,
            figures=figures(1.0),
            split=ErrorSplit(
                Role.INTRODUCES,
                Guilt.GUILTY,
                0.5,
                0.25,
                1e-4,
                5000.0,
                group=("conv", "block/bias", "block/relu"),
                reference="onnxruntime 1.31.1",
            ),
            limit="relative_euclidean_distance > 0.01 (all float16)",
        ),
        Comparison(
            "conv",
            TensorIO.INPUT,
            0,
            TensorRef("x", 0),
            LineageRule.SAME_NAME,
            metric_set(),
            Level.PASS,
            shape=(),
            overflow=False,
            figures=figures(
                device=SideFigures(math.nan, math.nan, math.nan, math.nan, nans=24),
                golden=SideFigures(0.0, 0.0, 0.2, 1.1),
                max_ulp=None,
                where_bad="",
                worst=-1,
                worst_device=math.nan,
                worst_golden=math.nan,
            ),
        ),
        not_compared("trans", Reason.INSERTED),
        not_compared("loop", Reason.UNKNOWN_ORIGINAL, golden=TensorRef("gone", 1)),
        Comparison(
            "pool",
            TensorIO.OUTPUT,
            0,
            TensorRef("pool", 0),
            LineageRule.SAME_NAME,
            broken,
            Level.FAIL,
            figures=figures(
                device=SideFigures(-1.5, math.inf, math.nan, 0.0), snr=math.nan, max_ulp=math.nan
            ),
            split=ErrorSplit(
                Role.AMPLIFIES,
                Guilt.SUSPECT,
                math.nan,
                math.inf,
                0.0,
                math.inf,
                2.5,
                ("pool",),
                "numpy",
            ),
        ),
        not_compared("body/in", Reason.NO_DEVICE_DUMP, "no file Data.in.*"),
        replace(
            not_compared("body/é 'q'\"", Reason.NO_ORIGINAL),
            split=ErrorSplit(Role.UNKNOWN, failure="no reference for Add"),
        ),
    )
    links = (
        LineageLink("conv", "conv", LineageRule.ORIGINAL_NAMES),
        LineageLink("conv", "block/bias", LineageRule.ORIGINAL_NAMES),
        LineageLink("loop", "gone", LineageRule.ORIGINAL_NAMES),
        LineageLink("conv", "block/relu", LineageRule.ORIGIN_OUTPUT, 0, 0),
        LineageLink("pool", "pool", LineageRule.SAME_NAME, 0, 0),
        LineageLink("x", "x", LineageRule.SAME_NAME),
    )
    states = dict.fromkeys((op.id for op in device.ops), OpState.NOT_COMPARED)
    states |= {"conv": OpState.ORIGIN, "pool": OpState.BROKEN}
    origin = Origin(
        1, "conv", "Conv2D", 0, (TensorRef("block/relu", 0),), bad, Level.FAIL, 0.75, "rounding"
    )
    run = Run(
        name,
        golden.id,
        device.id,
        created,
        Verdict.DIVERGED,
        Method.THRESHOLDS,
        Counts(7, 8, 3, 2, 5),
        {"cosine_similarity": 0.99},
        {"golden_dump": "/data/golden"},
        ("a warning",),
        "0.1.0",
        RunAnalysis(3.0, math.inf, "é", blame=OutputShares({"conv": 0.5})),
    )
    suspect = Origin(
        1, "pool", "Pooling", 0, (TensorRef("pool", 0),), broken, Level.FAIL, math.inf, "overflow"
    )
    findings = (
        Finding(
            FindingKind.CAUSE,
            "lost_bias",
            "conv adds no bias: é 'q'\"",
            "conv",
            TensorIO.OUTPUT,
            0,
            0.75,
            {"bias": [0.5, -math.inf], "where": {"channel": 3}, "é": None},
        ),
        Finding(FindingKind.ADVICE, "deep_overflow", "Two ops overflow."),
        Finding(
            FindingKind.CONSISTENCY, "stale", "body reads late.", "body/in", TensorIO.INPUT, 1, 0.0
        ),
        Finding(FindingKind.ADVICE, "unknown_op", "An op that no graph has.", "gone"),
    )
    return RunData(run, golden, device, links, comparisons, states, (origin,), (suspect,), findings)


def _op(
    name: str,
    kind: str,
    inputs: Iterable[str | None],
    attrs: Mapping | None = None,
    originals: tuple[str, ...] | None = None,
) -> Op:
    return Op(
        id=name,
        name=name,
        type=kind,
        inputs=tuple(None if source is None else feed(source) for source in inputs),
        outputs=(Tensor(f"{name}:0", DType.FLOAT32, (None, 4), "NHWC"),),
        attrs=attrs or {},
        original_names=originals,
        sequence=9 if name == "pool" else 0,
    )


def feed(op: str) -> InputRef:
    """The input that takes the first output of *op*."""
    return InputRef(f"{op}:0", TensorRef(op, 0))


def not_compared(
    op: str, reason: Reason, detail: str = "", golden: TensorRef | None = None
) -> Comparison:
    """An output that was not compared for *reason*."""
    return Comparison(op, TensorIO.OUTPUT, 0, golden, reason=reason, detail=detail)
