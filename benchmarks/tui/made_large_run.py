"""A made run of many ops, for ``large_run.py``."""

from __future__ import annotations

import math
import random
import time
from datetime import UTC, datetime

from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
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
    Reason,
    Run,
    Tensor,
    TensorIO,
    TensorRef,
)
from graphstore.traverse.algorithms import first_diverging
from graphstore.traverse.measured_ops import measured_ops, over_ops
from graphstore.traverse.topological_order import graph_arrays

NAME = "large"
LIMITS = {"cosine_similarity": 0.99, "relative_euclidean_distance": 0.05}
BLOCK = ("Query", "Key", "Value", "Scores", "Softmax", "Context", "Cast", "Add", "Norm", "Gelu")
READS = ((10, 3), (10, 3), (10, 3), (3, 2), (1,), (1, 4), (1,), (1, 10), (1,), (1, 2))
"""How far back in execution order each op of a block reads."""
TYPES = ("MatMul", "MatMul", "MatMul", "BatchMatMul", "Softmax", "BatchMatMul", "Cast", "Add")
MEASURED = 0.6
FAULTY_LAYERS = 40
"""One layer in so many has an op that adds an error of its own."""


def op_names(count: int) -> list[str]:
    """Names as exporters make them: ten ops a block, ten blocks a layer."""
    return [
        f"model/layer_{place // 100}/block_{place // 10 % 10}/{BLOCK[place % 10]}"
        for place in range(count)
    ]


def made_graph(names: list[str], kind: GraphKind) -> ModelGraph:
    """Chains with branches and residual adds, one output an op."""
    device = kind is GraphKind.DEVICE
    dtype = DType.FLOAT16 if device else DType.FLOAT32
    ops = []
    for place, name in enumerate(names):
        part = place % len(BLOCK)
        sources = [names[place - back] for back in READS[part] if place >= back]
        inserted = device and BLOCK[part] == "Cast"
        ops.append(
            Op(
                name,
                name,
                TYPES[part] if part < len(TYPES) else BLOCK[part],
                inputs=tuple(InputRef(f"{one}:0", TensorRef(one, 0)) for one in sources),
                outputs=(Tensor(f"{name}:0", dtype, (1, 12, 128, 64), "ND"),),
                attrs={"axis": -1} if BLOCK[part] == "Softmax" else {},
                original_names=(() if inserted else (name,)) if device else None,
                sequence=place,
            )
        )
    framework = Framework.ASCEND if device else Framework.ONNX
    sha256 = ("2" if device else "1") * 64
    return ModelGraph(f"large_{kind}", kind, framework, "made", tuple(ops), sha256=sha256)


def made_metrics(error: float) -> MetricSet:
    """Ten metrics that fit a relative error."""
    return MetricSet(
        cosine_similarity=1.0 - error**2 / 2,
        max_absolute_error=error * 3,
        accumulated_relative_error=error * 10,
        relative_euclidean_distance=error,
        kullback_leibler_divergence=error / 100,
        standard_deviation=(0.1, 0.9, 0.1, 0.9),
        mean_absolute_error=error / 4,
        root_mean_square_error=error / 3,
        max_relative_error=error * 4,
        mean_relative_error=error,
        elements=98304,
        device_nonfinite=7 if math.isnan(error) else 0,
    )


def made_comparison(name: str, error: float | None) -> Comparison:
    """The comparison of an op's only output; *error* None: its dump is missing."""
    if error is None:
        inserted = name.endswith("Cast")
        reason = Reason.INSERTED if inserted else Reason.NO_DEVICE_DUMP
        return Comparison(name, TensorIO.OUTPUT, 0, reason=reason)
    metrics = made_metrics(error)
    over = not error <= LIMITS["relative_euclidean_distance"]
    return Comparison(
        name,
        TensorIO.OUTPUT,
        0,
        golden=TensorRef(name, 0),
        rule=LineageRule.ORIGIN_OUTPUT,
        metrics=metrics,
        level=Level.FAIL if over else Level.WARN if error > 0.01 else Level.PASS,
        failed=(Metric.RELATIVE_EUCLIDEAN_DISTANCE,) if over else (),
        shape=(1, 12, 128, 64),
        device_dtype=DType.FLOAT16,
        golden_dtype=DType.FLOAT32,
        device_path=f"dump/{name.replace('/', '_')}.1.2.3",
        golden_path=f"golden/{name.replace('/', '_')}.npy",
    )


def made_errors(count: int, rng: random.Random) -> list[float | None]:
    """A relative error for each op: some layers add one, the next ones damp it out."""
    errors: list[float | None] = []
    carried = 0.0
    for place in range(count):
        layer, inside = divmod(place, 100)
        faulty = layer % FAULTY_LAYERS == FAULTY_LAYERS // 2
        carried = 0.3 if faulty and inside == 4 else carried * 0.999
        known = rng.random() < MEASURED / 0.9 and BLOCK[place % 10] != "Cast"
        error = 1e-4 * rng.uniform(0.5, 1.5) + carried
        errors.append(error if known or (faulty and inside == 4) else None)
    return errors


def made_run(count: int) -> RunData:
    """A run of *count* device ops with its real origins, states and verdict."""
    from divergraph.thresholds import verdicts

    names = op_names(count)
    device, golden = made_graph(names, GraphKind.DEVICE), made_graph(names, GraphKind.ORIGINAL)
    errors = made_errors(count, random.Random(7))
    comparisons = tuple(map(made_comparison, names, errors))
    links = tuple(
        LineageLink(name, name, LineageRule.ORIGIN_OUTPUT, 0, 0)
        for name in names
        if not name.endswith("Cast")
    )
    arrays = graph_arrays(device)
    measured, over = measured_ops(arrays, comparisons), over_ops(arrays, comparisons)
    first = [arrays.ids[number] for number in first_diverging(arrays, measured, over).tolist()]
    outputs = verdicts.outputs_by_op(comparisons)
    origins = verdicts.describe_origins(first, device.op_index(), comparisons, links)
    counts = verdicts.count(count, comparisons)
    run = Run(
        name=NAME,
        golden=golden.id,
        device=device.id,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        verdict=verdicts.verdict(counts, origins, comparisons),
        method=Method.THRESHOLDS,
        counts=counts,
        thresholds=LIMITS,
    )
    states = verdicts.op_states(arrays.ids, outputs, frozenset(first))
    return RunData(run, golden, device, links, comparisons, states, origins)


def make(store_url: str, count: int) -> None:
    """Keep the made run in the store."""
    from graphstore.open_store import open_store

    start = time.monotonic()
    data = made_run(count)
    with open_store(store_url) as store:
        store.save_run(data, replace=True)
    counts, took = data.run.counts, time.monotonic() - start
    print(f"{counts.ops} ops, {counts.compared} compared, {counts.over} over, ", end="")
    print(f"{len(data.origins)} origins: made and kept in {took:.1f} s")
