"""Constants of a TensorFlow model, and its variables as they are before the step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from divergraph.execute.contract import Array
from graphstore.errors import ExecutionError
from graphstore.model import ModelGraph, Op
from importers.tensorflow.types import tensor_value
from importers.tensorflow.whole_messages import whole_graph

VALUE = "\nvalue"
"""Behind the name of a constant of a branch: the value by itself, whether or not it is taken."""


class TensorFlowConstants:
    """Constants by tensor name, read from the model's file when one is asked for.

    Constants *in_branches* have their names with :data:`VALUE` behind them. *variables* gives the
    values of variables by op.
    """

    def __init__(
        self, graph: ModelGraph, in_branches: Iterable[str], variables: Mapping[str, Array]
    ) -> None:
        self._graph = graph
        branches = set(in_branches)
        self._ops: dict[str, Op] = {}
        for op in graph.ops:
            if op.type == "Const" and op.outputs:
                name = op.outputs[0].name
                self._ops[name + VALUE if op.id in branches else name] = op
        variable_names = set(variables)
        self._values = variables
        self._variables = {op.outputs[0].name: op for op in graph.ops if op.id in variable_names}
        self._read: dict[str, Array] = {}

    def __contains__(self, tensor: object) -> bool:
        return tensor in self._ops or tensor in self._variables

    def __getitem__(self, tensor: str) -> Array:
        """The value of one.

        Raises:
            ExecutionError: texts and the like, or the file holds another model now.
        """
        if tensor in self._variables:
            return self._values[self._variables[tensor].id]
        if tensor not in self._read:
            node = self.node(self._ops[tensor].id)
            self._read[tensor] = tensor_value(node.attr["value"].tensor)
        return self._read[tensor]

    def nbytes(self, tensor: str) -> int:
        """The size of one, as far as the graph says it."""
        declared = (self._variables.get(tensor) or self._ops[tensor]).outputs[0]
        sizes = [size or 1 for size in declared.shape or ()]
        kind = declared.dtype.numpy if declared.dtype is not None else None
        return int(np.prod(sizes, dtype=np.int64)) * (kind.itemsize if kind is not None else 4)

    def node(self, op: str) -> Any:
        """The NodeDef of an op.

        Raises:
            ExecutionError: the file holds another model now.
        """
        return self._definition[1][op][0]

    def called(self, op: str, role: str) -> Any:
        """The FunctionDef that an op calls in a *role*, as its body is called in the graph.

        Raises:
            ExecutionError: there is none, or the file holds another model now.
        """
        name = _called(self.node(op), role)
        library = self._definition[0].library.function
        function = next((function for function in library if function.signature.name == name), None)
        if function is None:
            raise ExecutionError(f"the model has no function {name!r}", where=self._graph.source)
        return function

    @cached_property
    def _definition(self) -> tuple[Any, Mapping[str, Any]]:
        definition = whole_graph(Path(self._graph.source), self._graph)
        if definition is None:
            raise ExecutionError("the file has changed since it was read", where=self._graph.source)
        return definition


def _called(node: Any, role: str) -> str:
    """The name of the function that *node* calls in a *role*."""
    if role in node.attr:
        return str(node.attr[role].func.name)
    name, _, at = role.rpartition("_")
    if name in node.attr and at.isdecimal():
        return str(node.attr[name].list.func[int(at)].name)
    return str(node.op)
