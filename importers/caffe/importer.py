"""Read Caffe nets: ``.prototxt`` text and ``.caffemodel`` files, alone or together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from graphstore.errors import InputError
from graphstore.model import ModelGraph
from importers.contract import Confidence, Detection
from importers.proto.text_reader import outline
from importers.proto.wire import BLOCK, FIXED32, VARINT, WireField, outer_fields

if TYPE_CHECKING:
    from importers.caffe.net import Net
    from importers.proto.text_reader import Buffer

# Source: caffe.proto, message NetParameter.
_FIELDS = {
    1: {BLOCK},  # name
    2: {BLOCK},  # layers (V1)
    3: {BLOCK},  # input
    4: {VARINT, BLOCK},  # input_dim
    5: {VARINT},
    6: {BLOCK},
    7: {VARINT},
    8: {BLOCK},
    100: {BLOCK},  # layer
}
_NO = Detection(Confidence.NO, "")


class CaffeImporter:
    """Importer of Caffe nets, with layers of every kind (V0, V1, V2)."""

    name = "caffe"
    reads = "Caffe .prototxt or .caffemodel"
    options: Mapping[str, str] = {
        "weights": "the .caffemodel with the weights (default: the one next to the net)",
        "phase": "TRAIN or TEST (default: what the net says, else TEST)",
        "stage": "the stages that layers may ask for, with commas between (default: the net's)",
    }

    def detect(self, path: Path, head: bytes) -> Detection:
        """By blocks called ``layer`` or ``layers``, or the numbers of the outermost fields."""
        if not head:
            return _NO
        names = outline(head)
        for word in (b"layer", b"layers"):
            inner = {name[1] for name in names if name[0] == word and len(name) == 2}
            if inner & {b"type", b"top", b"bottom"} or (inner and path.suffix == ".prototxt"):
                return Detection(Confidence.SURE, f"protobuf text with {word.decode()} blocks")
        return _binary(head)

    def read(self, path: Path) -> ModelGraph:
        """The net in *path*, in the phase it says, else TEST."""
        return self.read_with(path, {})

    def read_with(self, path: Path, options: Mapping[str, str]) -> ModelGraph:
        """The net in *path*; see ``options``."""
        from importers.caffe.graph import model_graph, with_weights
        from importers.source import mapped, sha256

        phase = options.get("phase", "").upper()
        if phase not in ("", "TRAIN", "TEST"):
            raise InputError(f"the phase {phase!r} is neither TRAIN nor TEST")
        with mapped(path) as buffer:
            net, digest = _net(buffer, path), sha256(buffer)
        stages = [stage for stage in options.get("stage", "").split(",") if stage]
        net = net.in_phase(phase or net.state.phase or _trained_in(net) or "TEST", stages)
        weights = Path(options["weights"]) if options.get("weights") else _weights_beside(path, net)
        warnings: list[str] = []
        if weights is not None:
            with mapped(weights) as buffer:
                net, warnings = with_weights(net, _net(buffer, weights))
        return model_graph(net, path=path, weights=weights or path, sha256=digest, told=warnings)


def _weights_beside(path: Path, net: Net) -> Path | None:
    """The weights called as the net, if they lie beside it."""
    sibling = path.with_suffix(".caffemodel")
    has_none = not any(layer.blobs for layer in net.layers)
    return sibling if path.suffix == ".prototxt" and has_none and sibling.is_file() else None


def _net(buffer: Buffer, path: Path) -> Net:
    from importers.caffe.binary import is_binary, read_binary
    from importers.caffe.text import read_text

    return read_binary(buffer, path) if is_binary(buffer) else read_text(buffer, path)


def _trained_in(net: Net) -> str:
    """The phase a saved net was in: Caffe writes it into each of its layers."""
    phases = {layer.phase for layer in net.layers}
    return phases.pop() if len(phases) == 1 and any(layer.blobs for layer in net.layers) else ""


def _binary(head: bytes) -> Detection:
    fields = outer_fields(head)
    if any(field.wire_type not in _FIELDS.get(field.number, ()) for field in fields):
        return _NO
    # A layer has a name and a type in words, then the blobs it reads and writes; of a V1 layer
    # the type is a number, its name the fourth field.
    for field in fields:
        inner = outer_fields(field.content)
        kinds = {field.kind for field in inner}
        named = {(1, BLOCK), (2, BLOCK)} if field.number == 100 else {(4, BLOCK), (5, VARINT)}
        if field.number == 100:
            sound = all(field.wire_type == BLOCK for field in inner if field.number <= 4)
        else:
            sound = all(field.wire_type in (BLOCK, VARINT, FIXED32) for field in inner)
        first = field.number == 2 and _is_first(inner)
        if field.number in (2, 100) and (named <= kinds or first) and sound:
            return Detection(Confidence.SURE, "a binary message with Caffe's layers")
    return _NO


def _is_first(fields: list[WireField]) -> bool:
    """Whether a layer is of the first format: its name and its type are in a block inside. So are
    those of the first node of a TensorFlow graph, but no such type."""
    from importers.caffe.first_format import TYPES

    inside = next((outer_fields(field.content) for field in fields if field.kind == (1, BLOCK)), [])
    types = [bytes(field.content) for field in inside if field.kind == (2, BLOCK)]
    return bool(types) and types[0].decode("utf-8", "replace") in TYPES
