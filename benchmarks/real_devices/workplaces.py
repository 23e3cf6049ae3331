"""A golden model with its dump, and what each device dumps of it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "root_cause"))

import models
import numpy as np
from analysis import analysed, captured
from mnn_device import LOW_MEMORY, Mnn
from onnxruntime import InferenceSession
from op_runner import OpRunner
from opencv_device import OpenCv
from openvino_device import OpenVino
from quantised_models import QUANTISERS
from tinygrad_device import Tinygrad

from divergraph.files.dump_names import MAPPING, DumpFileNames
from divergraph.files.npy_file import write_npy
from graphstore.model import ModelGraph
from importers.registry import read_graph


@dataclass(frozen=True)
class Device:
    """How a model is run: by which ``runtime``, whether only the tensors that the fused graph
    keeps are dumped, and how (of ``QUANTISERS``) the model is quantised before."""

    runtime: OpenVino | Mnn | OpenCv | Tinygrad
    kept: bool = False
    quantised: str = ""


DEVICES: Mapping[str, Device] = {
    "ov-fp32": Device(OpenVino("f32")),
    "ov-bf16": Device(OpenVino("bf16")),
    "ov-bf16-kept": Device(OpenVino("bf16"), kept=True),
    "ov-int8": Device(OpenVino("f32"), quantised="symmetric"),
    "ov-int8-channel": Device(OpenVino("f32"), quantised="by channel"),
    "ov-int8-dynamic": Device(OpenVino("f32"), quantised="dynamic"),
    "opencv-fp32": Device(OpenCv()),
    "tinygrad-fp16": Device(Tinygrad("half")),
    "tinygrad-fp16-kept": Device(Tinygrad("half"), kept=True),
    "mnn-fp32": Device(Mnn()),
    "mnn-weights-fp16": Device(Mnn(("--fp16",))),
    "mnn-weights-int8": Device(Mnn(("--weightQuantBits", "8"))),
    "mnn-dynamic-int8": Device(Mnn(("--weightQuantBits", "8", LOW_MEMORY))),
}


_DEVICE_FAULTS = frozenset({("magika", Mnn)})
"""Models that a runtime computes wrongly by itself, so that no run of it is healthy. MNN 3.6 takes
the channels of magika's second Tanh, packed in eights, for unpacked ones: what its last dense layer
gives is 60 % off, whatever else is dumped."""
HEALTHY_COSINE = 0.9
"""The least cosine of the outputs of a model and of its quantised form."""


@dataclass
class Workplace:
    """A golden model with its dump and feeds; its capture took ``golden_cpu`` CPU seconds."""

    name: str
    model: Path
    folder: Path
    feeds: Mapping[str, Any]
    graph: ModelGraph
    runner: OpRunner
    golden_cpu: float
    healthy: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, folder: Path) -> Workplace:
        """The model called *name*, run and dumped by the product."""
        model, feeds = models.prepared(name), models.feeds(name)
        files = {}
        for number, (feed, value) in enumerate(feeds.items()):
            files[feed] = folder / f"feed{number}.npy"
            write_npy(files[feed], value)
        cpu = captured(model, files, folder / "golden")
        return cls(name, model, folder, feeds, read_graph(model), OpRunner.of(model), cpu)

    def device(self, name: str) -> dict[str, Any]:
        """The tensors of a healthy run of a device."""
        if name not in self.healthy:
            self.healthy[name] = self.dump_of(name, self.model_of(name))
        return self.healthy[name]

    def model_of(self, device: str) -> Path:
        """The model that a device compiles; that of a quantising one is made where it is not."""
        quantised = DEVICES[device].quantised
        if not quantised:
            return self.model
        path = self.folder / f"{quantised}.onnx"
        if not path.exists():
            QUANTISERS[quantised](self.model, path, self.feeds)
        return path

    def dump_of(self, device: str, model: Path) -> dict[str, Any]:
        """The tensors that *device* dumps when it runs *model*."""
        chosen = DEVICES[device]
        kept = chosen.runtime.kept(self.model_of(device)) if chosen.kept else None
        return chosen.runtime.run(model, self.feeds, kept)

    def can_run(self, device: str) -> bool:
        """Whether a device has a healthy run of the model. A model that is far off or gives no
        numbers when ONNX Runtime itself runs it quantised to 8 bits has none: the logarithm of an
        energy that became 0 is no device's. Nor has one in which the runtime has a fault."""
        if (self.name, type(DEVICES[device].runtime)) in _DEVICE_FAULTS:
            return False
        self.device(device)
        if not DEVICES[device].quantised:
            return True
        there, here = (
            np.concatenate([np.asarray(each, np.float64).reshape(-1) for each in made])
            for made in (
                InferenceSession(str(path)).run(None, dict(self.feeds))
                for path in (self.model, self.model_of(device))
            )
        )
        size = float(np.linalg.norm(there) * np.linalg.norm(here))
        return bool(np.isfinite(size)) and float(there @ here) > HEALTHY_COSINE * size

    def compared(self, device: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the product says of a *device* that dumped *values*."""
        dump = self.folder / "device"
        shutil.rmtree(dump, ignore_errors=True)
        model = self.model_of(device)
        graph = read_graph(model) if DEVICES[device].quantised else self.graph
        write_dump(dump, graph, {**self.feeds, **values})
        return analysed([self.model, self.folder / "golden", model, dump])


def write_dump(folder: Path, graph: ModelGraph, values: Mapping[str, Any]) -> None:
    """Write *values* by tensor name as ``.npy`` files of the ops of *graph*."""
    folder.mkdir(parents=True)
    names = DumpFileNames(graph, 1)
    for each in graph.inputs:
        if each.name in values:
            write_npy(folder / names.of_input(each.name), values[each.name])
    for op in graph.ops:
        for port, tensor in enumerate(op.outputs):
            if op.subgraph or tensor.name not in values:
                continue
            path = folder / names.of_output(op, port)
            if not path.exists():
                write_npy(path, values[tensor.name])
    if mapping := names.mapping():
        (folder / MAPPING).write_text(mapping, encoding="utf-8")
