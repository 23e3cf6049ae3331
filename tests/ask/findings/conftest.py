"""Small device graphs and dumps, written and read like real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divergraph.metrics.limits.thresholds import Thresholds
from divergraph.metrics.measure import measure
from divergraph.metrics.metrics import overflow_flag
from divergraph.thresholds.starts import starts_by_limits
from divergraph.thresholds.verdicts import (
    count,
    describe_origins,
    op_states,
    outputs_by_op,
    verdict,
)
from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
    DType,
    DumpFormat,
    DumpTensorRef,
    Framework,
    GraphKind,
    InputRef,
    Method,
    ModelGraph,
    Op,
    Run,
    Tensor,
    TensorIO,
    TensorRef,
)
from graphstore.traverse.topological_order import graph_arrays
from importers.dumps.index import DumpIndex, OverflowRecord


@dataclass
class DumpFolder:
    """Raw tensors in files of one folder."""

    folder: Path
    tensors: dict[tuple[str, TensorIO, int], DumpTensorRef] = field(default_factory=dict)
    overflows: tuple[OverflowRecord, ...] = ()

    def add(self, op: str, values: Any, io: TensorIO = TensorIO.OUTPUT, port: int = 0, **of: Any):
        array = np.ascontiguousarray(values)
        path = self.folder / f"{op}.{io}.{port}"
        path.write_bytes(array.tobytes())
        self.tensors[op, io, port] = DumpTensorRef(
            path,
            DumpFormat.ASCEND_V2,
            op,
            io,
            port,
            DType(array.dtype.name),
            array.shape,
            0,
            array.nbytes,
            **of,
        )

    def takes(self, op: str, values: Any, port: int = 0, **of: Any) -> None:
        self.add(op, values, TensorIO.INPUT, port, **of)

    @property
    def index(self) -> DumpIndex:
        return DumpIndex(self.tensors, files=len(self.tensors), overflows=self.overflows)


@pytest.fixture
def dump(tmp_path: Path) -> DumpFolder:
    folder = tmp_path / "first"
    folder.mkdir()
    return DumpFolder(folder)


@pytest.fixture
def second(tmp_path: Path) -> DumpFolder:
    folder = tmp_path / "second"
    folder.mkdir()
    return DumpFolder(folder)


@pytest.fixture
def device_graph() -> Callable[..., ModelGraph]:
    """Makes a graph of (name, type, names of the ops it takes output 0 of)."""

    def make(*ops: tuple[str, str, Sequence[str]]) -> ModelGraph:
        made = [
            Op(
                name,
                name,
                kind,
                inputs=tuple(InputRef(f"{source}:0", TensorRef(source, 0)) for source in sources),
                outputs=(Tensor(f"{name}:0", DType.FLOAT16),),
                sequence=number,
            )
            for number, (name, kind, sources) in enumerate(ops)
        ]
        return ModelGraph("g", GraphKind.DEVICE, Framework.ASCEND, "test", tuple(made))

    return make


@pytest.fixture
def run_of() -> Callable[..., RunData]:
    """Makes a finished run, judged by thresholds, of a graph and (device, golden) by op."""
    limits = Thresholds()

    def make(graph: ModelGraph, pairs: Mapping[str, tuple[Any, Any]], **of: Any) -> RunData:
        arrays = graph_arrays(graph)
        ops = graph.op_index()
        comparisons = tuple(_compared(ops[name], *pairs[name], limits) for name in pairs)
        outputs = outputs_by_op(comparisons)
        first = starts_by_limits(arrays, graph, comparisons, outputs).origins
        origins = describe_origins(first, ops, comparisons, ())
        counts = count(len(ops), comparisons)
        found = verdict(counts, origins, comparisons)
        run = Run("r", graph.id, graph.id, "", found, Method.THRESHOLDS, counts, {}, **of)
        states = op_states(arrays.ids, outputs, frozenset(first))
        return RunData(run, graph, graph, (), comparisons, states, origins)

    return make


def _compared(op: Op, device: Any, golden: Any, limits: Thresholds) -> Comparison:
    x, y = np.asarray(device), np.asarray(golden)
    found = measure(x, y)
    types = DType(x.dtype.name), DType(y.dtype.name)
    judged = limits.judge(
        found.metrics, found.figures, device=types[0], golden=types[1], op_type=op.type
    )
    return Comparison(
        op.id,
        TensorIO.OUTPUT,
        0,
        TensorRef(op.id, 0),
        metrics=found.metrics,
        figures=found.figures,
        level=judged.level,
        failed=judged.failed,
        limit=judged.limit,
        shape=y.shape,
        device_dtype=types[0],
        golden_dtype=types[1],
        overflow=overflow_flag(x),
    )
