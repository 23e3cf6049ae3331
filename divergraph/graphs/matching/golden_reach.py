"""Golden tensors downstream of given ones: candidates for what a device op computes from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from divergraph.graphs.lineage.tensor_names import RESHAPING
from graphstore.model import ModelGraph, TensorRef

_DEPTH = 12
"""The longest chain of original ops one device op may be made of."""
_MOST_OPS = 60
"""The most original ops one device op may be made of."""
_PASSING = RESHAPING | {"Cast"}


@dataclass(frozen=True)
class ReachedPart:
    """The golden ops between known tensors and one more: ``needs`` are the known ones used,
    ``graph_inputs`` the names of graph inputs used."""

    output: TensorRef
    ops: tuple[str, ...]
    needs: tuple[TensorRef, ...]
    graph_inputs: frozenset[str]


class GoldenReach:
    """Who uses which golden tensor."""

    def __init__(self, graph: ModelGraph) -> None:
        self.graph = graph
        self.ops = graph.op_index()
        self._inputs = frozenset(tensor.name for tensor in graph.inputs)
        self._fed_to: dict[str, list[str]] = {}
        for op in graph.ops:
            for op_input in op.inputs:
                if op_input is not None and op_input.producer is None:
                    self._fed_to.setdefault(op_input.tensor, []).append(op.id)
        self.users = {ref: [op.id for op in readers] for ref, readers in graph.readers().items()}

    def root(self, ref: TensorRef) -> TensorRef:
        """The tensor whose values *ref* has: *ref* before reshapes and casts."""
        seen: set[str] = set()
        while ref.op not in seen:
            seen.add(ref.op)
            op = self.ops[ref.op]
            source = op.source()
            if op.type not in _PASSING or source is None:
                break
            ref = source
        return ref

    def users_of_values(self, ref: TensorRef) -> Iterator[str]:
        """The ops that use *ref*, directly or after reshapes and casts."""
        stack = [self.root(ref)]
        seen: set[str] = set()
        while stack:
            for user in self.users.get(stack.pop(), ()):
                if user not in seen:
                    seen.add(user)
                    yield user
                    if self.ops[user].type in _PASSING:
                        stack.append(TensorRef(user, 0))

    def behind(
        self,
        inputs: Collection[TensorRef],
        matched_refs: Collection[TensorRef],
        fed: Collection[str] = (),
    ) -> Iterator[ReachedPart]:
        """The parts that compute tensors within a few ops of *inputs* or of the graph inputs *fed*,
        from *matched_refs*."""
        seen: set[str] = set()
        first = [user for ref in inputs for user in self.users.get(ref, ())]
        first += [user for name in fed for user in self._fed_to.get(name, ())]
        level = list(dict.fromkeys(first))
        for _ in range(_DEPTH):
            following: dict[str, None] = {}
            for op_id in level:
                if op_id in seen:
                    continue
                seen.add(op_id)
                op = self.ops[op_id]
                if op.subgraph:
                    continue
                for ref in op.makes:
                    part = None if ref in inputs else self.part(ref, matched_refs)
                    if part is not None and not (
                        part.graph_inputs.isdisjoint(fed) and set(inputs).isdisjoint(part.needs)
                    ):
                        yield part
                    following.update(dict.fromkeys(self.users.get(ref, ())))
            if len(seen) > _MOST_OPS * 4:
                return
            level = list(following)

    def part(self, output: TensorRef, matched_refs: Collection[TensorRef]) -> ReachedPart | None:
        """The ops that compute *output* from *matched_refs* and constants; None if that takes more
        of them."""
        ops: dict[str, None] = {}
        needs: dict[TensorRef, None] = {}
        graph_inputs: set[str] = set()
        stack = [output.op]
        while stack:
            op_id = stack.pop()
            if op_id in ops:
                continue
            ops[op_id] = None
            if len(ops) > _MOST_OPS:
                return None
            op = self.ops[op_id]
            if op.owns:
                return None  # what its bodies take from around them is not listed here
            for ref in op.inputs:
                if ref is None:
                    continue
                if ref.producer is None:
                    if ref.tensor in self._inputs:
                        graph_inputs.add(ref.tensor)
                elif ref.producer in matched_refs:
                    needs[ref.producer] = None
                else:
                    stack.append(ref.producer.op)
        if not needs and not graph_inputs:
            return None
        return ReachedPart(output, tuple(ops), tuple(needs), frozenset(graph_inputs))

    def tensor_name(self, ref: TensorRef) -> str:
        """The name of a tensor in its graph."""
        return self.ops[ref.op].outputs[ref.port].name
