"""Which call of one recorded run is which call of another.

Calls of a kind are numbered as they come, so that one call more or less gives all behind it other
names. Modules are told by their paths. The functions a module calls are aligned in the order of
their calls, by kind, shapes and stack; what calls behind them, ways back and gradients of
parameters belong to, their way there tells.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from divergraph.graphs.lineage.golden_tensors import Counterpart, Unmatched
from divergraph.graphs.lineage.sequences import aligned
from graphstore.model import (
    LineageLink,
    LineageRule,
    ModelGraph,
    Op,
    Reason,
    TensorMatch,
    TensorRef,
)
from importers.dumps.msprobe.entries import PARAMETERS_GRAD
from importers.msprobe.calls import CallName
from importers.msprobe.collectives import GROUP
from importers.msprobe.graph import output_places, own_inputs
from importers.msprobe.job_names import RANK, RANKS, split_rank

_MODULES = ("Module", "Cell")
_WRAPPER = "module"  # DistributedDataParallel and the like call what they wrap so
_OTHER_NAMES = {"dense": "linear", "bidense": "bilinear", "equal": "eq", "swapaxes": "transpose",
                "gather_elements": "gather"}  # fmt: skip
"""What MindSpore calls otherwise than PyTorch."""
_FEWEST = 0.5
"""Share of the device's calls that must have a twin: runs of other frameworks have other calls, and
values tell more of them."""


def link_recorded_calls(
    golden: ModelGraph, device: ModelGraph, pairs: Iterable[tuple[Op, Op]] = ()
) -> tuple[list[LineageLink], dict[TensorRef, Counterpart]] | None:
    """Links of every call of *device* with a twin, and the golden tensor of every output. *pairs*
    are calls of both, device first, of which that is known.

    None if either is no recorded run, or most calls have no twin.
    """
    if not (golden.has_guessed_edges and device.has_guessed_edges and device.ops):
        return None
    twins: dict[str, Op] = {}
    own, theirs = by_rank(device), by_rank(golden)
    for rank in own.keys() & theirs.keys():
        pairing = _Pairing(theirs[rank], own[rank])
        pairing.run(pairs)
        twins |= pairing.twins
    if len(twins) < _FEWEST * min(len(device.ops), len(golden.ops)):
        return None
    links: list[LineageLink] = []
    outputs: dict[TensorRef, Counterpart] = {}
    for op in device.ops:
        twin = twins.get(op.id)
        if twin is None:
            for ref in op.makes:
                why = f"golden has no call at the place of {op.name}"
                outputs[ref] = Unmatched(Reason.UNMATCHED, why)
            continue
        rule = LineageRule.SAME_NAME if twin.name == op.name else LineageRule.SAME_PLACE
        port = 0 if op.outputs and twin.outputs else None
        links.append(LineageLink(op.id, twin.id, rule, port, port))
        ports = _same_outputs(op, twin)
        for ref in op.makes:
            if ref.port in ports:
                outputs[ref] = TensorMatch(ref, TensorRef(twin.id, ports[ref.port]), rule)
            else:
                why = f"{twin.name} gives {len(twin.outputs)} tensors"
                outputs[ref] = Unmatched(Reason.UNMATCHED, why)
    return links, outputs


def _same_outputs(op: Op, twin: Op) -> dict[int, int]:
    """The ports of the outputs of *op* with those of *twin* that are the same. A gradient is of an
    argument, by whose place it goes: where one side needs none of it, the next is no longer the
    second."""
    ports = {ref.port: ref.port for ref in op.makes if ref.port < len(twin.outputs)}
    if op.attrs.get("direction") not in ("backward", PARAMETERS_GRAD):
        return ports
    theirs = {place: port for port, place in enumerate(output_places(twin))}
    places = dict(enumerate(output_places(op)))
    if theirs.keys().isdisjoint(places.values()) and len(places) == len(theirs):
        return ports  # other arguments, such as names for places
    return {port: theirs[place] for port, place in places.items() if place in theirs}


def by_rank(graph: ModelGraph) -> dict[int, ModelGraph]:
    """The ops of each rank of a job; a call between ranks is the first one's of its group."""
    ops: dict[int, list[Op]] = {}
    for op in graph.ops:
        group = op.attrs.get(GROUP) if RANKS in op.attrs else op.attrs.get(RANK, 0)
        rank = group[0] if isinstance(group, tuple) else group
        assert isinstance(rank, int)
        ops.setdefault(rank, []).append(op)
    return {rank: replace(graph, ops=tuple(some)) for rank, some in ops.items()}


def plain_name(name: str) -> str:
    """*name* of a call of a module without the wrappers around the model."""
    rank, own = split_rank(name)
    parts = own.split(".")
    if parts[0] in _MODULES:
        while len(parts) > 2 and parts[1] == _WRAPPER:
            del parts[1]
    return rank + ".".join(parts)


def _place(name: str) -> str:
    """Where the module of a call is, without its class: MindSpore's Dense is PyTorch's Linear."""
    rank, own = split_rank(plain_name(name))
    parts = own.split(".")
    for way in ("forward", "backward", "parameters_grad"):
        if parts[0] in _MODULES and way in parts[2:]:
            at = parts.index(way, 2)
            return rank + ".".join((*parts[1 : at - 1], *parts[at:]))
    return rank + own


