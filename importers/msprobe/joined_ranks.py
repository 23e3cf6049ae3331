"""The recorded runs of all ranks of a step as one graph, joined by the calls between ranks.

Every rank is first read as a graph of its own (``graph.py``). In the graph of the job

* an op of one rank is called ``rank1/Functional.linear.0.forward`` and has the attribute
  :data:`RANK`; so are its tensors, its parameters and the bodies of its modules;
* a call between ranks is one op: of a collective the calls of one name and group with the same
  number on each rank, of a message those of one source, target and tag. Its name begins with the
  ranks, ``ranks0-1/Distributed.all_reduce.3.forward``, or ``ranks0>1/`` for a message; the rest is
  the call on the lowest rank (the source). It has the attributes :data:`RANKS` and :data:`CALLS`,
  and as inputs and outputs the tensors of one rank after the other, named by rank and argument:
  ``....input.rank1.0``. What a rank only passes to be written is no input, and what a call leaves
  as it is no output (``collectives.py``). Arguments that differ by rank are called
  ``input.rank1.op``.

Ops come in an order in which the job can have run: a rank waits where it needs what others send.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphstore.model import (
    AttrValue,
    Constant,
    InputRef,
    ModelGraph,
    Op,
    Subgraph,
    Tensor,
    TensorRef,
)
from importers.msprobe.calls import INFERRED
from importers.msprobe.calls_between import (
    CallPart,
    Key,
    numbered_parts,
    place_in_batch,
    ranks_of_key,
)
from importers.msprobe.collectives import BY_NAME, GROUP, JOINED, KIND, ranks_text
from importers.msprobe.graph import ARGUMENTS, UNRECORDED, own_inputs
from importers.msprobe.job_names import (
    BODIES,
    CALLS,
    RANK,
    RANKS,
    SOURCE,
    TARGET,
    in_rank,
    place_in_rank,
)

_NUMBERS = re.compile(r"\d+")
_LATE = "late"


def joined_ranks(
    graphs: Mapping[int, ModelGraph], step: Path, remarks: Iterable[str] = ()
) -> ModelGraph:
    """The *graphs* of the ranks of a job, as one; *remarks* are among its warnings."""
    job = _Job(graphs)
    job.run()
    first = next(iter(graphs.values()))
    digest = hashlib.sha256("".join(each.sha256 for each in graphs.values()).encode())
    return replace(
        first,
        name=f"{step.name} of {len(graphs)} ranks",
        ops=tuple(job.ops),
        subgraphs=tuple(job.subgraphs()),
        inputs=tuple(job.inputs()),
        outputs=tuple(job.outputs()),
        constants=tuple(job.constants()),
        attrs={**first.attrs, RANKS: tuple(graphs)},
        warnings=(*_warnings(graphs), *remarks),
        source=str(step),
        sha256=digest.hexdigest(),
    )


@dataclass
class _Between:
    """An op between ranks in the making."""

    ranks: tuple[int, ...]
    parts: dict[int, tuple[Op, CallPart]] = field(default_factory=dict)

    @property
    def members(self) -> list[tuple[int, Op, CallPart]]:
        """The ranks that call it, in order, a message's source first."""
        return [(rank, *self.parts[rank]) for rank in self.ranks if rank in self.parts]


