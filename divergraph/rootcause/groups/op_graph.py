"""A graph as groups are cut from it: what each op reads, and what cannot be run again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from divergraph.execute.tensorflow.branches import HANDLES, READS, VARIABLES, in_branches
from divergraph.execute.tensorflow.calls_in_place import calls_in_place
from divergraph.execute.tensorflow.late_reads import LateRead, late_reads
from divergraph.rootcause.groups.loop_state import flows, inside_loops, pushed
from graphstore.model import DType, InputRef, ModelGraph, Op, TensorRef
from graphstore.traverse.reach import reached
from graphstore.traverse.topological_order import topo_order

_RANDOM = ("Random", "TruncatedNormal", "ParameterizedTruncatedNormal", "StatefulRandom")
_RANDOM_TYPES = frozenset({"Multinomial", "Bernoulli", "RngUniform", "StatefulUniform"})
_ENTRY_TYPES = frozenset(
    {
        *("Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "Input", "Data", "Feed"),
        *("IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional", "OneShotIterator"),
        *("ReaderReadV2", "ParseExample", "ParseExampleV2", "ReadFile", "ImageData", "HDF5Data"),
    }
)
_TRAINING_INPUT = 2
_KEEPS_FOR_GRADIENT = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
_FIRST_KEPT = 3


class Source(Enum):
    """Why an op's value cannot simply be recomputed. The texts continue "Mul (Mul) ..."."""

    RANDOM = "draws random numbers"
    ENTRY = "is fed from outside"
    VARIABLE = "is a variable"
    LATE = "reads a variable that the step has changed by then, or may have"
    EQUAL = "tests whether floats are equal, of which one is not known to the last bit"
    FLOW = "only orders ops or holds room for a gradient"


def source_of(op: Op) -> Source | None:
    """Where the value of *op* comes from if it is not computed; None for an op that computes."""
    if op.type.startswith(_RANDOM) or op.type in _RANDOM_TYPES:
        return Source.RANDOM
    if op.type == "Dropout" and len(op.inputs) > _TRAINING_INPUT:
        return Source.RANDOM
    if op.type in _ENTRY_TYPES or "Dequeue" in op.type:
        return Source.ENTRY
    return Source.VARIABLE if op.type in VARIABLES or op.type == READS else None


def unwritten(graph: ModelGraph) -> frozenset[TensorRef]:
    """The outputs that nothing writes. TensorFlow's batch normalisation fills the outputs for its
    gradient in training only; otherwise they hold whatever was in that memory. Outputs of calls
    and Identity ops that pass such a value on are included."""
    unwritten_refs = {
        TensorRef(op.id, port)
        for op in graph.ops
        if op.type in _KEEPS_FOR_GRADIENT and op.attrs.get("is_training") is False
        for port in range(_FIRST_KEPT, len(op.outputs))
    }
    results = [
        (TensorRef(body.owner, port), inner)
        for body in graph.subgraphs
        for port, inner in body.outputs
    ]
    results += [
        (TensorRef(op.id, 0), ref.producer)
        for op in graph.ops
        if op.type == "Identity"
        for ref in op.inputs
        if ref is not None and ref.producer is not None
    ]
    while more := {outer for outer, inner in results if inner in unwritten_refs} - unwritten_refs:
        unwritten_refs |= more
    return frozenset(unwritten_refs)


