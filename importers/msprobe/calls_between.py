"""What of a call between ranks belongs to which op of the job."""

from __future__ import annotations

import copy
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from graphstore.model import Op, TensorIO
from importers.dumps.msprobe.index import tensors_of
from importers.msprobe.collectives import (
    BATCH,
    BY_NAME,
    DO_NOT_WAIT,
    GROUP,
    JOINED,
    KIND,
    RECEIVES,
    SENDS,
    is_read,
    is_written,
)
from importers.msprobe.graph import ARGUMENTS, run_graph
from importers.msprobe.importer import LentTensor, RunFiles
from importers.msprobe.job_names import RANK, SOURCE, split_place

Key: TypeAlias = tuple[str | int | tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class CallPart:
    """What of a call between ranks belongs to the op ``key``: tensors by port. A rank waits for it
    where it ``waits``."""

    key: Key
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    waits: bool


def numbered_parts(
    op: Op, rank: int, world: tuple[int, ...], count: Counter[Key]
) -> Iterator[CallPart]:
    """As :func:`parts_of`, with numbers behind the keys; *count* has those of the rank so far."""
    for part in parts_of(op, rank, world):
        yield replace(part, key=(*part.key, count[part.key]))
        count[part.key] += 1


def parts_of(op: Op, rank: int, world: tuple[int, ...]) -> Iterator[CallPart]:
    """What of a call between ranks belongs to which op; keys are without their number yet."""
    if op.type == BATCH:
        yield from _batch(op, rank)
        return
    attrs = op.attrs
    if op.type in (*SENDS, *RECEIVES):
        peer = attrs.get("input.1", attrs.get("input.dst", attrs.get("input.src")))
        tag = attrs.get("input.tag", attrs.get("input.3", 0))
        if not isinstance(peer, int) or not isinstance(tag, int):
            return  # from whoever sends: nothing says from whom
        ends = (rank, peer) if op.type in SENDS else (peer, rank)
        key: Key = (SOURCE, *ends, tag)
        root, waits = rank, op.type == "recv"
    else:
        group = _group(op) or world
        if rank not in group:
            return  # the group is another rank's, as where a dump was copied: nobody answers
        collective = BY_NAME.get(op.type)
        at = None if collective is None else collective.root
        named = at and attrs.get(f"input.{at.place}", attrs.get(f"input.{at.keyword}", 0))
        root = named if isinstance(named, int) else rank
        key = op.type, group
        waits = attrs.get("input.async_op") is not True
    is_root = root == rank
    places = attrs.get(ARGUMENTS, ())
    begin = len(f"{op.name}.output.")
    yield CallPart(
        key,
        tuple(
            port
            for port, place in enumerate(places if isinstance(places, tuple) else ())
            if is_read(op.type, str(place), at_root=is_root)
        ),
        tuple(
            port
            for port, tensor in enumerate(op.outputs)
            if is_written(op.type, tensor.name[begin:], at_root=is_root)
        ),
        waits,
    )


def _batch(op: Op, rank: int) -> Iterator[CallPart]:
    """The messages of a batch, one by one; a rank goes on before they have come."""
    places = op.attrs.get(ARGUMENTS, ())
    numbers = (
        [str(place).rpartition(".")[0] for place in places] if isinstance(places, tuple) else []
    )
    outputs = {
        tensor.name.removeprefix(f"{op.name}.output.").rpartition(".")[0]: port
        for port, tensor in enumerate(op.outputs)
    }
    for port, number in enumerate(numbers):
        kind, peer, tag = (op.attrs.get(f"input.{number}.{name}") for name in ("op", "peer", "tag"))
        if not isinstance(peer, int) or not isinstance(tag, int) or number not in outputs:
            continue
        after = (outputs[number],)
        if kind in SENDS:
            yield CallPart((SOURCE, rank, peer, tag), (port,), after, False)
        elif kind in RECEIVES:
            yield CallPart((SOURCE, peer, rank, tag), (), after, False)


def place_in_batch(op: Op, part: CallPart) -> str:
    """``.1`` for the second message of a batch; empty for other calls."""
    if op.type != BATCH:
        return ""
    begin = len(f"{op.name}.output.0")
    return op.outputs[part.outputs[0]].name[begin:].removesuffix(".tensor")


def is_size(op: Op, key: str) -> bool:
    """Whether the attribute *key* of a call between ranks says how many rows go to which."""
    _, is_input, place = key.partition("input.")
    if place.startswith(RANK):
        _, place = split_place(place)
    collective = BY_NAME.get(op.type.removeprefix(JOINED))
    if not is_input or collective is None:
        return False
    head = place.partition(".")[0]
    return any(head in (str(each.place), each.keyword) for each in collective.sizes)


def _group(op: Op) -> tuple[int, ...]:
    """The ranks of the group that a call names; none where it names none."""
    named = op.attrs.get(GROUP) or next(
        (v for k, v in op.attrs.items() if k.startswith("input.") and isinstance(v, tuple)), ()
    )
    ranks = named if isinstance(named, tuple) else ()
    return tuple(rank for rank in ranks if isinstance(rank, int))


def ranks_of_key(key: Key) -> tuple[int, ...]:
    """The ranks of an op between ranks."""
    if key[0] == SOURCE:
        return tuple(rank for rank in key[1:3] if isinstance(rank, int))
    group = key[1]
    return group if isinstance(group, tuple) else ()


# Messages between ranks that came after the receiver had dumped its buffer.
#
# Calls that do not wait (``isend``, ``irecv``, ``batch_isend_irecv``) return before what they
# receive has come, so that the receiver's dump has what the buffer held before. What it goes on
# with is what was sent: so a graph is made of the rank's calls with the sender's tensor in that
# place.


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
