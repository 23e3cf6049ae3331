"""The sets of cases: healthy and faulty runs of devices, written to disk once.

A set is a maker that yields cases of a seed; the yardstick runs all of them. ``gpu`` reads the runs
of a real GPU from a folder with ``cases.json`` and one ``.npz`` a device.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "root_cause"))

import onnx
from analysed import write_case
from cases import Healthy, visible_fault
from devices import DEVICES, Device
from faults import Array, FaultKind
from generated import GENERATED
from measured import hidden
from narrow_formats import FORMATS, IN_WORDS, runner
from run import Workplace, workplace
from short_arithmetic import SHORT, SHORT_MODELS
from short_arithmetic import runner as short_runner

from divergraph.files.npy_file import write_npy
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.errors import DivergraphError
from importers.registry import read_graph

_USELESS = 0.5
"""A healthy device whose output is so far off is no place to look for visible faults."""
_OF_GPU = {
    "fp8": "bf16/e4m3 by tensor",
    "fp8row": IN_WORDS["e4m3-row"],
    "fp8block": IN_WORDS["e4m3-128"],
    "fp8e5m2": "bf16/e5m2 x e4m3 by tensor",
    "mxfp8": "bf16/e4m3 by 32, power of two",
    "mxfp4": "bf16/e2m1 by 32, power of two",
    "nvfp4": "bf16/e2m1 by 16, e4m3",
    "int4w": "bf16/plain x int4 by 32, from the least",
    "int8tok": IN_WORDS["int8-row"],
}
"""What the devices of the GPU's runs compute in that do not have a type for a name, as far as it is
known."""
_UNKNOWN = re.compile(r" \(ties to zero\)|, up\b|, held in \w+| alone\b")
"""What runs say beyond what is known of the GPU's formats: where ties go, what holds scales."""


@dataclass(frozen=True)
class TruthCase:
    """A run on disk and the truth about it: the golden tensors whose maker may come first (none
    for a healthy run), the ``kind`` of fault, and what the device computes in, in the words of a
    run (``bf16/e4m3 by row``; "" where nobody knows)."""

    set: str
    name: str
    golden: str
    golden_dump: str
    device: str
    device_dump: str
    faulty: tuple[str, ...] = ()
    kind: str = ""
    arithmetic: str = ""

    def is_computed_in(self, said: str) -> bool:
        """Whether what a run *said* of the device's arithmetic is so."""
        return self.arithmetic in (said, _UNKNOWN.sub("", said))

    @property
    def paths(self) -> list[Path]:
        """The four sides, as ``compare`` takes them."""
        return [
            Path(self.golden),
            Path(self.golden_dump),
            Path(self.device),
            Path(self.device_dump),
        ]

    def line(self) -> str:
        """The case as a line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, line: str) -> TruthCase:
        """The case of a line that :meth:`line` made."""
        known = json.loads(line)
        return cls(**{**known, "faulty": tuple(known["faulty"])})


@dataclass(frozen=True)
class Sizes:
    """How much of each set is made: ``faults`` of each device, ``models`` and ``devices`` by
    name ("" for all)."""

    seed: int
    faults: int
    models: tuple[str, ...]
    devices: tuple[str, ...]
    gpu: Path | None


def emulated(folder: Path, sizes: Sizes) -> Iterator[TruthCase]:
    """Emulated arithmetics and what ONNX Runtime makes of a model; half of them with half of the
    tensors dumped."""
    for place in _places(folder / "emulated", sizes):
        for name, make in DEVICES.items():
            if sizes.devices and name not in sizes.devices:
                continue
            try:
                device = make(place.golden.model, place.values, place.folder)
            except DivergraphError as error:
                print(f"{place.name} {name}: refused: {error}", file=sys.stderr)
                continue
            yield from _of_device("emulated", place, device, sizes)


def narrow(folder: Path, sizes: Sizes) -> Iterator[TruthCase]:
    """Linear layers that read eight bits or fewer, all else in bfloat16."""
    for place in _places(folder / "narrow", sizes):
        for name in FORMATS:
            if not sizes.devices or name in sizes.devices:
                device = Device(name, place.golden.model, runner(place.golden.model, name, "bf16"))
                for case in _of_device("narrow", place, device, sizes):
                    yield replace(case, arithmetic=IN_WORDS[name])


def short(folder: Path, sizes: Sizes) -> Iterator[TruthCase]:
    """Sums and functions in the 16 bits that values are held in, some beside narrow formats."""
    for place in _places(folder / "short", sizes, ("transformer", *SHORT_MODELS)):
        for name in SHORT:
            if not sizes.devices or name in sizes.devices:
                device = Device(name, place.golden.model, short_runner(place.golden.model, name))
                yield from _of_device("short", place, device, sizes)


def gpu(folder: Path, sizes: Sizes) -> Iterator[TruthCase]:
    """The runs of a real GPU."""
    if sizes.gpu is None:
        return
    for entry in json.loads((sizes.gpu / "cases.json").read_text(encoding="utf-8"))["cases"]:
        model, device = entry["model"], entry["device"]
        wanted = (not sizes.models or model in sizes.models) and (
            not sizes.devices or device in sizes.devices
        )
        if not wanted:
            continue
        golden = folder / "gpu" / f"golden-{model}"
        if not golden.exists():
            _capture(sizes.gpu, model, golden)
        dump = folder / "gpu" / f"{model}-{device}-{entry['run']}"
        shutil.rmtree(dump, ignore_errors=True)
        dump.mkdir(parents=True)
        for key, value in np.load(sizes.gpu / f"{device}.npz").items():
            run, tensor, *kind = key.split("|")
            if run == entry["run"]:
                wide = (value.astype(np.uint32) << 16).view(np.float32) if kind else value
                write_npy(dump / f"{tensor}.npy", wide)
        path = str(sizes.gpu / f"{model}.onnx")
        fault = entry["fault"]
        faulty = () if fault is None else _first_seen(path, fault["node"], dump)
        yield TruthCase(
            "gpu",
            dump.name,
            path,
            str(golden),
            path,
            str(dump),
            faulty,
            "" if fault is None else fault["kind"],
            _OF_GPU.get(device, device.removeprefix("inductor_")),
        )


def runtimes(folder: Path, sizes: Sizes) -> Iterator[TruthCase]:
    """Runtimes nobody here wrote, with faults in the models they compile. Needs the extra
    ``real-devices``; ``models`` and ``devices`` are those of ``real_devices/run.py``."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "real_devices"))
    from model_faults import FAULTS, ModelFault
    from visible_faults import visible_fault
    from workplaces import Workplace as Place
    from workplaces import write_dump

    for model in sizes.models:
        (folder / "runtimes" / model).mkdir(parents=True, exist_ok=True)
        place = Place.of(model, folder / "runtimes" / model)
        for device in filter(place.can_run, sizes.devices):
            found: list[tuple[str, str, Mapping[str, Array]]] = [("", "", place.device(device))]
            kinds = np.random.default_rng([sizes.seed, len(found)]).permutation(list(FAULTS))
            for kind in map(ModelFault, kinds):
                if len(found) <= sizes.faults:
                    fault = visible_fault(place, device, kind, sizes.seed)
                    found += [] if fault is None else [(kind, fault.fault.tensor, fault.values)]
            path = place.model_of(device)
            graph = read_graph(path)
            for number, (kind, tensor, values) in enumerate(found):
                dump = place.folder / f"{device}-{number}"
                write_dump(dump, graph, {**place.feeds, **values})
                sides = map(str, (place.model, place.folder / "golden", path, dump))
                faulty = (tensor,) if tensor else ()
                name = f"{model} {device} {kind or 'healthy'}"
                yield TruthCase("runtimes", name, *sides, faulty, kind)


