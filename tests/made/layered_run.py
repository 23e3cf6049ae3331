"""A run of layers with two origins and a NaN, as comparison and as analysis leave it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
    Counts,
    DeviceArithmetic,
    DType,
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
    RunAnalysis,
    Tensor,
    TensorIO,
    TensorRef,
    Verdict,
)

LIMITS = {"cosine_similarity": 0.99, "relative_euclidean_distance": 0.05}
HOSTILE = "[red]m[/]\x1b[2J\x1b]52;c;cm0=\x07\x9b31m\u202erow\nfake"
LAYER = ("MatMul", "Softmax", "Cast", "BatchMatMul", "Add", "LayerNorm")


@dataclass(frozen=True)
class MadeOp:
    """One device op of the made run; ``error`` is its relative error, None: not compared."""

    name: str
    type: str
    error: float | None
    state: OpState
    originals: tuple[str, ...]


def made_ops(layers: int = 6, model: str = "model") -> list[MadeOp]:
    """Layers of six ops; an error starts in layer_2, one more in layer_4, a NaN in layer_5."""
    ops = []
    for layer in range(layers):
        for part in LAYER:
            name = f"{model}/layer_{layer}/{part}"
            state, error = OpState.CLEAN, 1e-4 * (1 + layer)
            if (layer, part) in {(2, "Softmax"), (4, "LayerNorm")}:
                state, error = OpState.ORIGIN, 0.27 if layer == 2 else 0.19
            elif layer > 2 or (layer == 2 and part in {"BatchMatMul", "Add", "LayerNorm"}):
                state, error = OpState.INHERITED, 0.24 - 0.01 * layer
            elif layer == 1 and part == "Add":
                state, error = OpState.DRIFTING, 0.02
            if (layer, part) == (5, "BatchMatMul"):
                state, error = OpState.BROKEN, math.nan
            originals = (f"{name}/core", f"{name}/bias") if part == "MatMul" else (name,)
            if part == "Cast":
                state, error, originals = OpState.NOT_COMPARED, None, ()
            ops.append(MadeOp(name, part, error, state, originals))
    return ops


def metrics_of(error: float) -> MetricSet:
    """Ten metrics that fit a relative error."""
    return MetricSet(
        cosine_similarity=1.0 - error**2 / 2,
        max_absolute_error=error,
        accumulated_relative_error=error * 10,
        relative_euclidean_distance=error,
        kullback_leibler_divergence=error / 100,
        standard_deviation=(0.1, 0.9, 0.1, 0.9),
        mean_absolute_error=error / 4,
        root_mean_square_error=error / 3,
        max_relative_error=error * 4,
        mean_relative_error=error,
        elements=98304,
        device_nonfinite=12 if math.isnan(error) else 0,
    )


def made_run(
    name: str = "14",
    layers: int = 6,
    created: str = "2026-01-31T14:02:03Z",
    model: str = "model",
) -> RunData:
    """The run as the store takes it."""
    made = made_ops(layers, model)
    names = [op.name for op in made]
    device_ops = tuple(_device_op(op, names, at) for at, op in enumerate(made))
    originals = [original for op in made for original in op.originals]
    golden_ops = tuple(
        Op(original, original, "Op", outputs=(_tensor(original, DType.FLOAT32),), sequence=at)
        for at, original in enumerate(originals)
    )
    comparisons = tuple(_comparison(op) for op in made)
    origins = tuple(
        _origin(rank, op, comparisons)
        for rank, op in enumerate((o for o in made if o.state is OpState.ORIGIN), start=1)
    )
    compared = sum(item.compared for item in comparisons)
    run = Run(
        name=name,
        golden="bert_base.onnx@111111111111",
        device="bert_base_npu@222222222222",
        created=created,
        verdict=Verdict.DIVERGED if origins else Verdict.CLEAN,
        method=Method.THRESHOLDS,
        counts=Counts(
            ops=len(made),
            tensors=len(made),
            compared=compared,
            over=sum(item.over for item in comparisons),
            not_compared=len(made) - compared,
        ),
        thresholds=LIMITS,
    )
    return RunData(
        run=run,
        golden=_graph("bert_base.onnx", GraphKind.ORIGINAL, Framework.ONNX, golden_ops, "1" * 64),
        device=_graph("bert_base_npu", GraphKind.DEVICE, Framework.ASCEND, device_ops, "2" * 64),
        links=tuple(
            LineageLink(op.name, original, LineageRule.ORIGINAL_NAMES)
            for op in made
            for original in op.originals
        ),
        comparisons=comparisons,
        states={op.name: op.state for op in made},
        origins=origins,
    )


ROLES = {
    OpState.ORIGIN: (Role.INTRODUCES, Guilt.GUILTY),
    OpState.INHERITED: (Role.CARRIES, Guilt.NONE),
    OpState.BROKEN: (Role.AMPLIFIES, Guilt.NONE),
    OpState.DRIFTING: (Role.INTRODUCES, Guilt.SUSPECT),
    OpState.CLEAN: (Role.CLEAN, Guilt.NONE),
}
CAUSE = "bias missing in channels 8-15"


def analysed_run(name: str = "15") -> RunData:
    """The made run as root-cause analysis leaves it: two origins, one suspect, one cause."""
    data = made_run(name)
    comparisons = tuple(_analysed(item, data.states[item.op]) for item in data.comparisons)
    by_op = {item.op: item for item in comparisons}
    first, *others = [_accused(origin, by_op[origin.op]) for origin in data.origins]
    suspect = next(op for op in made_ops() if op.state is OpState.DRIFTING)
    finding = Finding(
        FindingKind.CAUSE,
        "lost_bias",
        CAUSE,
        first.op,
        port=0,
        confidence=0.92,
        evidence={"channels": [8, 15]},
    )
    analysis = RunAnalysis(executor="onnxruntime 1.31.1", arithmetic=DeviceArithmetic("fp16"))
    return replace(
        data,
        run=replace(data.run, method=Method.ROOT_CAUSE, analysis=analysis),
        comparisons=comparisons,
        origins=(replace(first, cause=CAUSE), *others),
        suspects=(_accused(_origin(1, suspect, comparisons), by_op[suspect.name]),),
        findings=(finding,),
    )


def _analysed(item: Comparison, state: OpState) -> Comparison:
    if item.metrics is None or item.golden is None:
        return item
    role, guilt = ROLES[state]
    error = item.metrics.relative_euclidean_distance
    own = {Guilt.GUILTY: error, Guilt.SUSPECT: 0.0021, Guilt.NONE: 0.0004}[guilt]
    group = [item.golden.op] if "LayerNorm" not in item.op else ["mean", "norm", item.golden.op]
    split = ErrorSplit(
        role,
        guilt,
        introduced=own,
        propagated=math.nan if math.isnan(error) else max(0.0, error - own),
        floor=0.0003,
        suspicion=own / 0.0003,
        amplification=1.02,
        group=tuple(group),
        reference="onnxruntime 1.31.1",
    )
    return replace(item, split=split)


def _accused(origin: Origin, item: Comparison) -> Origin:
    assert item.split is not None
    return replace(origin, suspicion=item.split.suspicion)


def _tensor(name: str, dtype: DType) -> Tensor:
    return Tensor(f"{name}:0", dtype, (1, 12, 128, 64), "ND")


def _graph(
    name: str, kind: GraphKind, framework: Framework, ops: tuple[Op, ...], sha256: str
) -> ModelGraph:
    return ModelGraph(name, kind, framework, "made", ops, sha256=sha256)


def _device_op(op: MadeOp, names: list[str], at: int) -> Op:
    inputs = [InputRef(f"{names[at - 1]}:0", TensorRef(names[at - 1], 0))] if at else []
    if op.type == "Add" and at >= 4:
        inputs.append(InputRef(f"{names[at - 4]}:0", TensorRef(names[at - 4], 0)))
    return Op(
        op.name,
        op.name,
        op.type,
        inputs=tuple(inputs),
        outputs=(_tensor(op.name, DType.FLOAT16),),
        attrs={"axes": (-1,), "half_to_float": False} if op.type == "Softmax" else {},
        original_names=op.originals,
        sequence=at,
    )


def _comparison(op: MadeOp) -> Comparison:
    base = Comparison(op.name, TensorIO.OUTPUT, 0)
    if op.error is None:
        return replace(base, reason=Reason.INSERTED)
    metrics = metrics_of(op.error)
    failed = tuple(
        metric
        for metric, over in (
            (Metric.COSINE_SIMILARITY, not metrics.cosine_similarity >= 0.99),
            (Metric.RELATIVE_EUCLIDEAN_DISTANCE, not op.error <= 0.05),
        )
        if over
    )
    level = Level.FAIL if failed else Level.WARN if op.error > 0.01 else Level.PASS
    return replace(
        base,
        golden=TensorRef(op.originals[-1], 0),
        rule=LineageRule.ORIGIN_OUTPUT,
        metrics=metrics,
        level=level,
        failed=failed,
        shape=(1, 12, 128, 64),
        device_dtype=DType.FLOAT16,
        golden_dtype=DType.FLOAT32,
        device_path="dump/op",
        golden_path="golden/op.npy",
    )


def _origin(rank: int, op: MadeOp, comparisons: tuple[Comparison, ...]) -> Origin:
    item = next(item for item in comparisons if item.op == op.name)
    assert item.metrics is not None
    return Origin(
        rank, op.name, op.type, 0, (TensorRef(op.originals[-1], 0),), item.metrics, Level.FAIL
    )
