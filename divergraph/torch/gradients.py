"""The gradients by what a call took, measured where autograd hands them on.

A call may become several nodes of autograd, and a tensor it took may be read by others, whose
gradients are added to its own. So hooks are put on those nodes of the call that hand something to
the nodes of its inputs: what goes along these edges is the call's own share, and nothing else.
Nothing is put between the nodes, so that sums are added in the order they always were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.autograd.graph import get_gradient_edge

from importers.msprobe.calls import BY_ARGUMENT

Edge: TypeAlias = tuple[Any, int]
Save: TypeAlias = Callable[[Sequence[torch.Tensor | None], Mapping[str, torch.Tensor]], None]
"""Takes the gradients by the outputs in order, and those by inputs, by place."""


def edges_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, Edge]:
    """Where autograd hands on the gradient by each of *tensors*, by place; to be asked for before
    a call, which may change a tensor in place."""
    found = {}
    for place, tensor in tensors.items():
        if tensor.requires_grad:
            edge = get_gradient_edge(tensor)
            found[place] = (edge.node, edge.output_nr)
    return found


def watch(
    inputs: Mapping[str, Edge], outputs: Sequence[torch.Tensor], save: Save, *, by_node: bool
) -> Callable[[], None] | None:
    """Call *save* when all gradients of a call went by, with those by *inputs*.

    With *by_node* the gradients of a call that is one node are called as its node has them: their
    place is the number among all. Returns what saves those that went by until then; None where
    nothing will.
    """
    roots: list[Edge | None] = []
    for tensor in outputs:
        edge = get_gradient_edge(tensor) if tensor.requires_grad else None
        roots.append(None if edge is None else (edge.node, edge.output_nr))
    wanted: dict[Edge, list[str]] = {}
    for place, edge_in in inputs.items():
        wanted.setdefault(edge_in, []).append(place)
    ends = {node for node, _ in wanted}
    nodes = list(dict.fromkeys(root[0] for root in roots if root is not None))
    if not nodes or any(node in ends for node in nodes):
        return None  # it gives out what it took
    nodes = _between(nodes, ends) if wanted else nodes
    is_one = by_node and len(nodes) == 1
    places: dict[Any, dict[int, str]] = {}
    for node in nodes:
        for at, edge_out in enumerate(node.next_functions):
            # What stands in two places of a call of several nodes has no gradient of its own there.
            if len(wanted.get(edge_out, ())) == 1 or (is_one and edge_out in wanted):
                name = wanted[edge_out][0]
                place = str(at) if is_one else f"{BY_ARGUMENT}{name}" if by_node else name
                places.setdefault(node, {})[at] = place
    gathered = _Gathered(len(roots), save)
    for node in nodes:
        ports = {root[1]: at for at, root in enumerate(roots) if root and root[0] is node}
        if ports or node in places:
            gathered.expect(node, ports, places.get(node, {}))
    return gathered.finish


def _between(roots: Sequence[Any], ends: set[Any]) -> list[Any]:
    """The nodes from *roots* on until *ends*."""
    seen = dict.fromkeys(roots)
    stack = list(roots)
    while stack:
        for node, _ in stack.pop().next_functions:
            if node is not None and node not in ends and node not in seen:
                seen[node] = None
                stack.append(node)
    return list(seen)


class _Gathered:
    def __init__(self, outputs: int, save: Save) -> None:
        self._incoming: list[torch.Tensor | None] = [None] * outputs
        self._outgoing: dict[str, torch.Tensor] = {}
        self._save = save
        self._expected = 0
        self._is_begun = self._is_done = False

    def expect(self, node: Any, ports: Mapping[int, int], places: Mapping[int, str]) -> None:
        """Wait for *node*, which has these outputs of the call and hands on to these places."""
        self._expected += 1

        def fired(by_inputs: Sequence[Any], by_outputs: Sequence[Any]) -> None:
            if self._is_done:  # a graph that is gone through twice
                return
            self._is_begun = True
            for port, at in ports.items():
                self._incoming[at] = by_outputs[port]
            for at, place in places.items():
                gradient = by_inputs[at]
                if gradient is not None:
                    before = self._outgoing.get(place)
                    with torch._C.DisableTorchFunction(), torch.no_grad():
                        self._outgoing[place] = gradient if before is None else before + gradient
            self._expected -= 1
            if not self._expected:
                self.finish()

        node.register_hook(fired)

    def finish(self) -> None:
        """Save what went by; once, whether or not all did."""
        if self._is_begun and not self._is_done:
            self._is_done = True
            self._save(self._incoming, self._outgoing)
            self._incoming, self._outgoing = [], {}
