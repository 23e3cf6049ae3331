"""Variables taken after ops of the step changed them: no edge of the graph carries the new value.

A training step updates its variables, and what runs behind the update (a moving average of
the weights, a learning rate's next value) reads them anew. Only control inputs say so. What a
variable of the old kind hands on is not even copied: an ``Identity`` read before the update
holds what the update left, for those that take it behind. Where no order is said between a read and
an update of one step, nobody can tell what was read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from divergraph.execute.tensorflow.branches import HANDLES, READS, VARIABLES, changes_variable
from graphstore.model import Framework, InputRef, ModelGraph, Op, TensorRef
from graphstore.traverse.topological_order import lowest_first

_PASSES_REF = frozenset(("RefEnter", "RefIdentity", "RefSwitch"))
_SHARES_MEMORY = frozenset(
    {
        *("Identity", "Enter", "Switch", "Reshape", "Squeeze", "ExpandDims"),
        *("StopGradient", "PreventGradient", *_PASSES_REF),
    }
)


@dataclass(frozen=True, slots=True)
class LateRead:
    """The ops whose changes an op sees, or may see, though it does not take what they make, in the
    order they run. ``taken`` is what they take themselves: with it the op can be run again; None
    where that is not enough. Not ``ordered``, nothing says whether the op runs before or behind
    them."""

    writers: tuple[str, ...]
    taken: tuple[InputRef, ...] | None
    ordered: bool = True


def late_reads(graph: ModelGraph) -> dict[str, LateRead]:
    """The ops of a TensorFlow *graph* that take a variable after the step changed it, or while it
    does."""
    return _Finder(graph).found() if graph.framework is Framework.TENSORFLOW else {}


class _Finder:
    def __init__(self, graph: ModelGraph) -> None:
        self._graph = graph
        self._ops = graph.op_index()
        owners = {body.name: body.owner for body in graph.subgraphs}
        self._calls: set[str] = set()
        """Ops that change variables in their bodies."""
        for op in graph.ops:
            inside = op.subgraph if changes_variable(op.type) else ""
            while inside and owners[inside] not in self._calls:
                self._calls.add(owners[inside])
                inside = self._ops[owners[inside]].subgraph
        self._writes: dict[str, frozenset[str]] = {}
        for op in graph.ops:
            if not op.subgraph and (changed := frozenset(self._changed(op))):
                self._writes[op.id] = changed
        self._order = list(self._writes)
        self._bit = {writer: 1 << at for at, writer in enumerate(self._order)}
        self._users: dict[str, list[str]] = {}
        self._makers: dict[str, list[str]] = {}
        for op in graph.ops:
            data = (ref.op for ref in op.takes)
            for source in dict.fromkeys((*data, *op.control_inputs)) if not op.subgraph else ():
                self._users.setdefault(source, []).append(op.id)
                self._makers.setdefault(op.id, []).append(source)
        self._place = self._places()
        self._before = self._spread(self._users, 1)
        """By op, in bits, the writers that have run before it."""

    def found(self) -> dict[str, LateRead]:
        seen: dict[str, tuple[str, ...]] = {}
        for op in (self._ops[op_id] for op_id in self._before):
            bits = 0
            for ref in op.inputs:
                if ref is not None and (variable := self._variable(ref, _SHARES_MEMORY)):
                    bits |= self._unseen(op, ref, variable)
            if bits:
                seen[op.id] = tuple(self._named(bits))
        late = {op_id: LateRead(w, self._taken(op_id, w, seen)) for op_id, w in seen.items()}
        return {**late, **self._unordered()}

    def _unordered(self) -> dict[str, LateRead]:
        """The ops of the step that take a variable of which an op of it, too, makes another value,
        neither before nor behind them."""
        step = self._step()
        ahead = self._spread(self._makers, -1) if step else {}
        writers: dict[str, list[str]] = {}
        for writer, variables in self._writes.items():
            for variable in variables if writer in step else ():
                writers.setdefault(variable, []).append(writer)
        reads: dict[str, LateRead] = {}
        for op in (self._ops[op_id] for op_id in step if op_id not in self._writes):
            assigned = {self._variable(ref, _SHARES_MEMORY) for ref in op.inputs if ref is not None}
            others = [writer for name in assigned for writer in writers.get(name, ())]
            ordered = self._before.get(op.id, 0) | ahead.get(op.id, 0)
            free = tuple(other for other in others if not ordered & self._bit[other])
            if free and op.type not in _PASSES_REF:
                reads[op.id] = LateRead(free, None, ordered=False)
        return reads

    def _step(self) -> frozenset[str]:
        """The ops of the training step that the model names; none if it names none."""
        listed = self._graph.attrs.get("collection train_op", ())
        ends = listed if isinstance(listed, tuple) else ()
        return self._behind_of(str(end).partition(":")[0] for end in ends)

    def _behind_of(self, ends: Iterable[str]) -> frozenset[str]:
        """The ops *ends* of the root graph, and all that run before them."""
        ops_behind: set[str] = set()
        waiting = [end for end in ends if end in self._ops]
        while waiting:
            op = self._ops[waiting.pop()]
            if op.id not in ops_behind:
                ops_behind.add(op.id)
                waiting += [*(ref.op for ref in op.takes), *op.control_inputs]
        return frozenset(ops_behind)

    def _changed(self, op: Op) -> Iterator[str]:
        """The variables *op* changes."""
        if not changes_variable(op.type) and op.id not in self._calls:
            return
        for ref in op.inputs:
            variable = self._variable(ref, _PASSES_REF) if ref is not None else ""
            if variable:
                yield variable

    def _variable(self, ref: InputRef, through: frozenset[str]) -> str:
        """The variable *ref* is, or shares its memory with; empty if none."""
        producer = ref.producer
        while producer is not None:
            op = self._ops[producer.op]
            if op.type in VARIABLES:
                return op.id
            producer = op.source() if op.type in through else None
        return ""

    def _unseen(self, op: Op, ref: InputRef, variable: str) -> int:
        """The changes of *variable* before *op* that came after *ref* was made."""
        assert ref.producer is not None
        bits = sum(
            1 << at
            for at, writer in enumerate(self._order)
            if self._before[op.id] >> at & 1 and variable in self._writes[writer]
        )
        maker = ref.producer.op
        return bits if self._ops[variable].type in HANDLES else bits & ~self._before.get(maker, 0)

    def _named(self, bits: int) -> Iterator[str]:
        """Writers in the order they run."""
        chosen = [writer for at, writer in enumerate(self._order) if bits >> at & 1]
        yield from sorted(chosen, key=lambda op_id: self._before.get(op_id, 0).bit_count())

    def _places(self) -> dict[str, int]:
        """The ops' places in an order in which they can run; those in or after loops come last."""
        ids = [op.id for op in self._graph.ops if not op.subgraph] if self._writes else []
        number = {op_id: at for at, op_id in enumerate(ids)}
        pairs = [
            (number[maker], number[user])
            for maker, users in self._users.items()
            for user in users
            if maker in number
        ]
        order = lowest_first(len(ids), [pair[0] for pair in pairs], [pair[1] for pair in pairs])
        return {ids[at]: place for place, at in enumerate(order)}

    def _spread(self, edges: Mapping[str, Sequence[str]], direction: int) -> dict[str, int]:
        """By op, in bits, the writers it is reached from along *edges*. Taken in the order they
        run, or against it, each op but those of loops is looked at once."""
        bits_of: dict[str, int] = {}
        last = len(self._place)
        waiting = [
            (direction * self._place.get(neighbour, last), neighbour) for neighbour in self._order
        ]
        heapify(waiting)
        while waiting:
            _, op_id = heappop(waiting)
            bits = bits_of.get(op_id, 0) | self._bit.get(op_id, 0)
            for neighbour in edges.get(op_id, ()):
                before = bits_of.get(neighbour, 0)
                if before | bits != before:
                    bits_of[neighbour] = before | bits
                    heappush(waiting, (direction * self._place.get(neighbour, last), neighbour))
        return bits_of

    def _taken(
        self, op_id: str, writers: tuple[str, ...], seen: Mapping[str, tuple[str, ...]]
    ) -> tuple[InputRef, ...] | None:
        """What *writers* take, if a read behind them can be run with them."""
        alone = self._ops[op_id].type == READS and not self._calls & set(writers)
        if not alone or any(set(seen.get(writer, ())) - set(writers) for writer in writers):
            return None
        refs: dict[InputRef, None] = {}
        for ref in (
            ref for writer in writers for ref in self._ops[writer].inputs if ref is not None
        ):
            variable = self._variable(ref, _PASSES_REF)
            before = first_read(self._graph, variable, seen) if variable else ref
            if before is not None:
                refs[before] = None
        return tuple(refs)


def first_read(graph: ModelGraph, variable: str, late: Container[str]) -> InputRef | None:
    """What reads the resource *variable* before the step changes it, of ops that are not *late*;
    None if nothing does."""
    for op in graph.ops:
        source = op.source() if op.type == READS and op.id not in late else None
        if source is not None and source.op == variable and not op.subgraph:
            return InputRef(op.outputs[0].name, TensorRef(op.id, 0))
    return None
