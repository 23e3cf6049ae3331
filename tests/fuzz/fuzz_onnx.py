"""Fuzz the reader of ONNX models, binary and text.

    python tests/fuzz/fuzz_onnx.py -max_total_time=180 NEW tests/fuzz/corpus/onnx

needs ``atheris`` (libFuzzer for Python). Any input must end in a graph or in an
:class:`ImportFormatError`; everything else is a finding.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def one_input(data: bytes) -> None:
    """Read *data* as the content of a file."""
    from graphstore.errors import ImportFormatError
    from importers.onnx_model.importer import OnnxImporter

    importer = OnnxImporter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        importer.detect(path, data[: 1 << 16])
        try:
            graph = importer.read(path)
        except ImportFormatError:
            return
    for _ in graph.edges():
        pass


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["importers", "graphstore"]):
        from importers.onnx_model import (  # noqa: F401 - so that its branches are counted
            functions,
            importer,
            reading,
            walk,
        )

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
