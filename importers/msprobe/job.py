"""The folders with the recorded runs of all ranks of a step, read as one graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from graphstore.gc_paused import gc_paused
from graphstore.model import ModelGraph
from importers.msprobe.gradients import MARK, Gradients, gradients_of
from importers.msprobe.graph import run_graph
from importers.msprobe.hidden_reductions import Hidden, hidden_reductions, remark, with_reductions
from importers.msprobe.importer import DUMP, load_run, runs_in
from importers.msprobe.job_names import rank_of
from importers.msprobe.joined_ranks import joined_ranks
from importers.msprobe.late_messages import MESSAGE_MARKS, RankMessages, messages_of, with_messages
from importers.source import mapped


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
