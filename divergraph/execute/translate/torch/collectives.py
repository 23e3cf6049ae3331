"""Calls between ranks, run again on what all ranks gave them.

The op of a job's graph has the tensors of all ranks, by rank and argument
(:mod:`importers.msprobe.job`). A row says how what one rank gets follows from what all gave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from divergraph.execute.translate.torch.alone import GIVES
from divergraph.execute.translate.torch.call import TorchCall, row
from graphstore.model import AttrValue, Op
from importers.msprobe.collectives import BATCH, GROUP, JOINED, SENDS
from importers.msprobe.graph import ARGUMENTS
from importers.msprobe.job_names import RANKS, place_in_rank, split_place

_SOURCE = "torch.distributed"
_REDUCTIONS = {"SUM": "Sum", "AVG": "Mean", "PRODUCT": "Mul", "MAX": "Max", "MIN": "Min"}
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
_Flow: TypeAlias = "Callable[[BetweenRanks], str]"


def reduction_of(op: Op) -> str:
    """How an op between ranks of a type in :data:`REDUCED` reduces: ``SUM``, ``AVG``, ``MAX``..."""
    place = 1 if op.type.startswith(f"{JOINED}all_reduce") else 2
    operation = op.attrs.get(f"input.{place}", op.attrs.get("input.op", "SUM"))
    return str(operation).rpartition(".")[2].upper()


class BetweenRanks:
    """A call between ranks: its ``operands`` by rank in order, those of a list one by one.

    Asked for is what ``rank`` gets, of a list the tensor ``number``.
    """

    rank = number = 0

    def __init__(self, call: TorchCall) -> None:
        self.call = call
        op = call.piece.op
        self.ranks = _numbers(op.attrs.get(RANKS))
        self.operands: dict[int, list[str]] = {}
        self._ports: dict[int, list[int]] = {}
        for port, place in enumerate(_texts(op.attrs.get(ARGUMENTS))):
            rank, _ = split_place(place)
            self.operands.setdefault(rank, []).append(call.piece.name(port))
            self._ports.setdefault(rank, []).append(port)
        group = _numbers(op.attrs.get(GROUP))
        if absent := [rank for rank in group if rank not in self.ranks]:
            raise call.refused(f"without rank {absent[0]}, which does not call it")

    def at(self, rank: int) -> int:
        """The place of *rank* in the group."""
        return self.ranks.index(rank)

    def only(self, rank: int) -> str:
        """The one tensor that *rank* gave."""
        tensors = self.operands.get(rank, [])
        if len(tensors) != 1:
            raise self.call.refused(f"with {len(tensors)} tensors of rank {rank}")
        return tensors[0]

    def listed(self, rank: int) -> list[str]:
        """The list of tensors that *rank* gave, one for each rank of the group."""
        tensors = self.operands.get(rank, [])
        if len(tensors) != len(self.ranks):
            raise self.call.refused(f"with {len(tensors)} tensors of rank {rank}")
        return tensors

    def shape(self, rank: int) -> tuple[int, ...]:
        """The shape of the first tensor that *rank* gave."""
        return self.call.piece.shape(self._ports[rank][0])

    def root(self) -> int:
        """The rank that alone gave something."""
        (root,) = self.operands
        return root

    def reduced(self, tensors: Sequence[str]) -> str:
        """*tensors* as the call's operation reduces them."""
        operation = reduction_of(self.call.piece.op)
        kind = _REDUCTIONS.get(operation)
        if kind is None:
            raise self.call.refused(f"with the operation {operation}")
        if kind != "Mul":
            return self.call.add(kind, *tensors)
        result, *others = tensors
        for each in others:
            result = self.call.add(kind, result, each)
        return result

    def chunk(self, rank: int, number: int, sizes: Sequence[int] = ()) -> str:
        """Part *number* of the first axis of what *rank* gave, of the *sizes* or equal ones."""
        shape = self.shape(rank)
        if not sizes and (not shape or shape[0] % len(self.ranks)):
            raise self.call.refused(f"of {shape} among {len(self.ranks)} ranks")
        sizes = sizes or (shape[0] // len(self.ranks),) * len(self.ranks)
        piece, begin = self.call.piece, sum(sizes[:number])
        end = begin + sizes[number]
        return self.call.add(
            "Slice", self.only(rank), piece.ints(begin), piece.ints(end), piece.ints(0)
        )

    def sizes(self, rank: int, place: int, keyword: str) -> tuple[int, ...]:
        """A list of sizes that *rank* gave; none where it gave none."""
        own = f"{place_in_rank(rank, str(place))}", f"{place_in_rank(rank, keyword)}"
        value = self.call.argument(place, keyword)
        for name in own if value is None else ():
            value = value or self.call.argument(None, name)
        return _numbers(value)


def _between(*types: str) -> Callable[[_Flow], _Flow]:
    """Put the decorated function into the table: it gives what ``call.rank`` gets, tensor
    ``call.number`` where that is a list."""

    def put(flow: _Flow) -> _Flow:
        def made(call: TorchCall) -> Sequence[str]:
            between = BetweenRanks(call)
            result = []
            for place in _texts(call.piece.op.attrs.get(GIVES)):
                rank, rest = split_place(place)
                number = rest.partition(".")[2].partition(".")[0]
                between.rank, between.number = rank, int(number or 0)
                result.append(call.add("Identity", flow(between)))
            return result

        row(*(f"{JOINED}{kind}" for kind in types), source=_SOURCE)(made)
        return flow

    return put


@_between("all_reduce", "reduce")
def _reduced(call: BetweenRanks) -> str:
    return call.reduced([call.only(each) for each in call.ranks])


@_between("all_reduce_coalesced")
def _reduced_each(call: BetweenRanks) -> str:
    lists = [call.operands.get(each, []) for each in call.ranks]
    if any(len(each) != len(lists[0]) for each in lists):
        raise call.call.refused("with lists of different lengths")
    return call.reduced([each[call.number] for each in lists])


@_between("broadcast", *SENDS, BATCH)
def _passed(call: BetweenRanks) -> str:
    return call.only(call.root())


@_between("all_gather", "gather")
def _gathered_list(call: BetweenRanks) -> str:
    return call.only(call.ranks[call.number])


@_between("all_gather_into_tensor", "_all_gather_base")
def _gathered(call: BetweenRanks) -> str:
    return call.call.add("Concat", *(call.only(each) for each in call.ranks), axis=0)


@_between("reduce_scatter")
def _reduced_list(call: BetweenRanks) -> str:
    at = call.at(call.rank)
    return call.reduced([call.listed(each)[at] for each in call.ranks])


@_between("reduce_scatter_tensor", "_reduce_scatter_base")
def _reduced_chunk(call: BetweenRanks) -> str:
    at = call.at(call.rank)
    return call.reduced([call.chunk(each, at) for each in call.ranks])


@_between("all_to_all")
def _exchanged_list(call: BetweenRanks) -> str:
    return call.listed(call.ranks[call.number])[call.at(call.rank)]


@_between("all_to_all_single")
def _exchanged(call: BetweenRanks) -> str:
    at = call.at(call.rank)
    chunks = [call.chunk(each, at, call.sizes(each, 3, "input_split_sizes")) for each in call.ranks]
    return call.call.add("Concat", *chunks, axis=0)


@_between("scatter")
def _scattered(call: BetweenRanks) -> str:
    return call.listed(call.root())[call.at(call.rank)]


def _numbers(value: AttrValue | None) -> tuple[int, ...]:
    if not isinstance(value, tuple):
        return ()
    return tuple(each for each in value if isinstance(each, int))


def _texts(value: AttrValue | None) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else ()
