"""Golden's run of one rank as all ranks of a job have it, joined by the calls between them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from divergraph.layouts.by_definition import ByDefinition, by_definition
from divergraph.layouts.counterparts import without
from divergraph.layouts.golden_job import GoldenJob
from divergraph.layouts.rank_layout import RankLayout
from divergraph.layouts.resharding import Resharded, resharded
from divergraph.layouts.shares import AxisShare
from graphstore.model import AttrValue, DumpTensorRef, ModelGraph, TensorIO
from importers.dumps.index import DumpIndex, DumpProblem, TensorKey
from importers.msprobe.collectives import GROUP
from importers.msprobe.graph import ARGUMENTS
from importers.msprobe.job_index import Places, between_ranks, rank_folders, rank_graphs, scan_rank
from importers.msprobe.job_names import OF_THE_DEVICE, RANKS, UNREAD, in_rank, is_job


@dataclass(frozen=True, slots=True)
class ReshardedJob:
    """Golden's ``graph`` and ``dump`` as the ranks of a job have them, the layout of each rank, and
    ``remarks`` for the user."""

    graph: ModelGraph
    dump: DumpIndex
    layouts: Mapping[int, RankLayout]
    remarks: tuple[str, ...]


def job_resharded(
    golden: ModelGraph, golden_dump: DumpIndex, job: ModelGraph, job_dump: DumpIndex
) -> ReshardedJob | None:
    """Golden's graph and dump as the ranks of *job* have them; None where the weights and data of a
    rank do not say. Golden is a run of one rank, or a job itself.

    Raises:
        ImportFormatError: the dump of a rank cannot be read.
    """
    between = between_ranks(job)
    attrs: dict[str, Mapping[str, AttrValue]] = {}
    tensors: dict[TensorKey, DumpTensorRef] = {}
    problems: list[DumpProblem] = []
    layouts: dict[int, RankLayout] = {}
    step = Path(job.source)
    folders = rank_folders(step)
    golden_job = GoldenJob(golden, golden_dump) if is_job(golden) else None
    for rank, graph in rank_graphs(step):
        dump = scan_rank(folders[rank], graph)
        if golden_job is None:
            own = resharded(golden, golden_dump, graph, dump)
        else:
            own = golden_job.resharded(graph, dump)
        if own is None:
            return None
        layouts[rank] = own.layout
        attrs.update((in_rank(rank, op.id), op.attrs) for op in own.graph.ops)
        keys = dict(_joined_keys(rank, graph, between))
        tensors.update((keys[key], ref) for key, ref in own.dump.tensors.items() if key in keys)
        problems += _renamed(own, keys)
    defined = by_definition(job, tensors, job_dump.tensors)
    tensors.update(defined.tensors)
    attrs.update((op, {OF_THE_DEVICE: ports}) for op, ports in defined.of_device.items())
    extra = {op.id for op in job.ops if RANKS not in op.attrs and op.id not in attrs}
    ops = tuple(
        replace(op, attrs={**op.attrs, **attrs[op.id]}) if op.id in attrs else op
        for op in without(job.ops, extra)
    )
    digest = hashlib.sha256(f"{golden.sha256} {job.sha256}".encode()).hexdigest()
    name = f"{golden.name} as {job.name}"
    attrs_of_job = {**job.attrs, **_told_unread(job, layouts, golden_job)}
    graph = replace(
        job, name=name, ops=ops, attrs=attrs_of_job, source=golden.source, sha256=digest
    )
    dump = replace(golden_dump, tensors=tensors, problems=tuple(problems))
    return ReshardedJob(graph, dump, layouts, tuple(_remarks(graph, layouts, defined)))


def _remarks(
    graph: ModelGraph, layouts: Mapping[int, RankLayout], defined: ByDefinition
) -> Iterator[str]:
    if UNREAD not in graph.attrs:
        yield from unread_data(layouts)
    for rank, layout in layouts.items():
        yield from (f"rank {rank}: {sentence}" for sentence in layout.sentences())
    if sentence := defined.sentence():
        yield sentence


def unread_data(layouts: Mapping[int, RankLayout]) -> Iterator[str]:
    """That a part of golden's data is read by no rank: it is another step, or not all ranks are
    there."""
    for axis in (0, 1):
        shares = [share for layout in layouts.values() for share in _data_shares(layout, axis)]
        places = {place for share in shares for place in _places(share)}
        length = max((share.length for share in shares), default=0)
        if shares and all(share.length == length for share in shares) and len(places) < length:
            yield (
                f"only {len(places)} of {length} parts of golden's data along axis {axis} are read "
                "by a rank: where a rank is missing, all that follows is of another step"
            )


def _told_unread(
    job: ModelGraph, layouts: Mapping[int, RankLayout], golden_job: GoldenJob | None
) -> dict[str, AttrValue]:
    """The attribute that says which data no rank of *job* reads although two read the same; none
    where ranks are missing, which may have read them."""
    groups = (op.attrs.get(GROUP, ()) for op in job.ops)
    members = {rank for group in groups if isinstance(group, tuple) for rank in group}
    unread, repeated = any(unread_data(layouts)), _is_repeated(layouts)
    if golden_job is not None:
        unread = unread or golden_job.is_data_unread
        repeated = repeated or golden_job.is_data_repeated
    if not unread or not members <= layouts.keys() or not repeated:
        return {}
    return {
        UNREAD: "some ranks read the same part of golden's data, and another part no rank reads: "
        "all that follows is of another step"
    }


def _is_repeated(layouts: Mapping[int, RankLayout]) -> bool:
    """Whether two ranks read the same data."""
    for axis in (0, 1):
        by_rank = (
            {place for share in _data_shares(layout, axis) for place in _places(share)}
            for layout in layouts.values()
        )
        counts = Counter(place for places in by_rank for place in places)
        if any(count > 1 for count in counts.values()):
            return True
    return False


def _data_shares(layout: RankLayout, axis: int) -> Iterator[AxisShare]:
    return (shares[axis] for shares in layout.data.values() if axis in shares)


def _places(share: AxisShare) -> Iterator[int]:
    return chain.from_iterable(range(start, stop) for start, stop in share.runs)


def _joined_keys(
    rank: int, graph: ModelGraph, between: Mapping[tuple[int, str], Places]
) -> Iterator[tuple[TensorKey, TensorKey]]:
    """The tensors of a rank's own *graph*, each with its place in the graph of the job."""
    for op in graph.ops:
        places = between.get((rank, op.name))
        arguments = op.attrs.get(ARGUMENTS, ())
        names = arguments if isinstance(arguments, tuple) else ()
        for port in range(len(op.inputs)):
            key = op.id, TensorIO.INPUT, port
            if places is None:
                yield key, (in_rank(rank, op.id), TensorIO.INPUT, port)
            elif port < len(names) and (
                joined := places.get((TensorIO.INPUT, f"{op.name}.input.{names[port]}"))
            ):
                yield key, joined
        for port, tensor in enumerate(op.outputs):
            key = op.id, TensorIO.OUTPUT, port
            if places is None:
                yield key, (in_rank(rank, op.id), TensorIO.OUTPUT, port)
            elif joined := places.get((TensorIO.OUTPUT, tensor.name)):
                yield key, joined


def _renamed(own: Resharded, keys: Mapping[TensorKey, TensorKey]) -> Iterator[DumpProblem]:
    for problem in own.dump.problems:
        if problem.op is not None and problem.io is not None and problem.port is not None:
            key = keys.get((problem.op, problem.io, problem.port))
            if key is not None:
                yield replace(problem, op=key[0], port=key[2])