class _Job:
    def __init__(self, graphs: Mapping[int, ModelGraph]) -> None:
        self._graphs = graphs
        self._world = tuple(graphs)
        self._parts = {rank: self._calls_between(graph, rank) for rank, graph in graphs.items()}
        self._expected = Counter(
            part.key for calls in self._parts.values() for parts in calls.values() for part in parts
        )
        self._between: dict[Key, _Between] = {}
        self._closed: set[tuple[int, Key]] = set()
        self._refs: dict[int, dict[TensorRef, TensorRef | InputRef]] = {r: {} for r in graphs}
        self._ids: dict[int, dict[str, str]] = {r: {} for r in graphs}
        self._renamed: dict[int, dict[str, str]] = {r: {} for r in graphs}
        self.ops: list[Op] = []

    # the calls between ranks

    def _calls_between(self, graph: ModelGraph, rank: int) -> dict[str, list[CallPart]]:
        """The calls of a rank that others take part in, by op."""
        count: Counter[Key] = Counter()
        found: dict[str, list[CallPart]] = {}
        for op in graph.ops:
            if op.attrs.get("kind") != KIND:
                continue
            if parts := list(numbered_parts(op, rank, self._world, count)):
                found[op.id] = parts
        return found

    # the order

    def run(self) -> None:
        """Put the ops of all ranks in order."""
        waiting = {rank: list(reversed(graph.ops)) for rank, graph in self._graphs.items()}
        while any(waiting.values()):
            # all ranks have to be looked at, or one may wait for what another has not come to
            moved = [rank for rank, ops in waiting.items() if ops and self._advance(rank, ops)]
            if not moved:  # calls that fit no other, as where one rank leaves one out
                self._give_up(waiting)

    def _advance(self, rank: int, ops: list[Op]) -> bool:
        """Take the next op of *rank*; False where it waits for other ranks. All go on in step, so
        that what comes first in a rank does so in the job."""
        op = ops[-1]
        parts = self._parts[rank].get(op.id)
        if self._is_waiting(rank, op):
            return False
        if parts is None:
            self._take(rank, op)
        elif not self._arrive(rank, op, parts):
            return False
        ops.pop()
        return True

    def _is_waiting(self, rank: int, op: Op) -> bool:
        """Whether *op* reads what a call between ranks has yet to give."""
        known, between = self._refs[rank], self._parts[rank]
        return any(ref.op in between and ref not in known for ref in op.takes)

    def _arrive(self, rank: int, op: Op, parts: Sequence[CallPart]) -> bool:
        """Let *rank* take part in calls between ranks; whether it can go on."""
        for part in parts:
            if (rank, part.key) in self._closed:
                continue
            between = self._between.setdefault(part.key, _Between(ranks_of_key(part.key)))
            between.parts[rank] = op, part
            if len(between.parts) == self._expected[part.key]:
                self._close(part.key)
        return all((rank, part.key) in self._closed for part in parts if part.waits)

    def _close(self, key: Key) -> None:
        between = self._between.pop(key)
        self._closed.update((rank, key) for rank in between.parts)
        self.ops.append(self._joined(key, between))

    def _give_up(self, waiting: Mapping[int, Sequence[Op]]) -> None:
        """Close a call that ranks wait for with those that came; the others make another one."""
        key = next(iter(self._between))
        missing = self._expected[key] - len(self._between[key].parts)
        came = set(self._between[key].parts)
        self._close(key)
        late = (*key, _LATE)
        self._expected[late] = missing
        for rank, calls in self._parts.items():
            for op, parts in calls.items() if rank not in came else ():
                calls[op] = [replace(p, key=late) if p.key == key else p for p in parts]

    # ops

    def _take(self, rank: int, op: Op) -> None:
        """An op of one rank alone."""
        new = in_rank(rank, op.id)
        self._ids[rank][op.id] = new
        for ref in op.makes:
            self._refs[rank][ref] = TensorRef(new, ref.port)
        self.ops.append(
            replace(
                op,
                id=new,
                name=in_rank(rank, op.name),
                inputs=tuple(self._input(rank, ref) for ref in op.inputs),
                control_inputs=self._controls(rank, op),
                outputs=tuple(replace(t, name=in_rank(rank, t.name)) for t in op.outputs),
                attrs={**op.attrs, RANK: rank},
                subgraph=op.subgraph and in_rank(rank, op.subgraph),
                owns=tuple(in_rank(rank, name) for name in op.owns),
                sequence=len(self.ops),
            )
        )

    def _input(self, rank: int, ref: InputRef | None) -> InputRef | None:
        if ref is None:
            return None
        found = None if ref.producer is None else self._refs[rank].get(ref.producer)
        if isinstance(found, InputRef):
            return found
        return InputRef(in_rank(rank, ref.tensor), found)

    def _controls(self, rank: int, op: Op) -> tuple[str, ...]:
        known = self._ids[rank]
        return tuple(known[name] for name in op.control_inputs if name in known)

    def _joined(self, key: Key, between: _Between) -> Op:
        """The op of a call between ranks."""
        members = between.members
        lowest, first, _ = members[0]
        is_message = key[0] == SOURCE
        ranks = f"ranks{key[1]}>{key[2]}" if is_message else ranks_text(between.ranks)
        late = "" if key[-1] != _LATE else f"{_LATE}/"
        number = place_in_batch(first, members[0][2])
        name, new = f"{ranks}/{late}{first.name}{number}", f"{ranks}/{late}{first.id}{number}"
        body = first.subgraph and in_rank(lowest, first.subgraph)
        inputs: list[InputRef | None] = []
        arguments: list[str] = []
        brought: list[InputRef | None] = []
        how: list[AttrValue] = []
        outputs: list[Tensor] = []
        for rank, op, part in members:
            places = op.attrs.get(ARGUMENTS, ())
            places = places if isinstance(places, tuple) else ()
            for port in part.inputs:
                place = place_in_rank(rank, str(places[port]))
                arguments.append(place)
                inputs.append(self._own_input(rank, op.inputs[port], f"{name}.input.{place}"))
            begin = len(f"{op.name}.output.")
            for port in part.outputs:
                place = place_in_rank(rank, op.outputs[port].name[begin:])
                self._refs[rank][TensorRef(op.id, port)] = TensorRef(new, len(outputs))
                outputs.append(replace(op.outputs[port], name=f"{name}.output.{place}"))
            kinds = op.attrs.get(UNRECORDED, ())
            if part is self._parts[rank].get(op.id, [part])[0]:
                brought += [self._brought(rank, ref) for ref in op.inputs[own_inputs(op) :]]
                how += kinds if isinstance(kinds, tuple) else ()
                self._pass_over(rank, op)
            self._ids[rank].setdefault(op.id, new)
        attrs = _common_attrs(members, is_message=is_message)
        attrs |= {
            "kind": KIND,
            "direction": "forward",
            RANKS: tuple(rank for rank, _, _ in members),
            CALLS: tuple(op.name for _, op, _ in members),
            BODIES: tuple(op.subgraph and in_rank(rank, op.subgraph) for rank, op, _ in members),
            GROUP: between.ranks,
            ARGUMENTS: tuple(arguments),
        }
        if INFERRED in first.attrs:
            attrs[INFERRED] = True
        if how:
            attrs[UNRECORDED] = tuple(how)
        if is_message:
            attrs |= {SOURCE: between.ranks[0], TARGET: between.ranks[1]}
        controls = (c for rank, op, _ in members for c in self._controls(rank, op))
        return Op(
            id=new,
            name=name,
            type=f"{JOINED}{first.type}",
            inputs=(*inputs, *brought),
            control_inputs=tuple(dict.fromkeys(each for each in controls if each != new)),
            outputs=tuple(outputs),
            attrs=attrs,
            subgraph=body,
            sequence=len(self.ops),
        )

    def _own_input(self, rank: int, ref: InputRef | None, name: str) -> InputRef | None:
        found = self._input(rank, ref)
        if found is None or ref is None:
            return None
        if found.producer is None and KIND not in ref.tensor:  # a parameter
            return found
        self._renamed[rank].setdefault(ref.tensor, name)
        return InputRef(name, found.producer)

    def _brought(self, rank: int, ref: InputRef | None) -> InputRef | None:
        """What brought an input of a call between ranks, under the name the input has here."""
        found = self._input(rank, ref)
        if found is None or ref is None:
            return None
        own, _, how = ref.tensor.rpartition(" (")
        renamed = self._renamed[rank].get(own)
        return found if renamed is None else InputRef(f"{renamed} ({how}", found.producer)

    def _pass_over(self, rank: int, op: Op) -> None:
        """What a call leaves as it is comes from where the call has it from."""
        refs = self._refs[rank]
        written = {port for part in self._parts[rank].get(op.id, ()) for port in part.outputs}
        places = op.attrs.get(ARGUMENTS, ())
        named = {str(p): ref for p, ref in zip(places, op.inputs, strict=False)}  # type: ignore[arg-type]
        begin = len(f"{op.name}.output.")
        for port, tensor in enumerate(op.outputs):
            if port in written:
                continue
            place = tensor.name[begin:]
            collective = BY_NAME.get(op.type)
            keyword = collective.reads.keyword if collective is not None else ""
            ref = named.get(place) or named.get(keyword)
            source = self._input(rank, ref) if ref is not None else None
            refs[TensorRef(op.id, port)] = source or InputRef(in_rank(rank, tensor.name))

    # the rest of the graph

    def subgraphs(self) -> Iterator[Subgraph]:
        """The bodies of modules."""
        for rank, graph in self._graphs.items():
            for body in graph.subgraphs:
                outputs = ((port, self._refs[rank].get(ref)) for port, ref in body.outputs)
                yield replace(
                    body,
                    name=in_rank(rank, body.name),
                    owner=self._ids[rank].get(body.owner, ""),
                    outputs=tuple((p, ref) for p, ref in outputs if isinstance(ref, TensorRef)),
                )

    def inputs(self) -> Iterator[Tensor]:
        """What no recorded call made."""
        for rank, graph in self._graphs.items():
            between = {op.name for op in graph.ops if op.id in self._parts[rank]}
            for tensor in graph.inputs:
                name = self._renamed[rank].get(tensor.name)
                if name is not None:
                    yield replace(tensor, name=name)
                elif tensor.name.partition(".input.")[0] not in between:
                    yield replace(tensor, name=in_rank(rank, tensor.name))

    def outputs(self) -> Iterator[TensorRef]:
        """What no call of a rank reads."""
        for rank, graph in self._graphs.items():
            for ref in graph.outputs:
                found = self._refs[rank].get(ref)
                if isinstance(found, TensorRef):
                    yield found

    def constants(self) -> Iterator[Constant]:
        """The parameters of all ranks."""
        for rank, graph in self._graphs.items():
            for each in graph.constants:
                name = in_rank(rank, each.tensor.name)
                yield replace(each, tensor=replace(each.tensor, name=name))


