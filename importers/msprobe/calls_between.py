"""What of a call between ranks belongs to which op of the job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from graphstore.model import Op
from importers.msprobe.collectives import (
    BATCH,
    BY_NAME,
    GROUP,
    JOINED,
    RECEIVES,
    SENDS,
    is_read,
    is_written,
)
from importers.msprobe.graph import ARGUMENTS
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
