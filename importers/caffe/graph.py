"""Join the layers of a Caffe net into a model graph.

A layer may write the blob it reads. Each writing makes a tensor of its own here: the last one
has the blob's name (that is what the blob holds when the net has run), earlier ones are called
``blob@layer``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from graphstore.model import (
    AttrValue,
    Constant,
    DType,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Shape,
    Tensor,
    TensorRef,
)
from importers.caffe.net import Blob, Layer, Net
from importers.caffe.shapes import top_shapes
from importers.kept import told_of
from importers.names import UniqueIds

WEIGHTED = frozenset(
    (
        *("Convolution", "ConvolutionDepthwise", "DepthwiseConvolution", "Deconvolution"),
        *("InnerProduct", "BatchNorm", "PReLU", "Embed", "RNN", "LSTM", "Normalize"),
    )
)
"""Layer types that compute with trained weights."""


class NetGraph:
    """The ops, tensors and weights of *net*, whose weights lie in the file *weights*."""

    def __init__(self, net: Net, weights: str) -> None:
        self._net = net
        self._weights = weights
        self._ids = UniqueIds()
        self._missing: list[str] = []
        self._shapes: dict[str, Shape | None] = {}
        self._left = Counter(top for layer in net.layers for top in layer.tops)
        self._blobs: dict[str, InputRef] = {}
        self._unread: dict[str, TensorRef] = {}
        self.inputs: list[Tensor] = []
        self.constants: list[Constant] = []
        for name, shape in net.inputs:
            self._declare(name, shape)
        self.ops = tuple(self._op(at, layer) for at, layer in enumerate(net.layers))

    def outputs(self) -> tuple[TensorRef, ...]:
        """The tensors no layer reads: the outputs of the net."""
        return tuple(self._unread.values())

    def warnings(self) -> list[str]:
        """Warnings on what was renumbered or not found."""
        missing = told_of(self._missing, "{bottom is|bottoms are} made by no layer")
        return [*self._ids.warnings(), *missing]

    def _declare(self, name: str, shape: Shape | None) -> None:
        tensor = f"{name}@input" if self._left[name] else name
        self.inputs.append(Tensor(name, DType.FLOAT32, shape))
        self._blobs[name] = InputRef(tensor)
        self._shapes[name] = shape

    def _op(self, at: int, layer: Layer) -> Op:
        op = self._ids.take(layer.name or f"{layer.type}_{at}")
        inputs = [self._read(bottom, op) for bottom in layer.bottoms]
        inputs += [self._keep(op, place, blob) for place, blob in enumerate(layer.blobs)]
        shapes = top_shapes(layer, [self._shapes.get(bottom) for bottom in layer.bottoms])
        shapes += [None] * (len(layer.tops) - len(shapes))
        outputs = [self._write(top, op, port, shapes[port]) for port, top in enumerate(layer.tops)]
        if not layer.bottoms and not layer.blobs and not is_constant(layer):
            self.inputs.extend(outputs)
        return Op(
            id=op,
            name=layer.name or op,
            type=layer.type,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            attrs=dict(layer.attrs),
            sequence=at,
        )

    def _read(self, bottom: str, op: str) -> InputRef:
        self._unread.pop(bottom, None)
        blob = self._blobs.get(bottom)
        if blob is None:
            self._missing.append(f"{bottom} of {op}")
            return InputRef(bottom)
        return blob

    def _write(self, top: str, op: str, port: int, shape: Shape | None) -> Tensor:
        self._left[top] -= 1
        name = f"{top}@{op}" if self._left[top] else top
        ref = TensorRef(op, port)
        self._blobs[top] = InputRef(name, ref)
        self._unread[top] = ref
        self._shapes[top] = shape
        return Tensor(name, DType.FLOAT32, shape)

    def _keep(self, op: str, place: int, blob: Blob) -> InputRef:
        name = f"{op}/blobs/{place}"
        location = self._weights if blob.nbytes else ""
        tensor = Tensor(name, blob.dtype, blob.shape)
        nbytes = None if blob.offset is None else blob.nbytes
        self.constants.append(Constant(tensor, location, blob.offset or 0, nbytes))
        return InputRef(name)


def is_constant(layer: Layer) -> bool:
    """Whether *layer* fills its tops with numbers of the net itself: nothing is drawn or read."""
    kind = layer.attrs.get("dummy_data_param.data_filler.type", "constant")
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return layer.type == "DummyData" and bool(layer.shapes) and set(kinds) == {"constant"}


def with_weights(net: Net, trained: Net) -> tuple[Net, list[str]]:
    """*net* with the weights of the layers of the same names in *trained*, and warnings."""
    blobs: Mapping[str, tuple[Blob, ...]] = {
        layer.name: layer.blobs for layer in trained.layers if layer.blobs
    }
    layers = tuple(replace(layer, blobs=blobs.get(layer.name, ())) for layer in net.layers)
    bare = [layer.name for layer in layers if layer.type in WEIGHTED and not layer.blobs]
    unused = sorted(blobs.keys() - {layer.name for layer in layers})
    warnings = [
        *told_of(bare, "{layer has|layers have} no weights in the caffemodel"),
        *told_of(
            unused, "{layer of the caffemodel is|layers of the caffemodel are} not in the net"
        ),
    ]
    return replace(net, layers=layers), warnings


def model_graph(net: Net, *, path: Path, weights: Path, sha256: str, told: list[str]) -> ModelGraph:
    """The model graph of *net*, read from *path*, with its weights in the file *weights*."""
    is_sibling = weights.parent == path.parent
    graph = NetGraph(net, weights.name if is_sibling else str(weights.absolute()))
    attrs: dict[str, AttrValue] = {"phase": net.state.phase}
    return ModelGraph(
        name=net.name or path.stem,
        kind=GraphKind.ORIGINAL,
        framework=Framework.CAFFE,
        format="caffe",
        ops=graph.ops,
        inputs=tuple(graph.inputs),
        outputs=graph.outputs(),
        constants=tuple(graph.constants),
        attrs=attrs,
        warnings=(*told, *graph.warnings()),
        source=str(path),
        sha256=sha256,
    )
