"""Device ops that stand alone, each with inputs of its own: a graph that needs no golden side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from divergraph.execute.contract import Array, Executor, RunnableSubgraph
from divergraph.execute.installed import open_by
from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.executor import DeviceOpsFactory
from divergraph.execute.translate.ge.fused import ELEMENTWISE, computing_type, inputs_order
from divergraph.execute.translate.ge.readings import OpReadings, read_as, readings
from divergraph.execute.translate.ge.table import LAYOUTS
from divergraph.execute.translate.piece import UNREAD
from divergraph.execute.translate.torch.alone import ALONE, calls_alone
from divergraph.execute.translate.torch.executor import TorchCallsFactory
from divergraph.rootcause.values import is_numeric, relative, same_shape
from divergraph.values.unread import Unread
from divergraph.verification.operands import DumpedOperands, Operand, dumped
from graphstore.model import Framework, GraphKind, InputRef, ModelGraph, Op, Tensor, TensorRef

_TOLD_WHOLE = frozenset({"Linear", "Linear.backward", "Embedding"})
"""Modules that their weights and inputs define. Of others a dump does not say how they are set, and
gradients of parameters may be sums over several calls."""
_WRITES_IN_PLACE = ("Apply", "Assign", "SGD")


@dataclass(frozen=True, slots=True)
class LoneOp:
    """One device op: ``op`` reads only inputs of the graph, ``inputs`` by tensor name."""

    op: Op
    inputs: Mapping[str, Operand]
    outputs: Mapping[int, Operand]
    ways: OpReadings


@dataclass
class LoneOps:
    """The ops of *operands*' graph that can be run by themselves, and why others cannot."""

    operands: DumpedOperands
    only: frozenset[str] | None = None
    ops: dict[str, LoneOp] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """By op id, of ops whose outputs were dumped: why they are not run."""
    unread: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By op id, the tensors an op reads whose values are nowhere."""

    def __post_init__(self) -> None:
        if self.operands.graph.has_guessed_edges:
            self._add_calls()
            return
        for op in self.operands.graph.ops:
            if self.only is not None and op.id not in self.only:
                continue
            outputs = {
                port: operand
                for port in range(len(op.outputs))
                if (operand := self.operands.output(op, port)) is not None
            }
            if not outputs:
                continue
            try:
                self.ops[op.id] = self._alone(op, outputs)
            except NotTranslatedError as error:
                self.left_out[op.id] = str(error)

    def _add_calls(self) -> None:
        """The calls of a recorded run, which stand alone as they are."""
        calls = calls_alone(self.operands.graph)
        for op in calls.graph.ops:
            outputs = {
                port: operand
                for port in range(len(op.outputs))
                if (operand := self.operands.output(op, port)) is not None
            }
            if not outputs or (self.only is not None and op.id not in self.only):
                continue
            if op.attrs.get("kind") == "Module" and op.type not in _TOLD_WHOLE:
                self.left_out[op.id] = "the dump does not say how a module is set"
                continue
            names = [ref.tensor for ref in op.inputs if ref is not None]
            refs = {name: self.operands.dump.tensors.get(calls.sources[name]) for name in names}
            read = {name: None if ref is None else dumped(ref, None) for name, ref in refs.items()}
            inputs = {name: operand for name, operand in read.items() if operand is not None}
            self.unread[op.id] = tuple(name for name in names if name not in inputs)
            self.ops[op.id] = LoneOp(op, inputs, outputs, OpReadings(({},)))

    def _alone(self, op: Op, outputs: Mapping[int, Operand]) -> LoneOp:
        inputs: dict[str, Operand] = {}
        refs: list[InputRef | None] = []
        layouts: list[str] = []
        shapes: list[tuple[int, ...] | None] = []
        unread: list[str] = []
        for at, ref in enumerate(op.inputs):
            operand = None if ref is None else self.operands.input(op, at)
            if operand is not None and _overwritten(op, at, operand, outputs):
                raise NotTranslatedError(f"its dumped input {at} is what it wrote there")
            unread.append("" if ref is None or operand is not None else ref.tensor)
            name = f"{op.id} < {at}"
            refs.append(None if operand is None else InputRef(name))
            layouts.append("" if operand is None else operand.layout)
            shapes.append(None if operand is None else operand.shape)
            if operand is not None:
                inputs[name] = operand
        self.unread[op.id] = tuple(filter(None, unread))
        tensors = tuple(
            replace(
                tensor,
                name=f"{op.id} > {port}",
                shape=outputs[port].shape if port in outputs else _origin_shape(tensor),
                layout=outputs[port].layout if port in outputs else tensor.layout,
            )
            for port, tensor in enumerate(op.outputs)
        )
        order = inputs_order(op)
        shapes = [shapes[at] for at in order]
        attrs = {
            **op.attrs,
            LAYOUTS: tuple(layouts[at] for at in order),
            UNREAD: tuple(unread[at] for at in order),
        }
        alone = replace(
            *(op,),
            type=computing_type(op, ELEMENTWISE),
            inputs=tuple(refs[at] for at in order),
            control_inputs=(),
            outputs=tensors,
            attrs=attrs,
            subgraph="",
            owns=(),
        )
        if not inputs:
            missing = [ref.tensor for ref in op.inputs if ref is not None]
            why = f"its input 0, {missing[0]}, was not dumped" if missing else "it reads nothing"
            raise NotTranslatedError(why)
        return LoneOp(alone, inputs, outputs, readings(alone, shapes))


def _origin_shape(tensor: Tensor) -> tuple[int | None, ...] | None:
    return tensor.origin.shape if tensor.origin is not None else tensor.shape


def _overwritten(op: Op, at: int, operand: Operand, outputs: Mapping[int, Operand]) -> bool:
    """Whether a dumped input of an optimiser is what it wrote: dumps are taken after the op ran."""
    output = outputs.get(at)
    if output is None or not op.type.startswith(_WRITES_IN_PLACE) or output.shape != operand.shape:
        return False
    one, other = operand.read(), output.read()
    if isinstance(one, Unread) or isinstance(other, Unread):
        return False
    return np.array_equal(one, other, equal_nan=True)


def graph_of(source: ModelGraph, ops: Iterable[Op], inputs: Iterable[Tensor]) -> ModelGraph:
    """The graph of *ops* that stand alone."""
    recorded = source.has_guessed_edges
    return ModelGraph(
        source.name,
        GraphKind.DEVICE,
        source.framework if recorded else Framework.ASCEND,
        ALONE if recorded else "ops alone",
        tuple(ops),
        inputs=tuple(inputs),
        source=source.source,
        sha256=source.sha256,
    )


def inputs_of(ops: Iterable[LoneOp]) -> list[Tensor]:
    """The inputs of ops as a graph declares them."""
    return [
        Tensor(name, operand.dtype, operand.shape, operand.layout)
        for op in ops
        for name, operand in op.inputs.items()
    ]


def opened(graph: ModelGraph) -> Executor:
    """What runs a graph of ops that stand alone."""
    factory = TorchCallsFactory() if graph.format == ALONE else DeviceOpsFactory()
    return open_by(factory, Path(graph.source or "."), graph, {})


@dataclass(frozen=True, slots=True)
class ChosenOps:
    """The ``ops`` as they are to be read, by id, and whether other readings may be true (``open``
    ops)."""

    ops: Mapping[str, LoneOp]
    open: frozenset[str]


def chosen_readings(source: ModelGraph, lone: Mapping[str, LoneOp], memory: int) -> ChosenOps:
    """*lone* ops, each read in the way that gives its dumped outputs best."""
    several = {op: lone_op for op, lone_op in lone.items() if len(lone_op.ways.attrs) > 1}
    best = _best(source, several, memory) if several else {}
    lone_ops = {
        op: replace(lone_op, op=read_as(lone_op.op, lone_op.ways.attrs[best.get(op, 0)]))
        for op, lone_op in lone.items()
    }
    return ChosenOps(
        lone_ops, frozenset(op for op, lone_op in lone.items() if lone_op.ways.is_open)
    )


def _best(source: ModelGraph, several: Mapping[str, LoneOp], memory: int) -> dict[str, int]:
    """By op the number of the reading whose outputs are nearest to the dumped ones."""
    variants: dict[str, tuple[str, int]] = {}
    ops: list[Op] = []
    for op_id, lone in several.items():
        for number, attrs in enumerate(lone.ways.attrs):
            name = f"{op_id} ~ {number}"
            variants[name] = (op_id, number)
            tensors = tuple(replace(t, name=f"{name} > {p}") for p, t in enumerate(lone.op.outputs))
            ops.append(replace(read_as(lone.op, attrs), id=name, outputs=tensors))
    graph = graph_of(source, ops, inputs_of(several.values()))
    pieces = [
        RunnableSubgraph(
            op.id,
            tuple(several[variants[op.id][0]].inputs),
            tuple(op.outputs[port].name for port in several[variants[op.id][0]].outputs),
        )
        for op in ops
    ]
    closest: dict[str, tuple[float, int]] = {}
    executor = opened(graph)
    try:
        for result in executor.run_subgraphs(
            pieces, lambda piece: fed(several[variants[piece.key][0]]), memory=memory
        ):
            op_id, number = variants[result.key]
            lone = several[op_id]
            values = list(result.values.values())
            if len(values) != len(lone.outputs):
                continue
            distance = max(map(_distance, values, lone.outputs.values()))
            if op_id not in closest or distance < closest[op_id][0]:
                closest[op_id] = (distance, number)
    finally:
        executor.close()
    return {op: number for op, (_, number) in closest.items()}


def fed(lone: LoneOp) -> dict[str, Array]:
    """The values of an op's inputs; those that cannot be read are missing."""
    values = {name: operand.read() for name, operand in lone.inputs.items()}
    return {name: value for name, value in values.items() if not isinstance(value, Unread)}


def _distance(computed: Array, dumped: Operand) -> float:
    device = dumped.read()
    if isinstance(device, Unread):
        return float("inf")
    fitting = same_shape(device, computed.shape)
    if fitting is None or not (is_numeric(fitting) and is_numeric(computed)):
        return float("inf")
    return relative(fitting, computed)


def outputs_of(ops: Mapping[str, LoneOp]) -> Sequence[TensorRef]:
    """The outputs that were dumped."""
    return [TensorRef(op, port) for op, lone_op in ops.items() for port in lone_op.outputs]
