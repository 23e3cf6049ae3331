"""The root-cause analysis of a run that was compared before, from the files it was made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from divergraph.execute.contract import DEFAULT_MEMORY
from divergraph.graphs.assumed_axes import with_axes_settled
from divergraph.graphs.linking_run import linked_graphs
from divergraph.graphs.pairing import Pair, device_order, pair_tensors
from divergraph.inputs.kept_paths import FILES, kept_path
from divergraph.inputs.sources import (
    DumpSource,
    GraphSource,
    load_dumps,
    load_graph,
    weights_option,
)
from divergraph.jobs.progress import Progress
from divergraph.layouts.sides import in_device_layout
from divergraph.rootcause.run_inputs import RunSources
from divergraph.text.words import counted
from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import ModelGraph, Run
from graphstore.traverse.topological_order import graph_arrays


def with_warnings(data: RunData, warnings: Iterable[str]) -> RunData:
    """*data* with more warnings, each of them once."""
    texts = dict.fromkeys((*data.run.warnings, *warnings))
    return replace(data, run=replace(data.run, warnings=tuple(texts)))


def dumps_written_since(run: Run, pairs: Sequence[Pair]) -> Iterator[str]:
    """A warning if dump files are newer than the comparison, whose metrics may be out of date."""
    compared = datetime.fromisoformat(run.created).timestamp()
    files = dict.fromkeys(ref.path for pair in pairs for ref in (pair.golden, pair.device))
    newer = [path for path in files if path.exists() and path.stat().st_mtime > compared]
    if newer:
        yield (
            f"{counted(len(newer), 'dump file')} written after the run was compared (first: "
            f"{newer[0]}): if values changed, its metrics are out of date; compare again"
        )


def check_there(run: Run) -> None:
    """Return if the models and dumps of a stored run lie where it says.

    Raises:
        InputError: one of them is gone.
    """
    for what in FILES:
        kept_path(run, what)


def sources_of(data: RunData, progress: Progress, memory: int = DEFAULT_MEMORY) -> RunSources:
    """The files a stored run was made of, opened; matching holds about *memory* bytes at once.

    Raises:
        InputError: a model or dump is gone or another one than was compared.
    """
    progress.stage("reading graphs")
    golden = _graph(data, "golden")
    same = data.device.id == data.golden.id and _path(data, "device") == _path(data, "golden")
    device = golden if same else _graph(data, "device")  # gigabytes are read once
    progress.stage("finding dumps")
    golden_dump = load_dumps(kept_path(data.run, "golden_dump"), golden.graph, "golden")
    device_dump = load_dumps(kept_path(data.run, "device_dump"), device.graph, "device")
    golden_dump, device_dump = with_axes_settled(golden, device, golden_dump, device_dump)
    golden, golden_dump = in_device_layout(golden, device, golden_dump, device_dump)
    for side, source, known in (("golden", golden, data.golden), ("device", device, data.device)):
        _check_same(side, source, known)
    pairs = _pairs(data, golden, device, golden_dump, device_dump, progress, memory)
    return RunSources(golden.path, device.path, golden_dump.index, device_dump.index, pairs)


def _pairs(
    data: RunData,
    golden: GraphSource,
    device: GraphSource,
    golden_dump: DumpSource,
    device_dump: DumpSource,
    progress: Progress,
    memory: int,
) -> list[Pair]:
    match_file = kept_path(data.run, "match") if data.run.inputs.get("match") else None
    linked = linked_graphs(golden, device, golden_dump, device_dump, match_file, progress, memory)
    order = device_order(device.graph, list(graph_arrays(device.graph).ids))
    items = pair_tensors(order, linked.lineage, device_dump.index, golden_dump.index)
    return [item for item in items if isinstance(item, Pair)]


def _path(data: RunData, side: str) -> Path:
    return kept_path(data.run, side)


def _graph(data: RunData, side: str) -> GraphSource:
    apart = side == "golden" and bool(data.run.inputs.get("weights"))
    weights = weights_option(kept_path(data.run, "weights") if apart else None)
    return load_graph(_path(data, side), None, side, weights)


def _check_same(side: str, source: GraphSource, known: ModelGraph) -> None:
    if source.graph.id != known.id:
        raise InputError(
            f"the {side} graph is not the one that was compared",
            where=str(source.path),
            hint="compare again",
        )
