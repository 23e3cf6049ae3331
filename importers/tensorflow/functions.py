"""Which functions of a graph's library its ops call, and how their arguments meet the op's.

Sources: tensorflow/core/ops/functional_ops.cc (what If, While, Case, ... pass on) and
tensorflow/core/framework/function.proto (how bodies name tensors).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from importers.proto.messages import tf_graph_pb2 as pb
from importers.tensorflow.outputs import OutputArg, declared_outputs

Attrs = Mapping[str, pb.AttrValue]


@dataclass(frozen=True, slots=True)
class CallSite:
    """One function an op calls.

    ``first`` is the op's input that the function's first argument takes, None where arguments
    do not come from inputs one by one. ``feeds`` is true if its results are the op's outputs.
    """

    role: str
    function: str
    first: int | None = None
    feeds: bool = False
    skip: int = 0
    """Leading arguments that come from no input (the counter of For)."""
    attrs: Attrs = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Convention:
    first: int | None
    feeds: bool
    skip: int = 0


_PLAIN = _Convention(0, feeds=True)
_BRANCH = _Convention(1, feeds=True)
_DECIDES = _Convention(0, feeds=False)
_LOOSE = _Convention(None, feeds=False)
_CONVENTIONS: Mapping[tuple[str, str], _Convention] = {
    ("PartitionedCall", "f"): _PLAIN,
    ("StatefulPartitionedCall", "f"): _PLAIN,
    ("TPUPartitionedCall", "f"): _PLAIN,
    ("BatchFunction", "f"): _PLAIN,
    ("XlaLaunch", "function"): _LOOSE,
    ("RemoteCall", "f"): _BRANCH,  # the target device comes first
    ("SymbolicGradient", "f"): _DECIDES,
    ("If", "then_branch"): _BRANCH,
    ("If", "else_branch"): _BRANCH,
    ("Case", "branches"): _BRANCH,
    ("While", "cond"): _DECIDES,
    ("While", "body"): _PLAIN,
    ("For", "body"): _Convention(3, feeds=True, skip=1),
}


class Library:
    """The functions of a graph by name; *nodes* outside may call them as ops of their own."""

    def __init__(self, functions: Iterable[pb.FunctionDef]) -> None:
        self._functions = {function.signature.name: function for function in functions}
        self._called: set[str] = set()
        self.outputs: dict[str, tuple[OutputArg, ...]] = {
            name: declared_outputs(function.signature) for name, function in self._functions.items()
        }

    def find(self, name: str) -> pb.FunctionDef | None:
        """The function of that name."""
        return self._functions.get(name)

    def calls(self, node: pb.NodeDef) -> Iterator[CallSite]:
        """The functions *node* calls, in the order of its attributes (If: then before else)."""
        if node.op in self._functions:
            self._called.add(node.op)
            yield CallSite("f", node.op, 0, feeds=True, attrs=node.attr)
        kind = node.op.removeprefix("_").removeprefix("Stateless")
        found = [(name, value) for name, value in node.attr.items() if _is_call(value)]
        for name, value in sorted(found, key=lambda item: (item[0] == "else_branch", item[0])):
            one = value.WhichOneof("value") == "func"
            functions = [value.func] if one else value.list.func
            for at, function in enumerate(functions):
                if function.name in self._functions:
                    self._called.add(function.name)
                    how = _CONVENTIONS.get((kind, name)) or _CONVENTIONS.get(
                        (node.op, name), _LOOSE
                    )
                    role = name if one else f"{name}_{at}"
                    yield CallSite(
                        *(role, function.name, how.first, how.feeds, how.skip), function.attr
                    )

    def uncalled(self) -> list[str]:
        """The functions nothing called."""
        return sorted(self._functions.keys() - self._called)


def _is_call(value: pb.AttrValue) -> bool:
    kind = value.WhichOneof("value")
    return kind == "func" or (kind == "list" and bool(value.list.func))


def filled_in(value: pb.AttrValue, attrs: Attrs) -> pb.AttrValue:
    """*value*, or what the caller gives for the placeholder it is."""
    if value.WhichOneof("value") == "placeholder" and value.placeholder in attrs:
        return attrs[value.placeholder]
    return value
