"""A device run made by running an Ascend graph itself: op by op, rounded, dumped as devices dump.

Each op computes by its definition from what was made before it, in float32; its outputs are rounded
to their types. A fault changes what one op makes, and all behind it reads that. Weights are the
offline model's, or drawn. Ops without a definition put out drawn values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from divergraph.execute.contract import RunnableSubgraph
from divergraph.execute.translate.ge.readings import read_as
from divergraph.values.array_types import Array
from divergraph.verification.alone import LoneOps, fed, graph_of, inputs_of, opened
from divergraph.verification.operands import DumpedOperands, Operand
from graphstore.model import AttrValue, DType, ModelGraph, Op, Tensor
from graphstore.traverse.topological_order import graph_arrays
from importers.dumps.index import DumpIndex
from importers.layouts import from_layout
from importers.number_formats import DTYPES, layout_number
from importers.proto.messages import dump_data_pb2

Fault = Callable[[Array], Array]
_MADE_NOTHING = frozenset({"NetOutput", "Send", "Recv", "NoOp", "AtomicAddrClean", "End"})
_GIVEN = frozenset({"Data", "Const", "Constant", "Variable", "PlaceHolder", "FrameworkOp"})
_NUMBERS = {kind: number for number, kind in DTYPES.items() if number}


def plain_shape(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a tensor in the framework's order; unknown sizes are 1."""
    shape = (tensor.origin.shape if tensor.origin is not None else None) or tensor.shape or ()
    return tuple(size or 1 for size in shape)


def plain_layout(tensor: Tensor) -> str:
    """The order of its axes there."""
    found = tensor.origin.layout if tensor.origin is not None else tensor.layout
    return found or "ND"


@dataclass
class _Values(DumpedOperands):
    """The values of the tensors made so far, as if they had been dumped."""

    made: dict[tuple[str, int], Array] = field(default_factory=dict)

    def output(self, op: Op, port: int) -> Operand | None:
        tensor = op.outputs[port]
        shape = plain_shape(tensor)
        return Operand(shape, plain_layout(tensor), tensor.dtype, array=np.zeros(shape))

    def input(self, op: Op, at: int) -> Operand | None:
        ref = op.inputs[at]
        if (
            ref is None
            or ref.producer is None
            or (ref.producer.op, ref.producer.port) not in self.made
        ):
            return None
        value = self.made[ref.producer.op, ref.producer.port]
        tensor = self._ops[ref.producer.op].outputs[ref.producer.port]
        return Operand(value.shape, plain_layout(tensor), tensor.dtype, array=value)


