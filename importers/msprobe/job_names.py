"""How ops, tensors and arguments of several ranks are called in the graph of their job."""

from __future__ import annotations

import re
from pathlib import Path

from graphstore.columns.op_attributes import RANK as RANK
from graphstore.columns.op_attributes import RANKS as RANKS
from graphstore.columns.op_attributes import job_ranks
from graphstore.model import ModelGraph, Op

CALLS = "calls"
"""The attribute of an op between ranks with the names of their calls, in the order of its ranks."""
UNREAD = "unread data"
"""The attribute of a golden run, as the ranks of a job have it, that says which of its data no rank
reads although some read the same: the job was fed other data."""
OF_THE_DEVICE = "of the device's inputs"
"""The attribute of a golden call between ranks with the numbers of its outputs that golden's run
lacks, and that are what the call makes of what the device's ranks gave."""
BODIES = "bodies"
"""The attribute of an op between ranks with the bodies it is in, one for each of its ranks."""
SOURCE, TARGET = "source", "target"
"""The attributes with the ranks a message goes from and to."""

_FOLDER = re.compile(r"rank(\d+)")


def rank_of(folder: Path) -> int | None:
    """The rank whose dump a *folder* of this name holds; None for other folders."""
    match = _FOLDER.fullmatch(folder.name)
    return None if match is None else int(match[1])


def is_job(graph: ModelGraph) -> bool:
    """Whether *graph* joins several ranks."""
    return RANKS in graph.attrs


def in_rank(rank: int, name: str) -> str:
    """What is called *name* on *rank*, in the graph of the job."""
    return f"rank{rank}/{name}"


def split_rank(name: str) -> tuple[str, str]:
    """``rank1/`` and the rest of a *name* in the graph of a job; "" and all of other names."""
    head, slash, rest = name.partition("/")
    return (head + slash, rest) if slash and head.startswith("rank") else ("", name)


def place_in_rank(rank: int, place: str) -> str:
    """The argument at *place* of the call on *rank*, as an op between ranks has it."""
    return f"{RANK}{rank}.{place}"


def split_place(place: str) -> tuple[int, str]:
    """The rank, and the place among the arguments of its call, of :func:`place_in_rank`."""
    rank, _, rest = place.partition(".")
    return int(rank.removeprefix(RANK)), rest


def bodies_of(op: Op) -> tuple[str, ...]:
    """The bodies an *op* is in: of one between ranks a module's of each rank."""
    bodies = op.attrs.get(BODIES, (op.subgraph,))
    return tuple(map(str, bodies)) if isinstance(bodies, tuple) else ()


def ranks_of(op: Op) -> tuple[int, ...]:
    """The ranks that call an *op* of a job; none of other graphs' ops."""
    return job_ranks(op.attrs)


def rank_of_output(op: Op, port: int) -> int:
    """The rank that has output *port* of an *op* of a job."""
    rank = op.attrs.get(RANK)
    if isinstance(rank, int):
        return rank
    place = op.outputs[port].name.removeprefix(f"{op.name}.output.")
    return split_place(place)[0]
