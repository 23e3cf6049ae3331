"""Read TensorFlow Lite (LiteRT) models: ``.tflite``."""

from __future__ import annotations

import struct
from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import ModelGraph
from importers.contract import Confidence, Detection
from importers.source import mapped, sha256

_IDENTIFIER = b"TFL3"
_HINT = "it was cut or damaged; convert or copy it again"


class TfliteImporter:
    """Importer of TensorFlow Lite models."""

    name = "tflite"
    reads = "TensorFlow Lite .tflite"

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the identifier behind the first offset."""
        if head[4:8] != _IDENTIFIER:
            return Detection(Confidence.NO, "")
        return Detection(Confidence.SURE, "the flatbuffer of a TensorFlow Lite model")

    def read(self, path: Path) -> ModelGraph:
        """The model in *path*: the first sub-graph and those it calls; values stay in the file.
        Each op knows the TensorFlow ops it was made of by the names of its tensors."""
        from importers.tflite.checked import Bounds, DamagedTableError
        from importers.tflite.graph import model_graph

        with mapped(path) as buffer:
            if buffer[4:8] != _IDENTIFIER:
                raise ImportFormatError(path, "no TensorFlow Lite model", offset=4, hint=_HINT)
            try:
                return model_graph(Bounds(buffer), path, sha256(buffer))
            except DamagedTableError as error:
                what = f"damaged model: {error}"
                raise ImportFormatError(path, what, offset=error.offset, hint=_HINT) from error
            except (struct.error, TypeError, ValueError, OverflowError) as error:
                what = f"damaged model: {error}"
                raise ImportFormatError(path, what, hint=_HINT) from error
