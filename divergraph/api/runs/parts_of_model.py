"""Parts of a model that no run was kept of: it is run, and compared, for the time being."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path

from divergraph.ask.model_parts import ModelParts, is_graph
from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture.capture_model import CaptureRequest, CaptureResult, capture
from divergraph.golden_capture.device_inputs import DeviceRun
from divergraph.inputs.sources import load_dumps, load_graph, weights_option
from divergraph.jobs.journal import file_stamp, text_key
from divergraph.jobs.progress import Progress
from divergraph.rootcause.options import MethodChoice
from divergraph.submodel.uncompared import parts_with_device_values, uncompared_parts
from graphstore.contract import GraphStore
from graphstore.errors import ExecutionError, InputError
from graphstore.own_folder import OwnFolder


@dataclass(frozen=True, slots=True)
class ModelRun:
    """What there is of the runs of a model that was not compared: the *device*'s graph and its
    *device_dump*, a *golden_dump*. Where that is missing it is made here, on *inputs*, values that
    *seed* makes up, or what the device was fed."""

    device: Path | None = None
    device_dump: Path | None = None
    golden_dump: Path | None = None
    inputs: Mapping[str, Path] = field(default_factory=dict)
    seed: int | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were given, by their names on the command line."""
        values = ((argument.name, getattr(self, argument.name)) for argument in fields(self))
        names = (name for name, value in values if value is not None and value != {})
        return tuple({"seed": "random"}.get(name, name.replace("_", "-")) for name in names)


def model_named(store: GraphStore, name: str) -> Path | None:
    """The model's file that *name* means where no run has that name: an imported graph's, or its
    own; None for neither.

    Raises:
        InputError: the file of the graph is gone.
    """
    if is_graph(store, name):
        source = Path(store.graph_columns(name).header.source)
        if not source.exists():
            raise InputError(
                f"the graph {name!r} was read from here, and nothing is there any more",
                where=str(source),
                hint="give the model's file in its place",
            )
        return source
    path = Path(name)
    return path if path.exists() else None


@contextmanager
def parts_of_model(
    model: Path,
    run: ModelRun,
    progress: Progress,
    *,
    weights: Path | None,
    values: bool,
    judged: bool = False,
    captured: Callable[[CaptureResult], object] = lambda _: None,
    not_run: Callable[[str], object] = lambda _: None,
    compared: Callable[[str], object] = lambda _: None,
) -> Iterator[ModelParts]:
    """The parts of *model*, open while the block runs. Without *values* a part is only chosen, and
    nothing is run; *judged* ones need a device. *captured* is told of a golden dump that was made,
    *not_run* why there is none: then parts that nobody judges have the values of the device alone;
    *compared* is told what the comparison with a golden dump that was given noted.

    Raises:
        InputError: a file cannot be used, or nothing says what goes into the model.
        ExecutionError: the model cannot be run here.
    """
    if (run.device is None) != (run.device_dump is None):
        raise InputError("--device and --device-dump belong together", hint="give both, or neither")
    if judged and run.device is None:
        raise InputError(
            "without --device nothing says what fails", hint="give --device, or --oracle"
        )
    if not values and run.device is None:
        yield ModelParts.of_parts(uncompared_parts(load_graph(model), None))
        return
    with OwnFolder("golden") as folder:
        dump = run.golden_dump
        if dump is None:
            dump = folder / "golden"
            try:
                captured(_captured(model, run, dump, weights, progress))
            except (ExecutionError, InputError) as error:
                if judged or run.device is None or run.device_dump is None:
                    raise
                parts = _of_device(model, run.device, run.device_dump, weights)
                not_run(f"{error.what}; {error.hint}" if error.hint else error.what)
                yield parts
                return
        if run.device is None or run.device_dump is None:
            source = load_graph(model, dump, "golden", weights_option(weights))
            golden = load_dumps(dump, source.graph, "golden")
            yield ModelParts.of_parts(uncompared_parts(source, golden))
            return
        request = CompareRequest(
            model, dump, run.device, run.device_dump, name=model.stem, weights=weights,
            method=MethodChoice.AUTO if values else MethodChoice.THRESHOLDS,
        )  # fmt: skip
        run_data = compare(request, progress)
        for note in run_data.run.warnings if run.golden_dump is not None else ():
            compared(note)
        parts = ModelParts.of(run_data, _made_of(model, weights, run))
        parts.open(progress)
        yield parts


def _of_device(model: Path, device: Path, dump: Path, weights: Path | None) -> ModelParts:
    """The parts of a model that cannot be run here."""
    graph = load_graph(device, dump, "device")
    dump_source = load_dumps(dump, graph.graph, "device")
    source = load_graph(model, None, "golden", weights_option(weights))
    return ModelParts.of_parts(parts_with_device_values(source, graph, dump_source))


def _made_of(model: Path, weights: Path | None, run: ModelRun) -> str:
    """A key of all that such a run is made of, with sizes and times of its files."""
    places = [model, weights, run.device, run.device_dump, run.golden_dump, *run.inputs.values()]
    there = [place.absolute() for place in places if place is not None]
    files = [file for place in there for file in (place, *sorted(place.rglob("*")))]
    stamps = [file_stamp([file]) for file in files]
    return text_key([str(file) for file in files], stamps, sorted(run.inputs), run.seed)


def _captured(
    model: Path, run: ModelRun, folder: Path, weights: Path | None, progress: Progress
) -> CaptureResult:
    """The golden dump of the model, made in *folder*."""
    if run.device is None and not run.inputs and run.seed is None:
        raise InputError(
            "nothing says what goes into the model",
            where=str(model),
            hint="give --device and --device-dump, --golden-dump, --inputs or --random SEED",
        )
    fed = None
    if run.device is not None and run.device_dump is not None:
        fed = DeviceRun(run.device, run.device_dump)
    request = CaptureRequest(
        model, folder, run.inputs, seed=run.seed, weights=weights, device_run=fed
    )
    try:
        return capture(request, progress)
    except ExecutionError as error:
        message = f"the golden side cannot be made here: {error.what}"
        hint = "make it where the model runs, or by divergraph capture, and give --golden-dump"
        raise ExecutionError(message, where=error.where, hint=hint) from error
