"""Fuzz the reader of Caffe nets, text and binary.

    python tests/fuzz/fuzz_caffe.py -max_total_time=180 NEW tests/fuzz/corpus/caffe

needs ``atheris`` (libFuzzer for Python). Any input must end in a graph or in an
:class:`ImportFormatError`; everything else is a finding.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def one_input(data: bytes) -> None:
    """Read *data* as a net, also as its own weights."""
    from graphstore.errors import ImportFormatError
    from importers.caffe.importer import CaffeImporter

    importer = CaffeImporter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.prototxt"
        path.write_bytes(data)
        importer.detect(path, data[: 1 << 16])
        for options in ({}, {"phase": "TRAIN"}, {"weights": str(path)}):
            try:
                graph = importer.read_with(path, options)
            except ImportFormatError:
                return
            for _ in graph.edges():
                pass


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["importers", "graphstore"]):
        from importers.caffe import (  # noqa: F401 - so that its branches are counted
            binary,
            graph,
            importer,
            text,
        )

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