SETS: Mapping[str, Callable[[Path, Sizes], Iterator[TruthCase]]] = {
    "emulated": emulated,
    "narrow": narrow,
    "short": short,
    "gpu": gpu,
    "runtimes": runtimes,
}


def _places(
    folder: Path, sizes: Sizes, models: Iterable[str] = tuple(GENERATED)
) -> Iterator[Workplace]:
    for kind in models:
        if not sizes.models or kind in sizes.models:
            name = f"{kind}-{sizes.seed}"
            (folder / name).mkdir(parents=True, exist_ok=True)
            yield workplace(name, folder / name)


def _of_device(kind: str, place: Workplace, device: Device, sizes: Sizes) -> Iterator[TruthCase]:
    healthy = Healthy.of(device, place.feeds, place.values)
    rng = np.random.default_rng([sizes.seed, len(device.name)])
    kinds = [FaultKind(each) for each in rng.permutation([each.value for each in FaultKind])]
    wanted = [("", "full", healthy.values, ()), ("", "rand50", healthy.values, ())]
    for fault in [] if healthy.error > _USELESS else kinds:
        if len(wanted) == 2 + sizes.faults:
            break
        case = visible_fault(healthy, fault, sizes.seed)
        if case is not None:
            variant = ("full", "rand50")[len(wanted) % 2]
            wanted.append((fault.value, variant, case.values, (case.tensor,)))
    for number, (fault, variant, values, faulty) in enumerate(wanted):
        hide = hidden(variant, device.runner, np.random.default_rng([sizes.seed, number]))
        hide -= set(faulty)
        dump = place.folder / f"{device.name}-{number}"
        request = write_case(place.golden, device, values, hide, dump)
        sides = (request.golden, request.golden_dump, request.device, request.device_dump)
        name = f"{place.name} {device.name} {variant} {fault or 'healthy'}"
        yield TruthCase(kind, name, *map(str, sides), faulty, fault)


def _capture(source: Path, model: str, golden: Path) -> None:
    files = {}
    golden.parent.mkdir(parents=True, exist_ok=True)
    for name, value in np.load(source / f"{model}.inputs.npz").items():
        files[name] = golden.parent / f"{model}.{name}.npy"
        write_npy(files[name], value)
    capture(CaptureRequest(source / f"{model}.onnx", golden, inputs=files))


def _first_seen(model: str, tensor: str, dump: Path) -> tuple[str, ...]:
    """The dumped tensors an error in *tensor* reaches first: itself, or what is computed from it
    through tensors that nobody dumped."""
    dumped = {path.stem for path in dump.iterdir()}
    if tensor in dumped:
        return (tensor,)
    reached, seen = {tensor}, []
    for node in onnx.load_model(model, load_external_data=False).graph.node:
        if reached.intersection(node.input):
            for output in node.output:
                if output in dumped:
                    seen.append(output)
                else:
                    reached.add(output)
    return tuple(seen)
