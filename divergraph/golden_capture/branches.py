"""The tensors inside the branches that a model's Ifs took.

A run gives out the tensors of the root graph only. So each branch that was taken is run once
more, as a model of its own, on the tensors it takes from around it; and so on inside.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from divergraph.execute.contract import DEFAULT_MEMORY, Array, Unavailable
from divergraph.execute.installed import open_executor
from divergraph.execute.onnx.files import captured_names, load_model, root_tensors, set_outputs
from graphstore.errors import ExecutionError, ImportFormatError
from graphstore.model import ModelGraph, Op, Subgraph
from importers.registry import read_graph

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

Save = Callable[[Op, int, Array], Path | None]
_IF = "If"
_LARGEST = 2**31 - 1  # bytes of a protobuf message
_NOT_GIVEN = "what happens inside a body is not given out"


@dataclass
class Branches:
    """Runs what the Ifs of *graph*, read from *model*, took.

    *save* keeps an output and says where; values are read from there again when needed.
    ``left_out`` names the bodies that gave nothing, and why.
    """

    model: Path
    graph: ModelGraph
    save: Save
    memory: int = DEFAULT_MEMORY
    left_out: list[Unavailable] = field(default_factory=list)
    _bodies: dict[str, list[Subgraph]] = field(default_factory=dict)
    _made: dict[tuple[str, str], tuple[Op, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for body in self.graph.subgraphs:
            self._bodies.setdefault(body.owner, []).append(body)
        for op in self.graph.ops:
            for port, tensor in enumerate(op.outputs):
                self._made[op.subgraph, tensor.name] = (op, port)

    def run(self, values: Mapping[str, Path]) -> int:
        """Save the tensors of all branches taken; returns how many.

        *values* are the files of the root's tensors and inputs by name.
        """
        if not self.graph.subgraphs:
            return 0
        model = load_model(self.model)
        return sum(self._inside(model, [model.graph], "", values))

    def _inside(
        self,
        model: ModelProto,
        around: Sequence[GraphProto],
        subgraph: str,
        values: Mapping[str, Path],
    ) -> Iterator[int]:
        """The number of tensors saved for each node of the innermost graph of *around*."""
        for node in around[-1].node:
            owner = next(
                (
                    self._made[subgraph, out][0]
                    for out in node.output
                    if (subgraph, out) in self._made
                ),
                None,
            )
            for body in self._bodies.get(owner.id, ()) if owner is not None else ():
                if node.op_type != _IF or node.input[0] not in values:
                    self._leave_out(body, _NOT_GIVEN)
                elif bool(np.load(values[node.input[0]]).reshape(-1)[0]) != (
                    body.role == "then_branch"
                ):
                    self._leave_out(body, "this branch was not taken")
                else:
                    yield from self._branch(model, around, node, body, values)

    def _leave_out(self, body: Subgraph, reason: str) -> None:
        self.left_out.append(Unavailable(body.name, reason))
        for op in self.graph.ops:
            if op.subgraph == body.name:
                for inner in self._bodies.get(op.id, ()):
                    self._leave_out(inner, reason)

    def _branch(
        self,
        model: ModelProto,
        around: Sequence[GraphProto],
        node: NodeProto,
        body: Subgraph,
        values: Mapping[str, Path],
    ) -> Iterator[int]:
        branch = next(attribute.g for attribute in node.attribute if attribute.name == body.role)
        saved: dict[str, Path] = {}
        count = 0
        try:
            for name, value in self._values(model, around, branch, values):
                producer = self._made.get((body.name, name))
                path = None if producer is None else self.save(*producer, value)
                if path is not None:
                    saved[name] = path
                    count += 1
        except (ExecutionError, ImportFormatError, OSError) as error:
            self._leave_out(body, f"the branch does not run by itself: {error}")
            yield count
            return
        yield count
        yield from self._inside(model, [*around, branch], body.name, {**values, **saved})

    def _values(
        self,
        model: ModelProto,
        around: Sequence[GraphProto],
        branch: GraphProto,
        values: Mapping[str, Path],
    ) -> Iterator[tuple[str, Array]]:
        names = _taken(branch)
        feeds = {name: np.load(values[name]) for name in sorted(names) if name in values}
        single = _as_model(model, around, branch, feeds, names - feeds.keys())
        if not single.graph.output:
            return
        if single.ByteSize() > _LARGEST:
            raise ExecutionError("it has more than 2 GiB of weights")
        # beside the model, if possible, so that weights in files of their own are found
        folder = self.model.resolve().parent
        place = folder if os.access(folder, os.W_OK) else None
        with tempfile.NamedTemporaryFile(dir=place, suffix=".onnx") as file:
            file.write(single.SerializeToString())
            file.flush()
            graph = read_graph(Path(file.name))
            executor = open_executor(Path(file.name), graph)
            try:
                yield from executor.run(feeds, executor.tensors, memory=self.memory)
            finally:
                executor.close()


def _taken(branch: GraphProto) -> set[str]:
    """The names a branch takes from around it."""
    from onnx import helper

    return captured_names(helper.make_node(_IF, [], [], then_branch=branch))


def _as_model(
    model: ModelProto,
    around: Sequence[GraphProto],
    branch: GraphProto,
    feeds: Mapping[str, Array],
    weights: set[str],
) -> ModelProto:
    """*branch* as a model that gives every tensor it makes."""
    from onnx import ModelProto, helper

    single = ModelProto(ir_version=max(model.ir_version, 4))
    single.opset_import.extend(model.opset_import)
    single.functions.extend(model.functions)
    graph = single.graph
    graph.name = branch.name or "branch"
    graph.node.extend(branch.node)
    graph.initializer.extend(branch.initializer)
    graph.sparse_initializer.extend(branch.sparse_initializer)
    for outer in around:
        graph.initializer.extend(tensor for tensor in outer.initializer if tensor.name in weights)
        graph.sparse_initializer.extend(
            tensor for tensor in outer.sparse_initializer if tensor.values.name in weights
        )
    for name, value in feeds.items():
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        graph.input.append(helper.make_tensor_value_info(name, kind, [None] * value.ndim))
    set_outputs(single, root_tensors(graph))
    return single
