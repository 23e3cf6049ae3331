"""A run of device ops against themselves, as root cause judges a run against golden ops."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from divergraph.execute.contract import Executor
from divergraph.graphs.pairing import Pair
from divergraph.metrics.metrics import every_metric
from divergraph.rootcause.devices.quantisers import NO_QUANTISERS
from divergraph.rootcause.groups.group_runs import GroupRuns
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.run_inputs import RunInputs, RunSources
from divergraph.values.array_types import Array
from divergraph.values.kept import KeptArrays
from divergraph.values.run_values import RunValues
from divergraph.values.tensor_pair import TensorPair
from divergraph.values.unread import Unread
from divergraph.verification.alone import LoneOp
from divergraph.verification.operands import Operand
from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
    Counts,
    LineageRule,
    Method,
    ModelGraph,
    Run,
    TensorIO,
    TensorMatch,
    TensorRef,
    Verdict,
)
from importers.dumps.index import DumpIndex

_EQUAL = every_metric(0.0, cosine_similarity=1.0)


class OwnValues(RunValues):
    """The device's outputs and what each op read; both sides of the run are the device's."""

    def __init__(
        self,
        pairs: Mapping[TensorRef, TensorPair],
        outputs: Mapping[TensorRef, Operand],
        inputs: Mapping[str, Operand],
        dump: DumpIndex,
        memory: int,
    ) -> None:
        shapes = {ref: operand.shape for ref, operand in outputs.items()}
        super().__init__(pairs, shapes, dump, dump, memory)
        self._outputs, self._inputs = outputs, inputs
        self._arrays = KeptArrays(memory)

    def device(self, output: TensorRef) -> Array | None:
        """The device's output."""
        return self._read(output, self._outputs.get(output))

    def golden(self, ref: TensorRef) -> Array | None:
        """The device's output as well: there is no other side."""
        return self.device(ref)

    def graph_input(self, name: str) -> Array | None:
        """What an op read."""
        return self._read(name, self._inputs.get(name))

    def device_input(self, name: str) -> Array | None:
        """What an op read; not asked for twice, as both sides are the same."""
        return None if name not in self._inputs else np.zeros(0, np.float32)

    def golden_input(self, name: str) -> Array | None:
        """As :meth:`device_input`."""
        return self.device_input(name)

    def _read(self, key: TensorRef | str, operand: Operand | None) -> Array | None:
        if operand is None:
            return None
        value = self._arrays.get(key, operand.read)
        return None if isinstance(value, Unread) else value


def prepared(
    device: ModelGraph,
    alone: ModelGraph,
    ops: Mapping[str, LoneOp],
    dump: DumpIndex,
    executor: Executor,
    options: RootCauseOptions,
) -> PreparedRun:
    """The run of *ops*, whose graph is *alone*, on the values of *dump*; *device* is their own
    graph."""
    graph = OpGraph(alone)
    outputs = {
        TensorRef(op, p): operand for op, own in ops.items() for p, operand in own.outputs.items()
    }
    inputs = {name: operand for own in ops.values() for name, operand in own.inputs.items()}
    compared = {
        ref: Comparison(
            *(ref.op, TensorIO.OUTPUT, ref.port, ref, LineageRule.SAME_NAME),
            metrics=_EQUAL,
            shape=operand.shape,
            device_dtype=operand.dtype,
            golden_dtype=operand.dtype,
        )
        for ref, operand in outputs.items()
    }
    pairs = [
        Pair(
            graph.ops[ref.op],
            TensorIO.OUTPUT,
            ref.port,
            TensorMatch(ref, ref, LineageRule.SAME_NAME),
            operand.ref,
            operand.ref,
            operand.layout,
            operand.layout,
        )
        for ref, operand in outputs.items()
        if operand.ref is not None
    ]
    tensors = {TensorRef(pair.op.id, pair.port): pair.tensors for pair in pairs}
    values = OwnValues(tensors, outputs, inputs, dump, options.memory // 4)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    counts = Counts(len(ops), len(outputs), len(outputs), 0, 0)
    run = Run("", alone.id, device.id, now, Verdict.CLEAN, Method.ROOT_CAUSE, counts, {})
    data = RunData(run, alone, device, (), tuple(compared.values()), {}, ())
    path = Path(device.source or ".")
    sources = RunSources(path, path, dump, dump, pairs)
    own = RunInputs(data, sources, data.comparisons, lambda _: None)
    runs = GroupRuns(executor, graph, values, compared, options.memory)
    return PreparedRun(
        *(own, executor, options, graph, graph, values, compared, runs), NO_QUANTISERS
    )
