"""Fuzz a reader of graphs: one of READERS, as ``ge_json`` or ``tflite``.

    python tests/fuzz/fuzz_graph.py ge_json -max_total_time=180 NEW tests/fuzz/corpus/ge_json

needs ``atheris`` (libFuzzer for Python). Any input must end in a graph or in an
:class:`ImportFormatError`; everything else is a finding. Where a graph is several files, a
zero byte ends one and begins the next.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path

READERS = {
    "ge_json": ("importers.ge_json.importer", "GeJsonImporter", ("model.json",)),
    "ge_onnx": ("importers.ge_onnx.importer", "GeOnnxImporter", ("model.pbtxt",)),
    "ge_proto": ("importers.ge_proto.importer", "GeProtoImporter", ("model.txt",)),
    "onnx": ("importers.onnx_model.importer", "OnnxImporter", ("model.onnx",)),
    "openvino": ("importers.openvino.importer", "OpenVinoImporter", ("model.xml", "model.bin")),
    "tflite": ("importers.tflite.importer", "TfliteImporter", ("model.tflite",)),
    "msprobe_graph": (
        "importers.msprobe.importer",
        "MsprobeImporter",
        ("dump.json", "construct.json", "stack.json"),
    ),
}
"""Module and class of each importer, and the names of its files; it is given the first."""
LATE = (
    "importers.onnx_model.reading",
    "importers.onnx_model.walk",
    "importers.msprobe.graph",
    "importers.openvino.graph",
    "importers.tflite.graph",
)
"""What importers load when they first read a file."""


def one_input(kind: str, data: bytes) -> None:
    """Read *data* as the content of the files of *kind*."""
    from graphstore.errors import ImportFormatError

    module, name, files = READERS[kind]
    importer = getattr(import_module(module), name)()
    data = data or b"\n"  # an empty file is refused before any reader sees it
    contents = data.split(b"\0", len(files) - 1) if len(files) > 1 else [data]
    with tempfile.TemporaryDirectory() as folder:
        for file, content in zip(files, contents, strict=False):
            (Path(folder) / file).write_bytes(content)
        path = Path(folder) / files[0]
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
