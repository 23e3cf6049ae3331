"""What other ranks bring to a collective call: read where a rank's own inputs do not explain what
came out, as an error may have arrived from another rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from divergraph.graphs.lineage import Lineage
from divergraph.graphs.pairing import Pair
from graphstore.model import (
    Comparison,
    DumpTensorRef,
    Level,
    LineageRule,
    ModelGraph,
    Op,
    TensorIO,
    TensorMatch,
    TensorRef,
)
from importers.dumps.index import DamagedError
from importers.dumps.msprobe.index import DUMP, call_tensors, read_call

COLLECTIVE = "Distributed"
"""The kind of calls between ranks."""
GROUP = "input.group"
_MOST = 32
"""Ranks of one call that are read: of more, one in so many is off or all are."""


def rank_folders(graph: ModelGraph) -> dict[int, Path]:
    """The folders of all ranks of the step that *graph* was read from, by rank; empty if it is of
    no rank, or they are not there any more."""
    folder = Path(graph.source).parent
    if _rank_of(folder) is None or not folder.parent.is_dir():
        return {}
    ranked_folders = ((_rank_of(folder), folder) for folder in sorted(folder.parent.iterdir()))
    return {rank: folder for rank, folder in ranked_folders if rank is not None}


def _rank_of(folder: Path) -> int | None:
    number = folder.name.removeprefix("rank")
    return int(number) if number != folder.name and number.isdecimal() else None


def arriving(
    lineage: Lineage, device: ModelGraph, comparisons: Iterable[Comparison]
) -> Iterator[tuple[Pair, str]]:
    """The inputs on other ranks of each collective call whose output is off, numbered behind its
    own, with the words for which they are."""
    golden = lineage.golden.graph
    off = {
        item.op
        for item in comparisons
        if item.io is TensorIO.OUTPUT and item.level in (Level.WARN, Level.FAIL)
    }
    calls = [op for op in device.ops if op.attrs.get("kind") == COLLECTIVE and op.id in off]
    twins = {link.device: link.original for link in lineage.links} if calls else {}
    golden_ops = golden.op_index() if calls else {}
    ours, theirs = (rank_folders(graph) if calls else {} for graph in (device, golden))
    own = _rank_of(Path(device.source).parent)
    for op in calls:
        twin = golden_ops.get(twins.get(op.id, ""))
        named = op.attrs.get(GROUP)
        group = [rank for rank in (named if isinstance(named, tuple) else ours) if rank != own]
        port = len(op.inputs)
        for rank in group[:_MOST] if twin is not None else ():
            if not isinstance(rank, int) or rank not in ours or rank not in theirs:
                continue
            assert twin is not None
            pairs = zip(_read(ours[rank], op), _read(theirs[rank], twin), strict=False)
            for number, (ref, right) in enumerate(pairs):
                match = TensorMatch(
                    TensorRef(op.id, port), TensorRef(twin.id, 0), LineageRule.SAME_NAME
                )
                here = replace(ref, op=op.id, port=port)
                pair = Pair(op, TensorIO.INPUT, port, match, here, right, None, None, outside=True)
                yield pair, f"input {number} of rank {rank}"
                port += 1


def _read(folder: Path, op: Op) -> list[DumpTensorRef]:
    """The inputs of *op* as another rank has them; none where that cannot be read."""
    path = folder / DUMP
    try:
        entry = read_call(path, op.name)
    except DamagedError:  # that rank's own run tells what is wrong with it
        return []
    tensors = call_tensors(path, op.id, entry or {})
    return [
        ref for io, _, ref in tensors if io is TensorIO.INPUT and isinstance(ref, DumpTensorRef)
    ]
