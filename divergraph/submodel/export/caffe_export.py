"""A part of a Caffe net as a net of its own: ``dump.prototxt`` and ``dump.caffemodel``.

What enters becomes ``Input`` layers, named as the vendor's tool names them. Each tensor gets
a blob of its own: a layer that writes over what it reads would hide the value before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from divergraph.submodel.export.caffe_layers import (
    BLOBS,
    LAYERS,
    RawLayer,
    blobs_by_layer,
    raw_layers,
)
from divergraph.submodel.export.contract import PartSource, WrittenPart
from divergraph.submodel.selection import BoundaryTensor, Selection
from graphstore.errors import InputError
from graphstore.model import Op, TensorRef
from importers.kept import some
from importers.proto.wire import BLOCK, varint_bytes
from importers.source import mapped

_WEIGHTED = frozenset(
    (
        *("Convolution", "ConvolutionDepthwise", "DepthwiseConvolution", "Deconvolution"),
        *("InnerProduct", "BatchNorm", "Scale", "PReLU", "Embed", "LSTM", "RNN"),
    )
)
_ESCAPED = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("\r"): "\\r"}


def write_caffe_part(source: PartSource, part: Selection, folder: Path) -> WrittenPart:
    """Write ``dump.prototxt`` and ``dump.caffemodel``."""
    return _Part(source, part).written(folder)


class _Part:
    def __init__(self, source: PartSource, part: Selection) -> None:
        self._source = source
        self._part = part
        self._ops = source.graph.op_index()
        layers = raw_layers(source.model, source.graph)
        self._layers: Mapping[str, RawLayer] = {
            op.id: layer for op, layer in zip(source.graph.ops, layers, strict=True)
        }
        self._taken: set[str] = set()
        self._blobs: dict[TensorRef | str, str] = {}
        self._names: dict[str, str] = {}
        self._notes: list[str] = []

    def written(self, folder: Path) -> WrittenPart:
        ops = [self._ops[op] for op in self._part.ops]
        self._name_blobs(ops)
        inputs = list(self._inputs())
        layers = [self._layer(op) for op in ops]
        net, weights = folder / "dump.prototxt", folder / "dump.caffemodel"
        head = f"name: {_quoted(self._source.graph.name)}\n"
        text = head + "".join((*inputs, *layers))
        net.write_text(text, encoding="utf-8", errors="backslashreplace")
        with weights.open("wb") as out:
            out.write(_field(1, self._source.graph.name.encode("utf-8", "backslashreplace")))
            for op, blobs in self._weights(ops):
                out.write(_field(LAYERS, self._weighted(op, blobs)))
        added = tuple(f"Add Layer Into Prototxt:\n{_inner(text)}" for text in inputs)
        return WrittenPart((net, weights), self._names, tuple(self._notes), added)

    # blobs

    def _name_blobs(self, ops: list[Op]) -> None:
        """A blob for each tensor: that of the file, or called as its layer where others write
        over it."""
        for tensor in self._part.inputs:
            self._name_blob(tensor.ref or tensor.name, tensor.name, tensor.name.partition("@")[0])
        rewritten = 0
        for op in ops:
            layer = self._layers[op.id].layer
            in_place = {*layer.bottoms} & {*layer.tops}
            rewritten += bool(in_place)
            for port, output in enumerate(op.outputs):
                top = layer.tops[port]
                shared = top in in_place or output.name != top
                wanted = top if not shared else f"{op.name}_{port}" if port else op.name
                self._name_blob(TensorRef(op.id, port), output.name, wanted)
        if rewritten:
            self._notes.append(
                f"{rewritten} layers that wrote over what they read write blobs of their own"
            )

    def _name_blob(self, key: TensorRef | str, name: str, wanted: str) -> None:
        blob, number = wanted, 1
        while blob in self._taken:
            number += 1
            blob = f"{wanted}_{number}"
        self._taken.add(blob)
        self._blobs[key] = blob
        self._names[name] = blob

    # layers

    def _inputs(self) -> Iterator[str]:
        counts: dict[str, int] = {}
        for tensor in self._part.inputs:
            user = self._ops[tensor.users[0]].name
            number = counts.get(user, 0)
            counts[user] = number + 1
            yield self._input(f"{user}_input_{number}", tensor)

    def _input(self, name: str, tensor: BoundaryTensor) -> str:
        dims = "".join(f"      dim: {size}\n" for size in tensor.shape or () if size is not None)
        if tensor.shape is None or None in tensor.shape:
            raise InputError(f"the shape of {tensor.name} is not known, which Caffe needs")
        blob = self._blobs[tensor.ref or tensor.name]
        return (
            f'layer {{\n  name: {_quoted(name)}\n  type: "Input"\n  top: {_quoted(blob)}\n'
            f"  input_param {{\n    shape {{\n{dims}    }}\n  }}\n}}\n"
        )

    def _layer(self, op: Op) -> str:
        raw = self._layers[op.id]
        lines = [f"  name: {_quoted(op.name)}\n", f"  type: {_quoted(op.type)}\n"]
        for bottom, ref in zip(raw.layer.bottoms, op.inputs, strict=False):
            key: TensorRef | str = "" if ref is None else ref.producer or ref.tensor
            if key not in self._blobs:
                raise InputError(f"{op.id} takes {bottom}, which no layer of the net makes")
            lines.append(f"  bottom: {_quoted(self._blobs[key])}\n")
        tops = (self._blobs[TensorRef(op.id, port)] for port in range(len(raw.layer.tops)))
        lines += (f"  top: {_quoted(blob)}\n" for blob in tops)
        return f"layer {{\n{''.join(lines)}{raw.text}}}\n"

    # weights

    def _weights(self, ops: list[Op]) -> Iterator[tuple[Op, list[bytes]]]:
        path = self._weights_file()
        found: Mapping[str, list[bytes]] = {}
        if path is not None:
            try:
                with mapped(path) as buffer:
                    found = blobs_by_layer(buffer, path)
            except OSError as error:
                raise InputError(
                    f"the weights cannot be read: {error.strerror}", where=str(path)
                ) from error
        bare = [op.name for op in ops if self._needs_weights(op) and op.name not in found]
        if bare:
            raise InputError(
                f"{len(bare)} layers have no weights: {some(bare)}",
                where="" if path is None else str(path),
                hint="--weights FILE.caffemodel says where they are",
            )
        for op in ops:  # those without weights too, as Caffe itself saves nets
            yield op, found.get(op.name, [])

    def _needs_weights(self, op: Op) -> bool:
        scales_by_another = op.type == "Scale" and len(self._layers[op.id].layer.bottoms) > 1
        return op.type in _WEIGHTED and not scales_by_another

    def _weights_file(self) -> Path | None:
        if self._source.weights is not None:
            return self._source.weights
        model = self._source.model
        for constant in self._source.graph.constants:
            if constant.location:
                return model.parent / constant.location
        beside = model.with_suffix(".caffemodel")
        return beside if beside.is_file() else None

    def _weighted(self, op: Op, blobs: list[bytes]) -> bytes:
        head = [(1, op.name), (2, op.type)]
        fields = [_field(number, text.encode("utf-8", "backslashreplace")) for number, text in head]
        return b"".join((*fields, *(_field(BLOBS, blob) for blob in blobs)))


def _field(number: int, content: bytes) -> bytes:
    return varint_bytes(number << 3 | BLOCK) + varint_bytes(len(content)) + content


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPED)}"'


def _inner(layer: str) -> str:
    """A layer's fields as the vendor's log shows them, without the block around."""
    return "\n".join(line.removeprefix("  ") for line in layer.splitlines()[1:-1])
