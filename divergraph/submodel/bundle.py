"""A part of a model with its data, in a folder that stands alone in a bug report.

The folder's name, ``dump.*`` files and log lines are those of the vendor's guide to
exporting sub-models; manifest and replay program are ours.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from divergraph.files.os_errors import os_errors_told
from divergraph.inputs.kept_paths import kept_path
from divergraph.submodel.bundle_data import DevicePartData, PartData
from divergraph.submodel.device_parts import is_in_bodies, standing_for
from divergraph.submodel.export.calls_script import SCRIPT
from divergraph.submodel.export.contract import (
    REPLAYED_BY,
    TOLERANCE,
    PartFormat,
    PartSource,
    WrittenPart,
    own_format,
    writer_of,
)
from divergraph.submodel.export.ge_export import write_ge_part
from divergraph.submodel.export.onnx_types import codes_of, half_tolerance, halves_inside
from divergraph.submodel.run_graphs import LinkedGraphs
from divergraph.submodel.run_parts import RunParts
from divergraph.submodel.selection import BoundaryTensor, Selection
from divergraph.version import __version__
from graphstore.errors import InputError
from graphstore.model import Framework, ModelGraph
from importers.dumps.names import CAPTURED
from importers.kept import some

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
_OTHER_ENGINE = 1e-5
"""Tolerance for float32 sums in another order: a dump that was not captured here comes from another
engine, or from an optimised model."""


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """What to write where: the bundle's folder is made in *output*. *weights* is the model's
    separate file of weights, if it has one. *variant* says whose inputs show the failure; the
    values of both sides are written where there are any."""

    output: Path
    format: PartFormat | None = None
    weights: Path | None = None
    variant: str = "golden"
    evidence: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bundle:
    """The bundle that was written."""

    path: Path
    files: tuple[str, ...]
    manifest: Mapping[str, Any]


def write_bundle(parts: RunParts, part: Selection, request: BundleRequest) -> Bundle:
    """Write *part* of the run's golden graph with its data. Nothing half-written is left behind.

    Raises:
        InputError: the part is refused, cannot be written in this form, or the folder not
            be written to.
    """
    if part.refused:
        raise InputError(part.refused[0].sentence)
    wanted = request.format or own_format(parts.golden)
    of_device = is_of_device(parts, wanted)
    graph = graph_of(parts, wanted)
    writer = writer_of(wanted, graph)
    name = datetime.now().astimezone().strftime("dump_result_%Y_%m_%d_%H_%M_%S")
    with appearing(request.output, name) as folder:
        written = writer(_source(parts, part, request, of_device), part, folder.path)
        device = None if of_device else _write_device_graph(parts, part, folder.path)
        kind = DevicePartData if of_device else PartData
        data = kind(parts, part, folder.path, _read_again(written), written, device)
        data.write()
        manifest = _manifest(parts, part, request, wanted, written, data)
        _write_texts(folder.path, manifest, data.log())
        files = tuple(_below(folder.path))
    return Bundle(folder.target, files, manifest)


def graph_of(parts: LinkedGraphs, wanted: PartFormat) -> ModelGraph:
    """The graph a part of this form is cut out of."""
    return parts.device if is_of_device(parts, wanted) else parts.golden


def is_of_device(parts: LinkedGraphs, wanted: PartFormat) -> bool:
    """Whether parts of this form are of the device's graph: GE's text is."""
    return wanted is PartFormat.GE and parts.golden.framework is not Framework.ASCEND


def _source(
    parts: RunParts, part: Selection, request: BundleRequest, of_device: bool
) -> PartSource:
    if of_device:
        return PartSource(parts.device, parts.sources.device_path)
    values = {t.name: parts.golden_value(t.key) for t in part.inputs if t.frozen}
    values |= parts.variables(part)
    return PartSource(parts.golden, parts.sources.golden_path, request.weights, values)


def _write_device_graph(parts: RunParts, part: Selection, folder: Path) -> Selection | None:
    """Write ``device/dump.txt``, the device's ops for *part*, so that the bundle can be compared as
    a run. None if the device's graph is not GE's."""
    if parts.device.framework is not Framework.ASCEND:
        return None
    selection = standing_for(parts, part)
    if selection is not None:
        target = folder / "device"
        target.mkdir()
        source = PartSource(parts.device, parts.sources.device_path)
        write_ge_part(source, selection, target, with_whole=False)
    return selection


def _read_again(written: WrittenPart) -> ModelGraph:
    """The written model, as an importer reads it."""
    from importers.registry import read_graph

    options = {"weights": str(written.files[1])} if written.files[0].suffix == ".prototxt" else {}
    return read_graph(written.files[0], options)


@dataclass(slots=True)
class Appearing:
    """A folder being filled; it takes its name ``target`` when it is done."""

    path: Path
    target: Path


@contextmanager
def appearing(output: Path, name: str) -> Iterator[Appearing]:
    """A hidden folder in *output* that becomes ``output/name`` at the end of the block.

    A taken name gets a number. After a failure or a kill there is nothing of that name; after
    a failure *output* is gone, too, if it was made for this.

    Raises:
        InputError: *output* cannot be written to.
    """
    paths: list[Path] = []
    hidden = output / f".{name}.{secrets.token_hex(4)}.part"
    folder = Appearing(hidden, output / name)
    try:
        with os_errors_told("the bundle cannot be written", output):
            _make(hidden, output, paths)
            yield folder
            folder.target = _moved(hidden, output / name)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
        for place in reversed(paths):
            with suppress(OSError):  # something else is in it
                place.rmdir()


def _make(hidden: Path, output: Path, paths: list[Path]) -> None:
    """Make *hidden* and what it lies in; *paths* gets the folders that were not there."""
    with os_errors_told("the folder cannot be written", output):
        for place in reversed([hidden, *hidden.parents]):
            if not place.is_dir():
                place.mkdir()
                paths.append(place)


def _moved(hidden: Path, target: Path) -> Path:
    place, number = target, 1
    while True:
        try:
            hidden.rename(place)  # refuses a folder that is not empty
        except OSError:
            if not place.exists():
                raise
            number += 1
            place = target.with_name(f"{target.name}_{number}")
        else:
            return place


def _manifest(
    parts: RunParts,
    part: Selection,
    request: BundleRequest,
    wanted: PartFormat,
    written: WrittenPart,
    data: PartData,
) -> dict[str, Any]:
    folder = data.folder
    run = parts.data.run
    device_notes = _device_notes(parts, part, data, of_device=is_of_device(parts, wanted))
    return {
        "format": FORMAT_VERSION,
        "divergraph": __version__,
        "run": run.name,
        "golden_graph": {"name": parts.golden.name, "sha256": parts.golden.sha256},
        "device_graph": {"name": parts.device.name, "sha256": parts.device.sha256},
        "variant": request.variant,
        "starts": list(part.starts),
        "ends": list(part.ends),
        "ops": list(part.ops),
        "device_ops": list(data.device_ops()),
        "notes": [*part.notes, *written.notes, *device_notes],
        "evidence": dict(request.evidence),
        "files": [path.name for path in written.files],
        "runner": wanted.value,
        "inner": halves_inside(parts, part) if wanted is PartFormat.ONNX else [],
        "needs": REPLAYED_BY.get(wanted, ""),
        "tolerance": {
            "golden": _golden_tolerance(parts, part, wanted),
            "device": data.device_tolerance(),
        },
        "inputs": [_entry(tensor, written, data) for tensor in part.inputs if not tensor.frozen],
        "outputs": [_entry(tensor, written, data) for tensor in part.outputs],
        "sha256": {name: _digest(folder / name) for name in _below(folder)},
    }


def _device_notes(
    parts: RunParts, part: Selection, data: PartData, *, of_device: bool
) -> Iterator[str]:
    if data.device is not None and is_in_bodies(parts, part):
        owners = [op for op in data.device.chosen if parts.device_selector.ops[op].owns]
        yield (
            "the device has these ops in several bodies: device/dump.txt holds all of "
            f"{some(owners)}"
        )
    elif data.device is None and parts.device.framework is Framework.ASCEND and not of_device:
        yield "no op of the device stands for these ops: there is no device/dump.txt"


def _golden_tolerance(parts: RunParts, part: Selection, wanted: PartFormat) -> float:
    if wanted is PartFormat.ONNX:
        run = parts.data.run
        has_dump = bool(run.inputs.get("golden_dump"))
        ours = has_dump and (kept_path(run, "golden_dump") / CAPTURED).is_file()
        return max(half_tolerance(parts, part), 0.0 if ours else _OTHER_ENGINE)
    return TOLERANCE.get(wanted, 0.0)


def _entry(tensor: BoundaryTensor, written: WrittenPart, data: PartData) -> dict[str, Any]:
    dtype = None if tensor.dtype is None else tensor.dtype.numpy
    return {
        "name": tensor.name,
        "called": written.names.get(tensor.name, tensor.name),
        "shape": None if tensor.shape is None else list(tensor.shape),
        "dtype": None if tensor.dtype is None else tensor.dtype.value,
        "numpy": None if dtype is None else str(dtype),
        "codes": codes_of(tensor.dtype),
        "layout": tensor.layout,
        "side_input": tensor.side,
        **data.files_of(tensor),
    }


def _write_texts(folder: Path, manifest: Mapping[str, Any], log: Iterable[str]) -> None:
    from divergraph.submodel import replay

    program = Path(replay.__file__).with_name("replay.py")
    shutil.copyfile(program, folder / "replay.py")
    now = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
    lines = "".join(f"{now}  {line}\n" for line in log)
    (folder / "export.log").write_text(lines, encoding="utf-8", errors="backslashreplace")
    (folder / "README.md").write_text(_readme(manifest), encoding="utf-8", errors="replace")
    text = json.dumps(manifest, indent=2, ensure_ascii=True) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")


_DUMPS = {
    (True, True): "`dump_data/golden` and `dump_data/device` hold what both sides dumped",
    (True, False): "`dump_data/golden` holds what was dumped",
    (False, True): "`dump_data/device` holds what the device dumped",
}
"""By whether there are values of the golden side, and of a device."""


def _readme(manifest: Mapping[str, Any]) -> str:
    inputs = "".join(_line(tensor) for tensor in manifest["inputs"])
    outputs = "".join(_line(tensor) for tensor in manifest["outputs"])
    needs = manifest["needs"]
    run = ""
    ends = (*manifest["inputs"], *manifest["outputs"])
    compared = any(tensor["device"] for tensor in ends)
    golden = not compared or any(tensor["golden"] for tensor in ends)
    whose = "the golden" if golden else "the device's"
    if needs:
        run = f"    pip install numpy {needs!r}\n" + "    python replay.py\n" * golden
    if needs and compared:
        run += (
            "    python replay.py --device"
            "    # the device's inputs, against what the device made of them\n"
        )
    how = (
        f"Run it again on {whose} inputs; exit code 0 means the outputs are as expected:\n\n{run}"
        if run
        else "It is for the device's own tools; nothing runs it on this machine.\n"
    )
    if SCRIPT in manifest["sha256"]:
        how += (
            f"`{SCRIPT}` calls PyTorch itself, here or on the device, and prints the error of each "
            "call:\n\n"
            f"    python {SCRIPT} --device --on npu --dtype bfloat16\n\n"
        )
    again = ""
    if golden and "device/dump.txt" in manifest["sha256"]:
        again = (
            "`device/dump.txt` is the device's graph of these ops. To compare them again:\n\n"
            f"    divergraph compare --golden {manifest['files'][0]} "
            "--golden-dump dump_data/golden \\\n"
            "        --device device/dump.txt --device-dump dump_data/device\n\n"
        )
    return (
        f"# A part of {manifest['golden_graph']['name']}\n\n"
        f"{len(manifest['ops'])} ops, exported by divergraph {manifest['divergraph']} from the "
        f"run {manifest['run']!r}: from {', '.join(manifest['starts'][:5])} to "
        f"{', '.join(manifest['ends'][:5])}.\n\n{how}\n"
        f"## Inputs\n\n{inputs}\n## Outputs\n\n{outputs}\n{again}"
        f"{_DUMPS[golden, compared]} for these ops;\n"
        "`inputs/*.bin` are the inputs as offline inference tools take them. All hashes are in\n"
        f"`{MANIFEST}`, what was exported in which order in `export.log`.\n"
    )


def _line(tensor: Mapping[str, Any]) -> str:
    shape = "x".join(map(str, tensor["shape"] or ())) or "a single value"
    return f"* `{tensor['name']}`: {tensor['dtype']}, {shape}\n"


def _below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
