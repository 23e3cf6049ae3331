"""Fuzz the reader of ge_onnx texts.

    python tests/fuzz/fuzz_ge_onnx.py -max_total_time=180 NEW tests/fuzz/corpus/ge_onnx

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
    from importers.ge_onnx.importer import GeOnnxImporter

    data = data or b"\n"  # an empty file is refused before any reader sees it
    importer = GeOnnxImporter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pbtxt"
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
        import importers.ge_onnx.importer  # noqa: F401 - so that its branches are counted

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
