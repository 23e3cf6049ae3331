"""The functions a model defines, and how far calls of them are expanded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from importers.kept import told_of
from importers.names import MAX_BODY_OPS, MAX_DEPTH, Expansion

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto, NodeProto


def function_key(node: NodeProto) -> str:
    """What a node's function is found by: its domain, name and overload."""
    return _key(node.domain, node.op_type, getattr(node, "overload", ""))


def _key(domain: str, name: str, overload: str) -> str:
    domain_name = "" if domain == "ai.onnx" else domain
    return f"{domain_name}::{name}" + (f"::{overload}" if overload else "")


class Functions:
    """The functions of *model*; a model may define a standard op anew."""

    def __init__(self, model: ModelProto) -> None:
        self._functions: dict[str, FunctionProto] = {
            _key(function.domain, function.name, getattr(function, "overload", "")): function
            for function in model.functions
        }
        self._expansion = Expansion()

    def enter(self, key: str, chain: tuple[str, ...], op: str) -> FunctionProto | None:
        """The function *key* for the call *op* inside the functions *chain*; None to leave it."""
        function = self._functions.get(key)
        if function is None or not self._expansion.enters(key, len(function.node), chain, op):
            return None
        return function

    def can_be_expanded(self) -> bool:
        """Whether all calls together stay within bounds: a runtime expands them all."""
        calls = {
            key: [function_key(node) for node in _all_nodes(function.node)]
            for key, function in self._functions.items()
        }
        sizes: dict[str, int] = {}
        for start in calls:
            stack = [start]
            while stack:
                key = stack[-1]
                open_ = [call for call in calls[key] if call in calls and call not in sizes]
                if not open_:
                    sizes[stack.pop()] = sum(1 + sizes.get(call, 0) for call in calls[key])
                elif open_[0] in stack or len(stack) > MAX_DEPTH:
                    return False
                else:
                    stack.append(open_[0])
        return all(size <= MAX_BODY_OPS for size in sizes.values())

    def warnings(self) -> list[str]:
        """What was not expanded, as lines for the user."""
        uncalled = sorted(self._functions.keys() - self._expansion.called)
        what = "local {function is|functions are} called by nothing and {was|were} left out"
        return [*self._expansion.warnings(), *told_of(uncalled, what)]


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterable[NodeProto]:
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        for attr in node.attribute:
            for graph in [attr.g] if attr.HasField("g") else attr.graphs:
                waiting.extend(graph.node)
