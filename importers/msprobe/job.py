"""The folders with the recorded runs of all ranks of a step, read as one graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from graphstore.gc_paused import gc_paused
from graphstore.model import ModelGraph
from importers.msprobe.gradients import MARK, Gradients, gradients_of
from importers.msprobe.graph import run_graph
from importers.msprobe.hidden_reductions import Hidden, hidden_reductions, remark, with_reductions
from importers.msprobe.importer import DUMP, load_run, runs_in
from importers.msprobe.job_names import rank_of
from importers.msprobe.joined_ranks import joined_ranks
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
    graphs: dict[int, ModelGraph] = {}
    with gc_paused():
        found = _hidden_reductions(rank_folders(step))
        graphs.update(_rank_graphs(step, found))
        return joined_ranks(graphs, step, remark(found))


def rank_graphs(step: Path) -> Iterator[tuple[int, ModelGraph]]:
    """Each rank in the folder of a *step*, with its own graph, as the job is joined of them."""
    yield from _rank_graphs(step, _hidden_reductions(rank_folders(step)))


def _rank_graphs(step: Path, found: Sequence[Hidden]) -> Iterator[tuple[int, ModelGraph]]:
    for rank, folder in rank_folders(step).items():
        yield rank, run_graph(with_reductions(load_run(folder / DUMP), rank, found))


def _hidden_reductions(folders: Mapping[int, Path]) -> list[Hidden]:
    """Those of gradients, as what the ranks in *folders* dumped shows."""
    ranks: dict[int, Gradients] = {}
    for rank, folder in folders.items():
        with mapped(folder / DUMP) as buffer:
            has_gradients = buffer.find(MARK) >= 0
        found = gradients_of(load_run(folder / DUMP)) if has_gradients else None
        if found is not None:
            ranks[rank] = found
    return hidden_reductions(ranks)
