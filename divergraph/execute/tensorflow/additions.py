"""TensorFlow models with something added to tensors inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from divergraph.execute.contract import Array, RunnableSubgraph
from divergraph.execute.tensorflow.files import first_line, new_session, tensorflow_errors
from divergraph.execute.tensorflow.subgraphs import RunnableSubgraphs
from divergraph.execute.tensorflow.values import as_typed, plain
from graphstore.errors import ExecutionError

_FLOATS = frozenset(("float16", "bfloat16", "float32", "float64"))


class TensorFlowAdditiveRun:
    """A session of what lies between *feeds* and *outputs*, open for additions.

    Each open tensor becomes the sum of itself and a placeholder; what is fed is fed the sum. A
    single zero adds nothing.

    Raises:
        ExecutionError: TensorFlow refuses it, or the outputs need more than is fed.
    """

    def __init__(
        self,
        subgraphs: RunnableSubgraphs,
        feeds: Mapping[str, Array],
        tensors: Sequence[str],
        outputs: Sequence[str],
    ) -> None:
        part = subgraphs.slice_of(RunnableSubgraph("", tuple(feeds), tuple(outputs)))
        definition, self._feeds, _ = subgraphs.definition([part], [feeds])
        self._outputs = list(outputs)
        self._fed = {name: (f"0/given_{at}_:0", feeds[name]) for at, name in enumerate(feeds)}
        made = {
            tensor.name: tensor
            for op in part.ops
            if not subgraphs.in_loop(op)
            for tensor in op.outputs
            if tensor.dtype.name in _FLOATS and tensor.name not in feeds  # _ref types are none
        }
        self._kinds = {name: made[name].dtype for name in tensors if name in made}
        self._sums = {f"0/{name}": _sum_of(name) for name in self._kinds}
        floats = (name for name, value in feeds.items() if value.dtype.kind == "f")
        self.tensors = (*self._kinds, *(name for name in floats if name in set(tensors)))
        _open(definition, self._sums, self._kinds)
        try:
            self._session = new_session(subgraphs.imported(definition))
        except tensorflow_errors() as error:
            raise ExecutionError(f"TensorFlow refuses it: {first_line(error)}") from error

    def run(self, additions: Mapping[str, Array]) -> Mapping[str, Array]:
        """The outputs with *additions* added."""
        with np.errstate(over="ignore", invalid="ignore"):
            added = {
                f"{_added(name)}:0": as_typed(additions.get(name, np.zeros(())), kind)
                for name, kind in self._kinds.items()
            }
            given = {
                name: value + np.asarray(additions[name], value.dtype)
                for name, (_, value) in self._fed.items()
                if name in additions
            }
        changed = {self._fed[name][0]: value for name, value in given.items()}
        wanted = {
            name: self._sums.get(f"0/{name}", f"0/{name}")
            for name in self._outputs
            if name not in self._fed
        }
        try:
            made = self._session.run(wanted, {**self._feeds, **changed, **added})
        except tensorflow_errors() as error:
            raise ExecutionError(f"fails in TensorFlow: {first_line(error)}") from error
        found = {name: plain(value) for name, value in made.items()}
        return {
            name: found[name] if name in found else given.get(name, self._fed[name][1])
            for name in self._outputs
        }


def _added(name: str) -> str:
    op, _, port = name.rpartition(":")
    return f"0/{op}/added_{port}_"


def _sum_of(name: str) -> str:
    op, _, port = name.rpartition(":")
    return f"0/{op}/sum_{port}_:0"


def _open(definition: Any, sums: Mapping[str, str], kinds: Mapping[str, Any]) -> None:
    """Put the sums in the place of the tensors in all nodes of *definition*."""
    for node in definition.node:
        inputs = [sums.get(each, each) for each in node.input]
        del node.input[:]
        node.input.extend(inputs)
    for name, kind in kinds.items():
        given, total = definition.node.add(), definition.node.add()
        given.name, given.op = _added(name), "Placeholder"
        given.attr["dtype"].type = kind.as_datatype_enum
        given.attr["shape"].shape.unknown_rank = True
        total.name, total.op = _sum_of(name).removesuffix(":0"), "Add"
        total.input.extend([f"0/{name}", given.name])
        total.attr["T"].type = kind.as_datatype_enum
