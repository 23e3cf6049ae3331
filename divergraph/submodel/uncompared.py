"""The parts of a model that was compared with nothing."""

from __future__ import annotations

from datetime import UTC, datetime

from divergraph.inputs.kept_paths import with_folder
from divergraph.inputs.sources import DumpSource, GraphSource
from divergraph.rootcause.run_inputs import RunSources
from divergraph.submodel.run_graphs import no_device
from divergraph.submodel.run_parts import RunParts
from graphstore.contract import RunData
from graphstore.model import Counts, Method, Run, Verdict
from importers.dumps.index import DumpIndex


def uncompared_parts(model: GraphSource, dump: DumpSource | None) -> RunParts:
    """What the run of *model* alone has: its own tensors, if there is a *dump*; no device."""
    graph = model.graph
    device = no_device(graph)
    paths = {"golden": str(model.path)}
    if dump is not None:
        paths["golden_dump"] = str(dump.path)
    run = Run(
        graph.name or model.path.stem,
        graph.id,
        device.id,
        datetime.now(UTC).isoformat(timespec="milliseconds"),
        Verdict.NOT_COMPARED,
        Method.THRESHOLDS,
        Counts(0, 0, 0, 0, 0),
        {},
        with_folder(paths),
    )
    data = RunData(run, graph, device, (), (), {}, ())
    index = DumpIndex() if dump is None else dump.index
    return RunParts(data, RunSources(model.path, model.path, index, DumpIndex(), ()))
