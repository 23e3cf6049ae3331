"""Caffe nets of a few layers, run here and by OpenCV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from divergraph.execute.contract import Array
from divergraph.execute.installed import open_here
from divergraph.execute.translate.caffe.executor import CaffeFactory
from importers.proto.wire import BLOCK, varint_bytes
from importers.registry import read_graph

Weights = Mapping[str, Sequence[Array]]


def field(number: int, content: bytes) -> bytes:
    """A block of a protobuf message."""
    return varint_bytes(number << 3 | BLOCK) + varint_bytes(len(content)) + content


def blob(value: Array) -> bytes:
    dims = field(1, b"".join(varint_bytes(size) for size in value.shape))
    return field(7, dims) + field(5, value.astype("<f4").tobytes())


def caffemodel(weights: Weights) -> bytes:
    """A .caffemodel with these weights by layer."""
    layers = (
        field(1, name.encode()) + b"".join(field(7, blob(value)) for value in values)
        for name, values in weights.items()
    )
    return b"".join(field(100, layer) for layer in layers)


def whole_net(layers: str, inputs: Mapping[str, Array]) -> str:
    """The text of a net with these inputs."""
    declared = (
        f'input: "{name}" input_shape {{ {" ".join(f"dim: {size}" for size in value.shape)} }}\n'
        for name, value in inputs.items()
    )
    return "".join(declared) + layers


class Nets:
    """Runs nets given as the text of their layers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def written(
        self, layers: str, inputs: Mapping[str, Array], weights: Weights | None = None
    ) -> Path:
        """The net as a file, its weights beside it."""
        model = self.folder / "net.prototxt"
        model.write_text(whole_net(layers, inputs))
        beside = self.folder / "net.caffemodel"
        beside.unlink(missing_ok=True)
        if weights:
            beside.write_bytes(caffemodel(weights))
        return model

    def run(
        self,
        layers: str,
        inputs: Mapping[str, Array],
        weights: Weights | None = None,
        weights_file: Path | None = None,
    ) -> dict[str, Array]:
        """Every tensor of the net, as we compute it."""
        model = self.written(layers, inputs, weights)
        graph = read_graph(model, {} if weights_file is None else {"weights": str(weights_file)})
        executor = open_here(CaffeFactory(), model, graph, {})
        fed = {tensor.name for tensor in executor.inputs}
        made = dict(executor.run({name: inputs[name] for name in fed}))
        shapes = {tensor.name: tensor.shape for op in graph.ops for tensor in op.outputs}
        for name, value in made.items():
            shape = shapes[name]
            told = shape is None or all(
                a in (None, b) for a, b in zip(shape, value.shape, strict=True)
            )
            assert told, f"{name}: {value.shape}, the importer says {shape}"
        assert not executor.unavailable, executor.unavailable
        return made

    def one(self, kind: str, params: str, *inputs: Array, weights: Sequence[Array] = ()) -> Array:
        """The first top of one layer."""
        named = {f"x{at}": value for at, value in enumerate(inputs)}
        return self.run(layer(kind, params, len(inputs)), named, {"y": weights})["y"]

    def opencv(
        self,
        layers: str,
        inputs: Mapping[str, Array],
        weights: Weights | None = None,
        layer: str = "y",
    ) -> Array:
        """The first top of *layer* as OpenCV computes it."""
        cv2 = pytest.importorskip("cv2")
        model = self.written(layers, inputs, weights)
        beside = model.with_suffix(".caffemodel")
        files = [str(model), *([str(beside)] if beside.exists() else [])]
        net = cv2.dnn.readNetFromCaffe(*files)
        net.enableFusion(False)
        net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
        for name, value in inputs.items():
            net.setInput(value, name)
        return net.forwardAndRetrieve([layer])[0][0].copy()

    def agree(self, kind: str, params: str, *inputs: Array, weights: Sequence[Array] = ()) -> Array:
        """One layer gives the same here and in OpenCV; what it gives."""
        named = {f"x{at}": value for at, value in enumerate(inputs)}
        text = layer(kind, params, len(inputs))
        ours = self.run(text, named, {"y": weights})["y"]
        theirs = self.opencv(text, named, {"y": weights})
        near(ours, theirs)
        return ours


def layer(kind: str, params: str, bottoms: int = 1) -> str:
    """A layer ``y`` of so many bottoms, in text."""
    read = " ".join(f'bottom: "x{at}"' for at in range(bottoms))
    return f'layer {{ name: "y" type: "{kind}" {read} top: "y" {params} }}'


def near(ours: Array, wanted: Array, limit: float = 1e-5) -> None:
    """*ours* has the shape of *wanted* and its values within *limit* of its norm."""
    assert ours.shape == wanted.shape
    scale = np.linalg.norm(wanted.astype(np.float64)) or 1.0
    assert np.linalg.norm(ours.astype(np.float64) - wanted) <= limit * scale


@pytest.fixture(scope="module")
def nets():
    with TemporaryDirectory() as folder:
        yield Nets(Path(folder))


@pytest.fixture(scope="session")
def rng() -> Callable[..., Array]:
    """Random float32 arrays, the same each time for a shape."""

    def made(*shape: int, seed: int = 0) -> Array:
        return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)

    return made
