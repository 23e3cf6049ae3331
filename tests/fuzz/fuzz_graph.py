"""Fuzz a reader of graphs that are one file: ``ge_json``, ``ge_onnx``, ``ge_proto`` or ``onnx``.

    python tests/fuzz/fuzz_graph.py ge_json -max_total_time=180 NEW tests/fuzz/corpus/ge_json

needs ``atheris`` (libFuzzer for Python). Any input must end in a graph or in an
:class:`ImportFormatError`; everything else is a finding.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path

READERS = {
    "ge_json": ("importers.ge_json.importer", "GeJsonImporter", "model.json"),
    "ge_onnx": ("importers.ge_onnx.importer", "GeOnnxImporter", "model.pbtxt"),
    "ge_proto": ("importers.ge.importer", "GeProtoImporter", "model.txt"),
    "onnx": ("importers.onnx_model.importer", "OnnxImporter", "model.onnx"),
}
"""Module and class of each importer, and the name of the file it is given."""
LATE = ("importers.onnx_model.reading", "importers.onnx_model.walk")
"""What importers load when they first read a file."""


def one_input(kind: str, data: bytes) -> None:
    """Read *data* as the content of a file of *kind*."""
    from graphstore.errors import ImportFormatError

    module, name, file = READERS[kind]
    importer = getattr(import_module(module), name)()
    data = data or b"\n"  # an empty file is refused before any reader sees it
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file
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

    kind = sys.argv.pop(1)
    with atheris.instrument_imports(include=["importers", "graphstore"]):
        for module in (READERS[kind][0], *LATE):
            import_module(module)  # so that its branches are counted

    atheris.Setup(sys.argv, partial(one_input, kind))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