@dataclass
class OpGraph:
    """The ops of a graph by id. What a body reads from outside counts as an input of its owner,
    and called functions are inlined.

    ``rank`` is each op's place in topological order. ``fed`` are the ids of ops that depend on an
    input of the model, ``moving`` of those that depend on random numbers or variables, ``drawn`` on
    random numbers; all others give the same in every run. ``flows`` are tensors whose values mean
    nothing. ``late`` ops read variables after the step changed them; ``looped`` ones run in each
    iteration of a TensorFlow 1 loop.
    """

    graph: ModelGraph
    ops: dict[str, Op] = field(init=False)
    rank: dict[str, int] = field(init=False)
    fed: frozenset[str] = field(init=False)
    moving: frozenset[str] = field(init=False)
    drawn: frozenset[str] = field(init=False)
    entries: frozenset[str] = field(init=False)
    entry_types: Mapping[str, DType | None] = field(init=False)
    flows: frozenset[TensorRef] = field(init=False)
    late: dict[str, LateRead] = field(init=False)
    looped: frozenset[str] = field(init=False)
    _captured: dict[str, tuple[InputRef, ...]] = field(init=False)

    def __post_init__(self) -> None:
        empty = unwritten(self.graph)
        self.graph = calls_in_place(self.graph)
        self.ops = self.graph.op_index()
        self.rank = {op_id: place for place, op_id in enumerate(topo_order(self.graph))}
        self.entry_types = {tensor.name: tensor.dtype for tensor in self.graph.inputs}
        self.entries = frozenset(self.entry_types)
        self.flows = flows(self.graph) | empty
        self.looped = inside_loops(self.graph)
        self.late = late_reads(self.graph)
        self._captured = {**self._captures(), **pushed(self.graph)}
        self._captured.update((op, (ref,)) for op, ref in in_branches(self.graph).items())
        self._captured.update((op, late.taken) for op, late in self.late.items() if late.taken)
        self.fed = self._behind(
            op.id
            for op in self.graph.ops
            if source_of(op) is Source.ENTRY or any(map(self.is_entry, self.inputs(op)))
        )
        self.moving = self._behind(
            op.id for op in self.graph.ops if source_of(op) in (Source.RANDOM, Source.VARIABLE)
        )
        self.drawn = self._behind(op.id for op in self.graph.ops if source_of(op) is Source.RANDOM)

    def inputs(self, op: Op) -> Iterator[InputRef]:
        """What *op* reads: its connected inputs, then what its bodies read from outside."""
        yield from (ref for ref in op.inputs if ref is not None)
        yield from self._captured.get(op.id, ())

    def reads(self, ops: Iterable[str]) -> Iterator[InputRef]:
        """What each of *ops* reads, one op after the other."""
        return (ref for op_id in ops for ref in self.inputs(self.ops[op_id]))

    def constants_read(self, ops: Iterable[str]) -> frozenset[str]:
        """The names of the constants that *ops* read."""
        return self._constants.intersection(ref.tensor for ref in self.reads(ops))

    @cached_property
    def _constants(self) -> frozenset[str]:
        return frozenset(constant.tensor.name for constant in self.graph.constants)

    def name(self, ref: TensorRef) -> str:
        """The tensor's name, by which executors know it."""
        return self.ops[ref.op].outputs[ref.port].name

    def is_constant(self, op_id: str) -> bool:
        """Whether an op gives the same values in every run."""
        return op_id not in self.fed and op_id not in self.moving

    def is_lost(self, op_id: str) -> bool:
        """Whether an op reads a variable as the step left it, which cannot be reproduced."""
        return op_id in self.late and self.late[op_id].taken is None

    def behind_unknown(self, dumped: frozenset[TensorRef]) -> frozenset[str]:
        """The ids of ops downstream of random numbers and variables that are not *dumped*."""
        handles = {op.id for op in self.graph.ops if op.type in HANDLES}
        return self._behind(
            op.id
            for op in self.graph.ops
            if op.id not in handles
            and not any(TensorRef(op.id, port) in dumped for port in range(len(op.outputs)))
            and (
                source_of(op) in (Source.RANDOM, Source.VARIABLE)
                or any(ref.producer and ref.producer.op in handles for ref in op.inputs if ref)
            )
        )

    def is_source(self, op_id: str) -> bool:
        """Whether an op brings in values from outside the model."""
        return source_of(self.ops[op_id]) is Source.ENTRY

    def is_entry(self, ref: InputRef) -> bool:
        """Whether *ref* is an input of the model that no op stands for."""
        return ref.producer is None and ref.tensor in self.entries

    def _behind(self, starts: Iterator[str]) -> frozenset[str]:
        users: dict[str, list[str]] = {}
        for op in self.graph.ops:
            for ref in self.inputs(op):
                if ref.producer is not None:
                    users.setdefault(ref.producer.op, []).append(op.id)
        return frozenset(reached(starts, lambda op: users.get(op, ())))

    def _captures(self) -> dict[str, tuple[InputRef, ...]]:
        """By owner: the tensors that its bodies, and the bodies inside those, read from outside."""
        if not self.graph.subgraphs:
            return {}
        owners = {body.name: body.owner for body in self.graph.subgraphs}
        names = {*self.entries, *(constant.tensor.name for constant in self.graph.constants)}
        captures: dict[str, dict[InputRef, None]] = {}
        for op in self.graph.ops:
            for ref in op.inputs if op.subgraph else ():
                # Any other tensor without a producer is an input of the body itself.
                if ref is not None and (ref.producer is not None or ref.tensor in names):
                    for owner in self._outside_of(op, ref, owners):
                        captures.setdefault(owner, {})[ref] = None
        return {owner: tuple(refs) for owner, refs in captures.items()}

    def _outside_of(self, op: Op, ref: InputRef, owners: dict[str, str]) -> Iterator[str]:
        """The owners around *op* from which *ref* comes in from outside."""
        home = "" if ref.producer is None else self.ops[ref.producer.op].subgraph
        inside = op.subgraph
        while inside and inside != home:
            owner = self.ops.get(owners.get(inside, ""))
            if owner is None:
                return
            yield owner.id
            inside = owner.subgraph
