"""Each device op on its own dumped inputs, without a golden side."""

from __future__ import annotations

from pathlib import Path

from divergraph.api.arguments import AnyPath, optional_path
from divergraph.api.progress import ProgressOption, telling
from divergraph.execute.contract import DEFAULT_MEMORY
from divergraph.inputs.sources import load_dumps, load_graph
from divergraph.rootcause.devices.precision import precision_named
from divergraph.rootcause.options import DEFAULT_OPTIONS, RootCauseOptions
from divergraph.verification.operands import DumpedOperands
from divergraph.verification.verify_dump import Verification
from divergraph.verification.verify_dump import verify as verified
from graphstore.errors import InputError
from graphstore.model import Framework
from importers.dumps.contract import DumpChoice
from importers.msprobe.importer import runs_in
from importers.om.constants import OfflineWeights
from importers.om.constants import weights as weights_of


def verify(
    dump: AnyPath,
    graph: AnyPath | None = None,
    *,
    om: AnyPath | None = None,
    weights: AnyPath | None = None,
    suspect: float = DEFAULT_OPTIONS.suspect,
    guilty: float = DEFAULT_OPTIONS.guilty,
    precision: str = "auto",
    memory: int = DEFAULT_MEMORY,
    time: str | None = None,
    rank: int | None = None,
    model_id: int | None = None,
    step: int | None = None,
    progress: ProgressOption = None,
) -> Verification:
    """Run each op of an Ascend device's *dump* on its own dumped inputs, by GE's definition of it,
    or each call of a recorded PyTorch run by PyTorch's, and say which outputs it cannot have made.

    *graph* is the Build graph the dump was made of (default: *om*, or the recorded run itself).
    Weights are taken from the dump, else from the offline model *om*, else from the folder
    *weights* of ``.npy`` files that are named after their op. The limits *suspect* and *guilty*,
    *precision* and *memory* (bytes) are those of ``compare``; *time*, *rank*, *model_id* and
    *step* choose among several dumps.

    Raises:
        InputError: a path cannot be used, or the graph is neither Ascend's nor a recorded run's.

    >>> import divergraph as dg
    >>> data = dg.demo_data()
    >>> found = dg.verify(data.device_dump, data.device, weights=data.golden_dump)
    >>> [wrong.op for wrong in found.wrong]
    ['LeNet/conv2/Conv2DRelu']
    """
    model, folder = optional_path(om), optional_path(weights)
    place = optional_path(graph) or model
    if not Path(dump).exists():
        raise InputError("no such dump", where=str(dump))
    if place is None and Path(dump).is_dir() and runs_in(Path(dump)):
        place = Path(dump)  # a recorded run's dump is its graph as well
    if place is None:
        raise InputError("a dump alone does not say what feeds what", hint="give its --graph")
    kind = None if precision == "auto" else precision_named(precision)
    options = RootCauseOptions(suspect, guilty, kind, memory)
    choice = DumpChoice(time, rank, model_id, step)
    device = load_graph(place, Path(dump), choice=choice).graph
    is_recorded = device.has_guessed_edges and device.framework is Framework.PYTORCH
    if device.framework is not Framework.ASCEND and not is_recorded:
        raise InputError(
            f"ops of {device.framework} models have no definition here", where=str(place)
        )
    index = load_dumps(Path(dump), device, "device", choice).index
    operands = DumpedOperands(device, index, _constants(model, place), folder)
    with telling(progress) as reporting:
        return verified(operands, options, reporting)


def _constants(model: Path | None, graph: Path) -> OfflineWeights | None:
    if model is None and graph.suffix != ".om":
        return None
    path = model or graph
    if not path.exists():
        raise InputError("no such model", where=str(path), hint="check --om")
    return weights_of(path)
