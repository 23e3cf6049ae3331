"""The tensors of all ranks' dumps, by op of the graph that joins them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from graphstore.gc_paused import gc_paused
from graphstore.model import AttrValue, DumpTensorRef, ModelGraph, Op, Reason, TensorIO
from importers.dumps.index import DumpIndex, DumpProblem, Gathering, TensorKey, of_no_op
from importers.dumps.msprobe.index import (
    DUMP,
    Entry,
    gather_tensors,
    read_dump_json,
    scan_msprobe,
    tensors_of,
    tensors_of_op,
)
from importers.msprobe.calls import INFERRED, call_of
from importers.msprobe.collectives import DO_NOT_WAIT
from importers.msprobe.graph import ARGUMENTS
from importers.msprobe.job import rank_folders
from importers.msprobe.job_names import CALLS, RANKS, TARGET, in_rank, rank_of_output, split_place
from importers.msprobe.late_messages import Ends, Reads, came_late
from importers.msprobe.late_messages import ends as ends_of


def scan_job(step: Path, graph: ModelGraph) -> DumpIndex:
    """The tensors in the folder of a *step* by op of *graph*, which joins its ranks.

    Raises:
        DamagedError: the ``dump.json`` of a rank cannot be read.
    """
    ops = {op.name: op for op in graph.ops if RANKS not in op.attrs}
    between = between_ranks(graph)
    gathered = Gathering()
    missing: list[str] = []
    messages = {op.id: op for op in graph.ops if op.type in DO_NOT_WAIT}
    ends: dict[TensorKey, Ends] = {}
    read: dict[int, defaultdict[Ends, list[int]]] = {}
    calls: dict[tuple[int, str], int] = {}
    with gc_paused():
        for rank, folder in rank_folders(step).items():
            path = folder / DUMP
            entries = read_dump_json(path)
            gathered.files += len(entries)
            read[rank] = defaultdict(list)
            for place, (name, entry) in enumerate(entries.items()):
                op = ops.get(in_rank(rank, name))
                if op is not None:
                    gather_tensors(gathered, path, tensors_of_op(op, entry))
                elif (rank, name) in between:
                    tensors = list(_tensors_between(between[rank, name], name, entry))
                    gather_tensors(gathered, path, tensors)
                    own = {key: ends_of(leaf) for key, leaf in tensors if messages}
                    ends.update(own)
                    calls[rank, name] = place
                    for key in own:
                        if key[1] is TensorIO.INPUT and key[0] not in messages:
                            read[rank][own[key]].append(place)
                else:
                    missing.append(in_rank(rank, name))
                if messages and (rank, name) not in between:
                    for leaf in tensors_of(name, entry, TensorIO.INPUT):
                        read[rank][ends_of(leaf)].append(place)
    for op in messages.values():
        _leave_out_early(gathered, op, ends, read, calls)
    gathered.tensors.update(_of_inferred(graph, gathered.tensors))
    return gathered.index(notes=(of_no_op(missing, "call"),) if missing else ())


def _leave_out_early(
    gathered: Gathering,
    message: Op,
    ends: Mapping[TensorKey, Ends],
    read: Mapping[int, Reads],
    numbers: Mapping[tuple[int, str], int],
) -> None:
    """Leave out what a rank received if it was dumped before it came, as calls that do not wait
    allow: it is not what was sent, and it is not what the rank goes on to compute with."""
    sent = ends.get((message.id, TensorIO.INPUT, 0))
    calls = dict(zip(_listed(message, RANKS), _listed(message, CALLS), strict=True))
    for output in message.makes:
        key = message.id, TensorIO.OUTPUT, output.port
        received, rank = ends.get(key), rank_of_output(message, output.port)
        if rank != message.attrs.get(TARGET) or received is None:
            continue
        if not came_late(sent, received, read[rank], numbers[rank, str(calls[rank])]):
            continue
        ref = gathered.tensors.pop(key, None)
        if ref is not None:
            why = "it was dumped before it had come: no call of the rank reads it next"
            gathered.problems.append(DumpProblem(ref.path, *key, Reason.UNREADABLE_DUMP, why))


def scan_rank(folder: Path, graph: ModelGraph) -> DumpIndex:
    """The tensors in the *folder* of a rank by op of its own *graph*.

    Raises:
        DamagedError: its ``dump.json`` cannot be read.
    """
    index = scan_msprobe(folder, graph)
    return replace(index, tensors={**index.tensors, **dict(_of_inferred(graph, index.tensors))})


def _of_inferred(
    graph: ModelGraph, tensors: Mapping[TensorKey, DumpTensorRef]
) -> Iterator[tuple[TensorKey, DumpTensorRef]]:
    """The tensors of the calls that were inferred: what they read lies where it was made, and what
    they made where it is read."""
    inferred = {op.id for op in graph.ops if INFERRED in op.attrs}
    for op in graph.ops if inferred else ():
        for port, ref in enumerate(op.inputs):
            source = None if ref is None else ref.producer
            if source is None or not inferred & {source.op, op.id}:
                continue
            read = op.id, TensorIO.INPUT, port
            made = source.op, TensorIO.OUTPUT, source.port
            key, known = (read, made) if op.id in inferred else (made, read)
            found = tensors.get(known)
            if found is not None:
                yield key, replace(found, op=key[0], io=key[1], port=key[2])


Places: TypeAlias = dict[tuple[TensorIO, str], TensorKey]
"""Where a tensor of a call between ranks is in the op that joins them, by its own name."""


def between_ranks(graph: ModelGraph) -> dict[tuple[int, str], Places]:
    """The calls that are part of an op between ranks, by rank and name."""
    found: dict[tuple[int, str], Places] = {}
    for op in graph.ops:
        calls = dict(zip(_listed(op, RANKS), _listed(op, CALLS), strict=True))
        named = [(TensorIO.INPUT, str(place)) for place in _listed(op, ARGUMENTS)] if calls else []
        begin = len(f"{op.name}.output.")
        named += [(TensorIO.OUTPUT, tensor.name[begin:]) for tensor in op.outputs if calls]
        ports: Counter[TensorIO] = Counter()
        for io, named_place in named:
            rank, place = split_place(named_place)
            call = str(calls[rank])
            key = op.id, io, ports[io]
            found.setdefault((rank, call), {})[io, f"{call}.{io}.{place}"] = key
            ports[io] += 1
    return found


def _listed(op: Op, attribute: str) -> tuple[AttrValue, ...]:
    value = op.attrs.get(attribute, ())
    return value if isinstance(value, tuple) else ()


def _tensors_between(places: Places, name: str, entry: Entry) -> Iterator[tuple[TensorKey, Entry]]:
    call = call_of(name, entry)
    for io, tensors in ((TensorIO.INPUT, call.inputs), (TensorIO.OUTPUT, call.outputs)):
        for tensor, leaf in zip(tensors, tensors_of(name, entry, io), strict=True):
            key = places.get((io, tensor.name))
            if key is not None:
                yield key, leaf
