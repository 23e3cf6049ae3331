"""Read OpenVINO models: IR as ``ov.save_model`` writes it, and serialised runtime models."""

from __future__ import annotations

import re
from pathlib import Path

from graphstore.model import ModelGraph
from importers.contract import Confidence, Detection
from importers.source import mapped, sha256

_NET = re.compile(rb"<net\s[^>]*\bversion\s*=")
_RUNTIME = b"originalLayersNames="
_START = 4096


class OpenVinoImporter:
    """Importer of OpenVINO ``.xml`` files, versions 10 and 11."""

    name = "openvino"
    reads = "OpenVINO .xml"

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the ``<net>`` an XML page begins with."""
        if not _NET.search(head[:_START].replace(b"\0", b"")):
            return Detection(Confidence.NO, "")
        kind = "a runtime model" if _RUNTIME in head else "a model (IR)"
        return Detection(Confidence.SURE, f"the XML of {kind} of OpenVINO")

    def read(self, path: Path) -> ModelGraph:
        """The model in *path*; values stay in the ``.bin`` beside it. A runtime model is a
        device graph, its ops with the names of their originals."""
        from importers.openvino.graph import model_graph
        from importers.openvino.xml_reader import read_net

        with mapped(path) as buffer:
            net = read_net(buffer, path)
            return model_graph(net, path, sha256(buffer))
