"""Runs and graphs of any shape, with nothing in them but what the shape needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from full_run import feed, metric_set, not_compared

from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
    Counts,
    Framework,
    GraphKind,
    InputRef,
    Level,
    LineageLink,
    LineageRule,
    Method,
    ModelGraph,
    Op,
    OpState,
    Reason,
    Run,
    Tensor,
    TensorIO,
    TensorRef,
    Verdict,
)


def shaped_run(
    name: str,
    edges: Iterable[tuple[str, str]],
    errors: Mapping[str, bool | None],
) -> RunData:
    """A run over ops named in *errors*: True is over, False is fine, None is unmeasured."""
    device = shaped_graph(f"{name}_graph", edges, errors)
    golden = ModelGraph(f"{name}_golden", GraphKind.ORIGINAL, Framework.ONNX, "onnx", ())
    comparisons = []
    states = {}
    for op, over in errors.items():
        if over is None:
            comparisons.append(not_compared(op, Reason.NO_DEVICE_DUMP))
            states[op] = OpState.NOT_COMPARED
        else:
            level = Level.FAIL if over else Level.PASS
            comparisons.append(
                Comparison(
                    op, TensorIO.OUTPUT, 0, None, None, metric_set(2.0 if over else 0.0), level
                )
            )
            states[op] = OpState.INHERITED if over else OpState.CLEAN
    run = Run(
        name,
        golden.id,
        device.id,
        "2026-01-01T00:00:00Z",
        Verdict.DIVERGED,
        Method.THRESHOLDS,
        Counts(len(errors), len(errors), 0, 0, 0),
        {},
    )
    return RunData(run, golden, device, (), tuple(comparisons), states, ())


def chain_run(name: str, graph: str, ops: int) -> RunData:
    """A run over two chains of *ops* ops, linked one to one; half of them are measured."""
    names = [f"op{number}" for number in range(ops)]
    edges = list(pairwise(names))
    device = shaped_graph(f"{graph} device", edges, names)
    golden = shaped_graph(graph, edges, names)
    comparisons = tuple(
        Comparison(
            op,
            TensorIO.OUTPUT,
            0,
            TensorRef(op, 0),
            LineageRule.SAME_NAME,
            metric_set(),
            Level.PASS,
        )
        if number % 2
        else not_compared(op, Reason.NO_DEVICE_DUMP)
        for number, op in enumerate(names)
    )
    states = {
        op: OpState.CLEAN if number % 2 else OpState.NOT_COMPARED for number, op in enumerate(names)
    }
    links = tuple(LineageLink(op, op, LineageRule.SAME_NAME, 0, 0) for op in names)
    run = Run(
        name,
        golden.id,
        device.id,
        "2026-01-01T00:00:00Z",
        Verdict.CLEAN,
        Method.THRESHOLDS,
        Counts(ops, ops, 0, 0, 0),
        {},
    )
    return RunData(run, golden, device, links, comparisons, states, ())


def shaped_graph(
    name: str,
    edges: Iterable[tuple[str, str]],
    ops: Iterable[str],
    control: Iterable[tuple[str, str]] = (),
) -> ModelGraph:
    """A graph of one-output ops with the given edges, in the given file order."""
    inputs: dict[str, list[InputRef]] = {op: [] for op in ops}
    waits: dict[str, list[str]] = {op: [] for op in inputs}
    for source, target in edges:
        inputs[target].append(feed(source))
    for source, target in control:
        waits[target].append(source)
    return ModelGraph(
        name,
        GraphKind.DEVICE,
        Framework.ONNX,
        "onnx",
        tuple(
            Op(op, op, "Add", tuple(refs), tuple(waits[op]), (Tensor(f"{op}:0"),))
            for op, refs in inputs.items()
        ),
    )