def _common_attrs(
    members: Sequence[tuple[int, Op, CallPart]], *, is_message: bool
) -> dict[str, AttrValue]:
    """The arguments of the calls; those that differ by rank, one by one."""
    attrs: dict[str, AttrValue] = {}
    first = members[0][1].attrs
    if "stack" in first:
        attrs["stack"] = first["stack"]
    if is_message:
        return attrs
    by_argument: dict[str, dict[int, dict[str, AttrValue]]] = defaultdict(dict)
    for rank, op, _ in members:
        for key, value in op.attrs.items():
            _, is_input, place = key.partition("input.")
            if is_input and not isinstance(value, tuple):
                # a list is alike as a whole, or not: its numbers are read together
                by_argument[place.partition(".")[0]].setdefault(rank, {})[place] = value
    for by_rank in by_argument.values():
        if len(by_rank) == len(members) and len(set(map(repr, by_rank.values()))) == 1:
            alike = next(iter(by_rank.values()))
            attrs.update((f"input.{place}", value) for place, value in alike.items())
        else:
            for rank, own in by_rank.items():
                attrs.update((f"input.{place_in_rank(rank, p)}", v) for p, v in own.items())
    return attrs


def _warnings(graphs: Mapping[int, ModelGraph]) -> Iterator[str]:
    """The warnings of all ranks; of those alike but for numbers the first."""
    ranks: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for rank, graph in graphs.items():
        for line in graph.warnings:
            ranks[_NUMBERS.sub("#", line)].append((rank, line))
    for (rank, line), *others in ranks.values():
        more = f" and {len(others)} more" if others else ""
        yield f"rank {rank}{more}: {line}"