@dataclass
class _Pairing:
    golden: ModelGraph
    device: ModelGraph
    twins: dict[str, Op] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def run(self, pairs: Iterable[tuple[Op, Op]]) -> None:
        """Find all twins, those of *pairs* first."""
        for op, golden_op in pairs:
            self._take(op, golden_op)
        named = {_place(op.name): op for op in reversed(self.golden.ops) if _is_module(op)}
        for op in self.device.ops:
            twin = named.get(_place(op.name))
            if twin is not None and _is_module(op):
                self._take(op, twin)
        for device, golden in self._bodies():
            self._align(device, golden)
        self._align(_there(self.device.ops), _there(self.golden.ops))
        self._modules()
        self._backwards()
        # of what is left, a way back may have no way there, as where it was left out of the dump
        self._align(
            [op for op in self.device.ops if not _is_module(op)],
            [op for op in self.golden.ops if not _is_module(op)],
        )
        self._rest()

    def _take(self, op: Op, twin: Op) -> None:
        if op.id not in self.twins and twin.id not in self.taken:
            self.twins[op.id] = twin
            self.taken.add(twin.id)

    def _bodies(self) -> Iterator[tuple[list[Op], list[Op]]]:
        """The functions that the same module calls on both sides."""
        device, golden = (_by_body(graph) for graph in (self.device, self.golden))
        for body, ops in device.items():
            if body in golden:
                yield ops, golden[body]

    def _align(self, device: Sequence[Op], golden: Sequence[Op]) -> None:
        """Pair what has the same place in both sequences: first what is alike in all that is
        known, then what is between."""
        for key in _KEYS:
            ours = [op for op in device if op.id not in self.twins]
            theirs = [op for op in golden if op.id not in self.taken]
            if not ours or not theirs:
                return
            for x, y in list(self._between(ours, theirs, device, golden, key)):
                self._take(x, y)

    def _between(
        self,
        ours: Sequence[Op],
        theirs: Sequence[Op],
        device: Sequence[Op],
        golden: Sequence[Op],
        key: Callable[[Op], Hashable],
    ) -> Iterator[tuple[Op, Op]]:
        """The pairs in the gaps that the pairs so far leave."""
        numbers = {op.id: number for number, op in enumerate(golden)}
        gaps: dict[int, tuple[list[Op], list[Op]]] = {}
        wanted, unmatched = {op.id for op in ours}, {op.id for op in theirs}
        last = -1
        place: dict[int, int] = {}
        for op in device:
            twin = self.twins.get(op.id)
            if twin is not None and numbers.get(twin.id, -1) > last:
                last = numbers[twin.id]
            elif op.id in wanted:
                gaps.setdefault(last, ([], []))[0].append(op)
            place[last] = last
        last = -1
        for number, op in enumerate(golden):
            if op.id not in unmatched:
                last = number if number in place else last
            elif last in gaps:
                gaps[last][1].append(op)
        for some, others in gaps.values():
            for x, y in aligned([key(op) for op in some], [key(op) for op in others]):
                yield some[x], others[y]

    def _modules(self) -> None:
        """A module of another name is the one that makes the same calls."""
        golden = {op.name: op for op in self.golden.ops}
        inside: dict[str, set[str]] = {}
        for op in self.device.ops:  # a module comes after what it calls
            if _is_module(op) and op.id not in self.twins:
                bodies = inside.get(op.name, set())
                twin = golden.get(next(iter(bodies))) if len(bodies) == 1 else None
                if twin is not None and CallName.of(twin.name).way == CallName.of(op.name).way:
                    self._take(op, twin)
            if op.subgraph and op.id in self.twins:
                inside.setdefault(op.subgraph, set()).add(self.twins[op.id].subgraph)

    def _backwards(self) -> None:
        """A way back is the one of its way there."""
        device, golden = ({op.name: op for op in graph.ops} for graph in (self.device, self.golden))
        for op in self.device.ops:
            before = CallName.of(op.name).before
            there = device.get(before[0]) if before else None
            twin = self.twins.get(there.id) if there is not None else None
            if twin is None or op.id in self.twins:
                continue
            name = CallName.of(op.name)
            head, _, tail = twin.name.rpartition("forward")
            golden_op = golden.get(f"{head}{name.way}{tail}")
            if golden_op is not None:
                self._take(op, golden_op)

    def _rest(self) -> None:
        """Calls of one kind and shape that have changed places."""
        for key in _KEYS[:2]:
            unpaired: dict[Hashable, list[Op]] = {}
            for op in self.golden.ops:
                if op.id not in self.taken:
                    unpaired.setdefault((op.subgraph, key(op)), []).append(op)
            for op in self.device.ops:
                others = unpaired.get((op.subgraph, key(op)))
                if op.id not in self.twins and others and not _is_module(op):
                    self._take(op, others.pop(0))


def _is_module(op: Op) -> bool:
    return split_rank(op.name)[1].partition(".")[0] in _MODULES


def _there(ops: Iterable[Op]) -> list[Op]:
    return [op for op in ops if not _is_module(op) and not CallName.of(op.name).before]


def _by_body(graph: ModelGraph) -> dict[str, list[Op]]:
    ops: dict[str, list[Op]] = {}
    for op in _there(graph.ops):
        ops.setdefault(_place(op.subgraph), []).append(op)
    return ops


def _shapes(op: Op) -> Hashable:
    return _kind(op), own_inputs(op), tuple(tensor.shape for tensor in op.outputs)


def _all(op: Op) -> Hashable:
    stack = op.attrs.get("stack")
    return (*_shapes(op), stack) if isinstance(stack, str) else _shapes(op)  # type: ignore[misc]


def _kind(op: Op) -> Hashable:
    name, dot, way = op.type.partition(".")
    return _OTHER_NAMES.get(name, name) + dot + way


_KEYS: tuple[Callable[[Op], Hashable], ...] = (_all, _shapes, _kind)
