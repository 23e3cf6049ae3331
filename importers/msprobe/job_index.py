"""The tensors of all ranks' dumps, by op of the graph that joins them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

from graphstore.gc_paused import gc_paused
from graphstore.model import AttrValue, DumpTensorRef, ModelGraph, Op, Reason, TensorIO
from importers.dumps.index import DumpIndex, DumpProblem, Gathering, TensorKey, of_no_op
from importers.dumps.msprobe.index import (
    Entry,
    gather_tensors,
    read_dump_json,
    scan_msprobe,
    tensors_of,
    tensors_of_op,
)
from importers.msprobe.calls import INFERRED, call_of
from importers.msprobe.calls_between import (
    MESSAGE_MARKS,
    Ends,
    RankMessages,
    Reads,
    came_late,
    messages_of,
    with_messages,
)
from importers.msprobe.calls_between import ends as ends_of
from importers.msprobe.collectives import DO_NOT_WAIT
from importers.msprobe.gradients import MARK, Gradients, gradients_of
from importers.msprobe.graph import ARGUMENTS, run_graph
from importers.msprobe.hidden_reductions import Hidden, hidden_reductions, remark, with_reductions
from importers.msprobe.importer import DUMP, load_run, runs_in
from importers.msprobe.job_names import (
    CALLS,
    RANKS,
    TARGET,
    in_rank,
    rank_of,
    rank_of_output,
    split_place,
)
from importers.msprobe.joined_ranks import joined_ranks
from importers.source import mapped


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


# The folders with the recorded runs of all ranks of a step, read as one graph.


def rank_folders(step: Path) -> dict[int, Path]:
    """The folders of the ranks in the folder of a *step*, by rank."""
    ranks = ((rank_of(each), each) for each in step.iterdir() if (each / DUMP).is_file())
    return dict(sorted((rank, folder) for rank, folder in ranks if rank is not None))


def job_steps(folder: Path, step: str | None = None) -> list[Path]:
    """The folders in or below *folder* that hold several ranks of one step each, in the order of
    steps; only those of *step* where it is given."""
    from importers.dumps.folder import leaf_of  # readers of dumps load protobuf

    ranked = [run for run in runs_in(folder) if rank_of(run) is not None and run != folder]
    number = {run.parent: leaf_of(folder, run).step for run in ranked}
    several = Counter(run.parent for run in ranked)
    found = [each for each in number if several[each] > 1 and step in (None, number[each])]
    return sorted(found, key=lambda each: (len(number[each]), number[each], each))


def job_graph(step: Path) -> ModelGraph:
    """The graph of all ranks in the folder of a *step*.

    Raises:
        ImportFormatError: the dump of a rank cannot be read.
    """
    with gc_paused():
        seen = _seen(rank_folders(step))
        return joined_ranks(dict(_rank_graphs(step, seen)), step, remark(seen.reductions))


def rank_graphs(step: Path) -> Iterator[tuple[int, ModelGraph]]:
    """Each rank in the folder of a *step*, with its own graph, as the job is joined of them."""
    yield from _rank_graphs(step, _seen(rank_folders(step)))


class _SeenOnRanks(NamedTuple):
    """What the dumps of all ranks show together and none by itself."""

    reductions: Sequence[Hidden]
    messages: Mapping[int, RankMessages]


def _rank_graphs(step: Path, seen: _SeenOnRanks) -> Iterator[tuple[int, ModelGraph]]:
    for rank, folder in rank_folders(step).items():
        files = with_messages(load_run(folder / DUMP), rank, seen.messages)
        yield rank, run_graph(with_reductions(files, rank, seen.reductions))


def _seen(folders: Mapping[int, Path]) -> _SeenOnRanks:
    gradients: dict[int, Gradients] = {}
    messages: dict[int, RankMessages] = {}
    for rank, folder in folders.items():
        with mapped(folder / DUMP) as buffer:
            has_gradients = buffer.find(MARK) >= 0
            has_messages = any(buffer.find(mark) >= 0 for mark in MESSAGE_MARKS)
        if not (has_gradients or has_messages):
            continue
        files = load_run(folder / DUMP)
        if has_gradients and (found := gradients_of(files)) is not None:
            gradients[rank] = found
        if has_messages and (sent := messages_of(files, rank, tuple(folders))) is not None:
            messages[rank] = sent
    return _SeenOnRanks(hidden_reductions(gradients), messages)
