"""Checks of a device's dump by itself, without a golden side."""

from __future__ import annotations

from pathlib import Path

from divergraph.api.arguments import AnyPath, optional_path
from divergraph.api.progress import ProgressOption, telling
from divergraph.consistency.checks import ConsistencyReport, check_consistency
from divergraph.inputs.kept_paths import kept_path
from divergraph.inputs.sources import load_dumps, load_graph
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import ModelGraph, Run
from importers.dumps.contract import ANY_DUMP, DumpChoice


def consistency(
    dump: AnyPath,
    graph: AnyPath,
    *,
    against: AnyPath | None = None,
    time: str | None = None,
    rank: int | None = None,
    model_id: int | None = None,
    step: int | None = None,
    progress: ProgressOption = None,
) -> ConsistencyReport:
    """Check the *dump* of a device's *graph* by itself, or *against* a second dump of it.

    Found are ops where NaN, infinities or the end of float16 first appear, overflows the device
    recorded, inputs that differ from their producer's output, constant outputs, and differences
    between two dumps. *time*, *rank*, *model_id* and *step* choose among several dumps of a folder.

    Raises:
        InputError: a path cannot be used.

    >>> import divergraph as dg
    >>> data = dg.demo_data()
    >>> report = dg.check_consistency(data.device_dump, data.device)
    >>> report.tensors > 0, len(report.findings)
    (True, 0)
    """
    if not Path(dump).exists():
        raise InputError("no such dump", where=str(dump))
    choice = DumpChoice(time, rank, model_id, step)
    device = load_graph(Path(graph), Path(dump), choice=choice).graph
    return _checked(device, Path(dump), choice, against, progress)


def consistency_of_run(
    run: Run, store: GraphStore, against: AnyPath | None, progress: ProgressOption
) -> ConsistencyReport:
    """The same for the device's dump and graph of a run.

    Raises:
        InputError: its dump is gone.
    """
    device = store.graph(run.name)
    return _checked(device, kept_path(run, "device_dump"), ANY_DUMP, against, progress)


def _checked(
    device: ModelGraph,
    folder: Path,
    choice: DumpChoice,
    against: AnyPath | None,
    progress: ProgressOption,
) -> ConsistencyReport:
    second = optional_path(against)
    if second is not None and not second.exists():
        raise InputError("no such dump", where=str(second), hint="check --against")
    one = load_dumps(folder, device, "device", choice).index
    other = None if second is None else load_dumps(second, device, "second", ANY_DUMP).index
    with telling(progress) as reporting:
        return check_consistency(device, one, other, reporting)
