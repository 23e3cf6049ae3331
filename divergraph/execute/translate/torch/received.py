"""What a rank gets of a call between ranks: which rows of what all ranks gave it, put one after the
other or reduced to one.

The op of a job's graph has the tensors of all ranks, by rank and argument
(:mod:`importers.msprobe.joined_ranks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from graphstore.model import AttrValue, Op, Shape
from importers.msprobe.collectives import BATCH, GROUP, JOINED, SENDS
from importers.msprobe.graph import ARGUMENTS
from importers.msprobe.job_names import RANKS, place_in_rank, split_place

REDUCED = frozenset(
    f"{JOINED}{name}"
    for name in (
        "all_reduce",
        "all_reduce_coalesced",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "_reduce_scatter_base",
    )
)
"""The types of ops that reduce what ranks give."""
_Flow: TypeAlias = "Callable[[BetweenRanks], Received]"
_FLOWS: dict[str, _Flow] = {}


class NotReceivedError(Exception):
    """Why it is not known what a rank gets."""


@dataclass(frozen=True, slots=True)
class GivenPart:
    """Input ``port`` of the op, or these ``rows`` of it: where they begin, and have ended."""

    port: int
    rows: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """``parts`` one after the other along their first axis; as ``reduction`` (``SUM``, ``AVG``,
    ``MAX``...) makes one of them where that is not empty."""

    parts: tuple[GivenPart, ...]
    reduction: str = ""


def reduction_of(op: Op) -> str:
    """How an op between ranks of a type in :data:`REDUCED` reduces: ``SUM``, ``AVG``, ``MAX``..."""
    place = 1 if op.type.startswith(f"{JOINED}all_reduce") else 2
    operation = op.attrs.get(f"input.{place}", op.attrs.get("input.op", "SUM"))
    return str(operation).rpartition(".")[2].upper()


class BetweenRanks:
    """A call between ranks, the *op* of a job; *shape* gives that of what was given to an input.

    Raises:
        NotReceivedError: a rank of its group does not call it.
    """

    rank = number = 0

    def __init__(self, op: Op, shape: Callable[[int], Shape | None]) -> None:
        self._op, self._shape = op, shape
        self.ranks = numbers(op.attrs.get(RANKS))
        self._ports: dict[int, list[int]] = {}
        for port, place in enumerate(texts(op.attrs.get(ARGUMENTS))):
            self._ports.setdefault(split_place(place)[0], []).append(port)
        group = numbers(op.attrs.get(GROUP))
        if absent := [rank for rank in group if rank not in self.ranks]:
            raise NotReceivedError(f"without rank {absent[0]}, which does not call it")

    def received(self, place: str) -> Received:
        """What the output at *place* (``rank1.0.2``) is made of.

        Raises:
            NotReceivedError: nobody knows, as of a kind of call that has no row.
        """
        flow = _FLOWS.get(self._op.type)
        if flow is None:
            raise NotReceivedError("which has no row")
        self.rank, rest = split_place(place)
        self.number = int(rest.partition(".")[2].partition(".")[0] or 0)
        return flow(self)

    # what rows ask for

    def at(self, rank: int) -> int:
        """The place of *rank* in the group."""
        return self.ranks.index(rank)

    def only(self, rank: int) -> GivenPart:
        """The one tensor that *rank* gave."""
        return GivenPart(self._one(rank))

    def listed(self, rank: int) -> Sequence[GivenPart]:
        """The list of tensors that *rank* gave, one for each rank of the group."""
        ports = self._ports.get(rank, [])
        if len(ports) != len(self.ranks):
            raise NotReceivedError(f"with {len(ports)} tensors of rank {rank}")
        return [GivenPart(port) for port in ports]

    def given(self, rank: int) -> Sequence[GivenPart]:
        """All tensors that *rank* gave."""
        return [GivenPart(port) for port in self._ports.get(rank, [])]

    def root(self) -> int:
        """The rank that alone gave something."""
        if len(self._ports) != 1:
            raise NotReceivedError(f"of {len(self._ports)} ranks")
        (root,) = self._ports
        return root

    def chunk(self, rank: int, number: int, sizes: Sequence[int] = ()) -> GivenPart:
        """Part *number* of the first axis of what *rank* gave, of the *sizes* or equal ones."""
        port, count = self._one(rank), len(self.ranks)
        shape = self._shape(port)
        if not sizes and (not shape or shape[0] is None or shape[0] % count):
            raise NotReceivedError(f"of {shape} among {count} ranks")
        length = (shape or (0,))[0] or 0
        sizes = sizes or (length // count,) * count
        if len(sizes) != count:
            raise NotReceivedError(f"of {len(sizes)} parts among {count} ranks")
        begin = sum(sizes[:number])
        return GivenPart(port, (begin, begin + sizes[number]))

    def sizes(self, rank: int, place: int, keyword: str) -> tuple[int, ...]:
        """A list of sizes that *rank* gave; none where it gave none."""
        for name in (str(place), keyword):
            for own in (name, place_in_rank(rank, name)):
                if sizes := self._listed(own):
                    return sizes
        return ()

    def reduced(self, parts: Sequence[GivenPart]) -> Received:
        """*parts* as the call's operation reduces them."""
        return Received(tuple(parts), reduction_of(self._op))

    def _one(self, rank: int) -> int:
        ports = self._ports.get(rank, [])
        if len(ports) != 1:
            raise NotReceivedError(f"with {len(ports)} tensors of rank {rank}")
        return ports[0]

    def _listed(self, place: str) -> tuple[int, ...]:
        """A list that the dump has as one value or one by one."""
        attrs, begin = self._op.attrs, f"input.{place}"
        return numbers(attrs.get(begin)) or numbers(
            tuple(
                value
                for name, value in attrs.items()
                if name.startswith(f"{begin}.") and isinstance(value, int)
            )
        )


