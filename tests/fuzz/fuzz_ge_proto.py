"""Fuzz the reader of GE text graphs.

    python tests/fuzz/fuzz_ge_proto.py -max_total_time=180 NEW tests/fuzz/corpus/ge_proto

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
    from importers.ge.importer import GeProtoImporter

    data = data or b"\n"  # an empty file is refused before any reader sees it
    importer = GeProtoImporter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.txt"
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
        import importers.ge.importer  # noqa: F401 - so that its branches are counted

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
