"""Runs an ONNX model op by op, so that a fault can be put in anywhere.

Every op is an ONNX Runtime session of its own with all optimisations off, opened once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from faults import Array, NodeEdit
from onnx import numpy_helper
from onnx.helper import np_dtype_to_tensor_dtype

After = Callable[[onnx.NodeProto, str, Array], Array]
"""What a device makes of each output an op has computed: node, tensor name, value."""


def unchanged(_node: onnx.NodeProto, _name: str, value: Array) -> Array:
    """The value as computed."""
    return value


@dataclass(frozen=True)
class Injection:
    """A fault at one op: another op in its place, or other values behind it."""

    node: int
    edit: NodeEdit | None = None
    values: Callable[[Array], Array | None] | None = None


@dataclass
class OpRunner:
    """One model, node by node; ``constants`` are its initializers and Constant nodes."""

    model: onnx.ModelProto
    after: After = unchanged
    constants: dict[str, Array] = field(default_factory=dict)
    _sessions: dict[int, onnxruntime.InferenceSession] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for tensor in self.model.graph.initializer:
            self.constants[tensor.name] = numpy_helper.to_array(tensor)
        self.nodes = in_order(self.model.graph)
        for node in self.nodes:
            if node.op_type == "Constant":
                for attribute in node.attribute:
                    if attribute.name == "value":
                        self.constants[node.output[0]] = numpy_helper.to_array(attribute.t)

    @classmethod
    def of(cls, path: Path, after: After = unchanged) -> OpRunner:
        """The model in a file."""
        return cls(onnx.load_model(str(path)), after)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Every tensor, inputs and constants among them, by name."""
        values = {"": np.zeros(0), **self.constants, **feeds}
        for number in range(len(self.nodes)):
            values.update(self._outputs(number, values))
        return values

    def rerun(self, values: Mapping[str, Array], fault: Injection) -> dict[str, Array] | None:
        """As :meth:`run`, from a clean run's *values* on; None if the fault does nothing."""
        new = dict(values)
        changed: set[str] = set()
        for number in range(fault.node, len(self.nodes)):
            node = self.nodes[number]
            if number == fault.node:
                made = self._faulty(number, new, fault)
                if made is None:
                    return None
            elif changed.intersection(names_read(node)):
                made = self._outputs(number, new)
            else:
                continue
            different = [name for name, value in made.items() if not _same(value, new[name])]
            new.update(made)
            changed.update(different)
        return new if changed else None

    def edit_of(self, number: int) -> NodeEdit:
        """Node *number* with its constant inputs."""
        node = self.nodes[number]
        return NodeEdit(
            node, {name: self.constants[name] for name in node.input if name in self.constants}
        )

    def _faulty(
        self, number: int, values: Mapping[str, Array], fault: Injection
    ) -> dict[str, Array] | None:
        node = self.nodes[number]
        if fault.edit is not None:
            given = {**values, **fault.edit.constants}
            session = self._open(fault.edit.node, given, fault.edit.constants)
            made = self._after(node, run_node(session, fault.edit.node, given))
            first = node.output[0]
            return made if made[first].shape == values[first].shape else None
        made = self._outputs(number, values)
        assert fault.values is not None
        wrong = fault.values(made[node.output[0]])
        if wrong is None:
            return None
        made[node.output[0]] = wrong
        return made

    def _outputs(self, number: int, values: Mapping[str, Array]) -> dict[str, Array]:
        node = self.nodes[number]
        if node.op_type == "Constant":
            return {name: values[name] for name in node.output if name in values}
        if number not in self._sessions:
            held = {name: self.constants[name] for name in node.input if name in self.constants}
            self._sessions[number] = self._open(node, values, held)
        return self._after(node, run_node(self._sessions[number], node, values))

    def _after(self, node: onnx.NodeProto, made: dict[str, Array]) -> dict[str, Array]:
        return {name: np.asarray(self.after(node, name, value)) for name, value in made.items()}

    def _open(
        self, node: onnx.NodeProto, values: Mapping[str, Array], held: Mapping[str, Array]
    ) -> onnxruntime.InferenceSession:
        names = [name for name in names_read(node) if name not in held]
        graph = onnx.helper.make_graph(
            [node],
            "op",
            [
                onnx.helper.make_tensor_value_info(
                    name, np_dtype_to_tensor_dtype(values[name].dtype), [None] * values[name].ndim
                )
                for name in names
            ],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
            [numpy_helper.from_array(value, name) for name, value in held.items()],
        )
        model = onnx.helper.make_model(
            graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version
        )
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )


def in_order(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes, each behind those it reads from; converters leave them in any order."""
    made = {name for node in graph.node for name in node.output if name}
    ordered: list[onnx.NodeProto] = []
    known: set[str] = set()
    waiting = list(graph.node)
    while waiting:
        ready = []
        left = []
        for node in waiting:
            if all(name in known or name not in made for name in names_read(node)):
                known.update(node.output)
                ready.append(node)
            else:
                left.append(node)
        if not ready:
            raise ValueError("the nodes of the graph form a circle")
        ordered.extend(ready)
        waiting = left
    return ordered


def names_read(node: onnx.NodeProto) -> list[str]:
    """The tensors a node reads, those its bodies take from outside among them."""
    names = dict.fromkeys(name for name in node.input if name)
    for attribute in node.attribute:
        for body in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            names.update(dict.fromkeys(_captured(body)))
    return list(names)


def _captured(body: onnx.GraphProto) -> Iterator[str]:
    inside = {each.name for each in body.input} | {each.name for each in body.initializer}
    inside.update(name for node in body.node for name in node.output)
    for node in body.node:
        yield from (name for name in names_read(node) if name not in inside)
    yield from (each.name for each in body.output if each.name not in inside)


def run_node(
    session: onnxruntime.InferenceSession, node: onnx.NodeProto, values: Mapping[str, Array]
) -> dict[str, Array]:
    wanted = [name for name in node.output if name]
    given = {each.name: values[each.name] for each in session.get_inputs()}
    made: list[Any] = session.run(wanted, given)
    return {name: np.asarray(value) for name, value in zip(wanted, made, strict=True)}


def _same(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def float_outputs(runner: OpRunner, values: Mapping[str, Array]) -> Iterable[int]:
    """The nodes whose first output is a tensor of floats that depends on the inputs."""
    live = {each.name for each in runner.model.graph.input} - set(runner.constants)
    for number, node in enumerate(runner.nodes):
        if live.intersection(names_read(node)):
            live.update(node.output)
            if values[node.output[0]].dtype.kind == "f":
                yield number