@dataclass
class DeviceProgram:
    """The graph of a device with its weights, ready to run."""

    graph: ModelGraph
    weights: Mapping[str, Array] = field(default_factory=dict)
    seed: int = 7
    wrong_attrs: Mapping[str, Mapping[str, AttrValue]] = field(default_factory=dict)
    uncovered: dict[str, str] = field(default_factory=dict)
    """Ops that no definition computes, and why; found by :meth:`run`."""

    def run(
        self,
        faults: Mapping[str, Fault] | None = None,
        attrs: Mapping[str, Mapping[str, AttrValue]] | None = None,
    ) -> dict[tuple[str, int], Array]:
        """The value of each output by op and port. *faults* change the first output of ops; *attrs*
        are attributes with which ops compute in place of their own."""
        self.wrong_attrs = attrs or {}
        draws = np.random.default_rng(self.seed)
        values = _Values(self.graph, DumpIndex())
        ops = self.graph.op_index()
        for op in (ops[each] for each in graph_arrays(self.graph).ids):
            outputs = self._given(op, draws) or self._computed(op, values)
            if outputs is None:
                outputs = [self._drawn(tensor, draws) for tensor in op.outputs]
            if faults and op.id in faults:
                outputs[0] = faults[op.id](outputs[0])
            for port, (value, tensor) in enumerate(zip(outputs, op.outputs, strict=True)):
                values.made[op.id, port] = _held(value, tensor.dtype)
        return values.made

    def _given(self, op: Op, draws: np.random.Generator) -> list[Array] | None:
        if op.id in self.weights:
            return [np.asarray(self.weights[op.id])]
        return [self._drawn(each, draws) for each in op.outputs] if op.type in _GIVEN else None

    def _drawn(self, tensor: Tensor, draws: np.random.Generator) -> Array:
        shape = plain_shape(tensor)
        value = draws.normal(size=shape)
        # Weights keep the size of what they are multiplied with.
        return value / np.sqrt(max(np.prod(shape[1:]), 1)) if tensor.layout != "NCHW" else value

    def _computed(self, op: Op, values: _Values) -> list[Array] | None:
        if op.type in _MADE_NOTHING or not op.outputs:
            return [np.zeros(plain_shape(each)) for each in op.outputs]
        lone = LoneOps(values, frozenset({op.id}))
        if op.id not in lone.ops:
            self.uncovered[op.id] = lone.left_out[op.id]
            return None
        alone = lone.ops[op.id]
        read = read_as(alone.op, {**alone.ways.attrs[0], **self.wrong_attrs.get(op.id, {})})
        wanted = tuple(each.name for each in read.outputs)
        with closing(opened(graph_of(self.graph, [read], inputs_of([alone])))) as executor:
            piece = RunnableSubgraph(op.id, tuple(alone.inputs), wanted)
            (result,) = executor.run_subgraphs([piece], lambda _: fed(alone), memory=1 << 28)
        if result.failure:
            self.uncovered[op.id] = result.failure
            return None
        return [result.values[name] for name in wanted]


def _held(value: Array, kind: DType | None) -> Array:
    return value if kind is None or kind.numpy is None else value.astype(kind.numpy)


def write_dump(
    graph: ModelGraph,
    values: Mapping[tuple[str, int], Array],
    folder: Path,
    *,
    inputs: bool = True,
) -> None:
    """One file an op as a device writes it in dump mode "all" (or "output", without *inputs*), in
    the layouts of the graph."""
    folder.mkdir(parents=True, exist_ok=True)
    ops = graph.op_index()
    for op in graph.ops:
        if op.type in _GIVEN | _MADE_NOTHING:
            continue
        header, data = dump_data_pb2.DumpData(version=b"2.0", dump_time=1), list[bytes]()
        for ref in op.inputs if inputs else ():
            if ref is not None and ref.producer is not None:
                tensor = ops[ref.producer.op].outputs[ref.producer.port]
                value = values[ref.producer.op, ref.producer.port]
                data.append(_written(header.input.add(), tensor, value))
        for port, tensor in enumerate(op.outputs):
            data.append(_written(header.output.add(), tensor, values[op.id, port]))
        name = op.id.translate(str.maketrans("./\\ ", "____"))
        head = header.SerializeToString()
        file = folder / f"{op.type}.{name}.1.1.1600000000000001"
        file.write_bytes(len(head).to_bytes(8, "little") + head + b"".join(data))


def _written(message: object, tensor: Tensor, value: Array) -> bytes:
    layout, _, groups = (tensor.layout or "ND").partition(":")
    plain = plain_layout(tensor)
    stored = value
    if layout not in (plain, "ND"):
        if value.ndim == 1 and len(plain) == len("NCHW"):  # one number a channel
            value = value.reshape([-1 if axis == "C" else 1 for axis in plain])
        stored = from_layout(value, plain, layout, groups=int(groups or 1))
    message.data_type = _NUMBERS[DType(stored.dtype.name)]
    message.format = layout_number(layout)
    message.shape.dim.extend(stored.shape)
    message.original_shape.dim.extend(value.shape)
    message.size = stored.nbytes
    return np.ascontiguousarray(stored).tobytes()


def write_weights(values: Mapping[tuple[str, int], Array], graph: ModelGraph, folder: Path) -> None:
    """The constants as ``.npy`` files named after their ops."""
    folder.mkdir(parents=True, exist_ok=True)
    for op in graph.ops:
        if op.type.startswith("Const"):
            np.save(folder / f"{op.id.replace('/', '_')}.npy", values[op.id, 0])
