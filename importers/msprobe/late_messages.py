"""Messages between ranks that came after the receiver had dumped its buffer.

Calls that do not wait (``isend``, ``irecv``, ``batch_isend_irecv``) return before what they receive
has come, so that the receiver's dump has what the buffer held before. What it goes on with is what
was sent: so a graph is made of the rank's calls with the sender's tensor in that place.
"""

from __future__ import annotations

import copy
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from graphstore.model import TensorIO
from importers.dumps.msprobe.index import tensors_of
from importers.msprobe.calls_between import Key, numbered_parts
from importers.msprobe.collectives import DO_NOT_WAIT, JOINED, KIND
from importers.msprobe.graph import run_graph
from importers.msprobe.importer import LentTensor, RunFiles

Entry: TypeAlias = dict[str, Any]
Ends: TypeAlias = tuple[str, str, str]
"""The shape of a tensor, its least and its largest value, as texts: NaN is itself there."""
Reads: TypeAlias = Mapping[Ends, Sequence[int]]
"""Where the calls of a rank read such a tensor: the numbers of the calls, in order."""
_CALLS = tuple(f"{KIND}.{name.removeprefix(JOINED)}." for name in DO_NOT_WAIT)
MESSAGE_MARKS = tuple(f'"{call}'.encode() for call in _CALLS)
"""What a ``dump.json`` with such calls holds."""
_VALUES = ("Max", "Min", "Mean", "Norm", "md5")


def ends(leaf: Mapping[str, Any]) -> Ends:
    """The ends of a tensor in a ``dump.json``."""
    return str(leaf.get("shape")), str(leaf.get("Min")), str(leaf.get("Max"))


def came_late(sent: Ends | None, received: Ends, reads: Reads, call: int) -> bool:
    """Whether what a rank *received* in a *call* was dumped before it came: it is not what was
    *sent*, and it is not what the rank goes on to compute with.

    A buffer is used again, so that what it holds before a message comes is read elsewhere, too:
    what counts is what is read first after the call. That one value everywhere, such as 0, is read
    says nothing.
    """
    if received == sent:
        return False
    read_first, sent_first = (
        next((place for place in reads.get(each, ()) if place > call), math.inf)
        for each in (received, sent or received)
    )
    is_read = read_first < (math.inf if sent is None else sent_first)
    return received[1] == received[2] or not is_read


@dataclass(frozen=True, slots=True)
class _Tensor:
    """Tensor *port* among the inputs or outputs (``io``) of a call, number *number* of its rank."""

    path: Path
    call: str
    entry: Entry
    io: TensorIO
    port: int
    number: int

    @property
    def leaf(self) -> Mapping[str, Any]:
        return list(tensors_of(self.call, self.entry, self.io))[self.port]


@dataclass
class RankMessages:
    """What the calls of one rank that do not wait send and receive, by message, and where the rank
    reads tensors of the shape of any of them."""

    sent: dict[Key, _Tensor] = field(default_factory=dict)
    received: dict[Key, _Tensor] = field(default_factory=dict)
    reads: defaultdict[Ends, list[int]] = field(default_factory=lambda: defaultdict(list))


def messages_of(files: RunFiles, rank: int, world: tuple[int, ...]) -> RankMessages | None:
    """Those of a *rank* of the job of the ranks *world*; None if there are none."""
    entries = files.calls or {}
    calls = {name: entry for name, entry in entries.items() if name.startswith(_CALLS)}
    if not calls:
        return None
    messages, count = RankMessages(), Counter[Key]()
    numbers = {name: number for number, name in enumerate(entries)}
    for op in run_graph(replace(files, calls=calls, construct={}, stack={})).ops:
        for part in numbered_parts(op, rank, world, count):
            tensor = partial(_Tensor, files.path, op.name, calls[op.name])
            if part.inputs:
                messages.sent[part.key] = tensor(TensorIO.INPUT, part.inputs[0], numbers[op.name])
            elif part.outputs:
                messages.received[part.key] = tensor(
                    TensorIO.OUTPUT, part.outputs[0], numbers[op.name]
                )
    shapes = {str(tensor.leaf.get("shape")) for tensor in messages.received.values()}
    for name, entry in entries.items():
        for leaf in tensors_of(name, entry, TensorIO.INPUT) if name not in calls else ():
            if str(leaf.get("shape")) in shapes:  # of all else nobody asks
                messages.reads[ends(leaf)].append(numbers[name])
    return messages


def with_messages(files: RunFiles, rank: int, ranks: Mapping[int, RankMessages]) -> RunFiles:
    """The *files* of a rank with what was sent to it where that came late."""
    sent = {key: tensor for each in ranks.values() for key, tensor in each.sent.items()}
    calls = dict(files.calls or {})
    lent: dict[tuple[str, TensorIO, int], LentTensor] = {}
    for key, received in ranks[rank].received.items() if rank in ranks else ():
        source = sent.get(key)
        if source is None:
            continue
        reads = ranks[rank].reads
        if came_late(ends(source.leaf), ends(received.leaf), reads, received.number):
            entry = calls[received.call] = copy.deepcopy(calls[received.call])
            cast(Entry, replace(received, entry=entry).leaf).update(
                {name: source.leaf[name] for name in _VALUES if name in source.leaf}
            )
            lent[received.call, received.io, received.port] = (
                source.path, source.call, source.entry, source.io, source.port,
            )  # fmt: skip
    return replace(files, calls=calls, lent=lent) if lent else files