def _of(*types: str) -> Callable[[_Flow], _Flow]:
    """Put the decorated function into the table: it gives what ``call.rank`` gets, tensor
    ``call.number`` where that is a list."""

    def put(flow: _Flow) -> _Flow:
        _FLOWS.update((f"{JOINED}{kind}", flow) for kind in types)
        return flow

    return put


@_of("all_reduce", "reduce")
def _reduced(call: BetweenRanks) -> Received:
    return call.reduced([call.only(each) for each in call.ranks])


@_of("all_reduce_coalesced")
def _reduced_each(call: BetweenRanks) -> Received:
    lists = [call.given(each) for each in call.ranks]
    if any(len(each) != len(lists[0]) for each in lists):
        raise NotReceivedError("with lists of different lengths")
    return call.reduced([each[call.number] for each in lists])


@_of("broadcast", *SENDS, BATCH)
def _passed(call: BetweenRanks) -> Received:
    return Received((call.only(call.root()),))


@_of("all_gather", "gather")
def _gathered_list(call: BetweenRanks) -> Received:
    return Received((call.only(call.ranks[call.number]),))


@_of("all_gather_into_tensor", "_all_gather_base")
def _gathered(call: BetweenRanks) -> Received:
    return Received(tuple(call.only(each) for each in call.ranks))


@_of("reduce_scatter")
def _reduced_list(call: BetweenRanks) -> Received:
    at = call.at(call.rank)
    return call.reduced([call.listed(each)[at] for each in call.ranks])


@_of("reduce_scatter_tensor", "_reduce_scatter_base")
def _reduced_chunk(call: BetweenRanks) -> Received:
    at = call.at(call.rank)
    return call.reduced([call.chunk(each, at) for each in call.ranks])


@_of("all_to_all")
def _exchanged_list(call: BetweenRanks) -> Received:
    return Received((call.listed(call.ranks[call.number])[call.at(call.rank)],))


@_of("all_to_all_single")
def _exchanged(call: BetweenRanks) -> Received:
    at = call.at(call.rank)
    return Received(
        tuple(call.chunk(each, at, call.sizes(each, 3, "input_split_sizes")) for each in call.ranks)
    )


@_of("scatter")
def _scattered(call: BetweenRanks) -> Received:
    return Received((call.listed(call.root())[call.at(call.rank)],))


FLOWS = frozenset(_FLOWS)
"""The types of ops of which it is known what ranks get."""


def numbers(value: AttrValue | None) -> tuple[int, ...]:
    """The whole numbers of a list; none of anything else."""
    if not isinstance(value, tuple):
        return ()
    return tuple(each for each in value if isinstance(each, int))


def texts(value: AttrValue | None) -> tuple[str, ...]:
    """A list as texts; none of anything else."""
    return tuple(map(str, value)) if isinstance(value, tuple) else ()
