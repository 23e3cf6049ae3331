"""Fuzz the reader of runs recorded by msprobe.

    python tests/fuzz/fuzz_msprobe_graph.py -max_total_time=180 NEW tests/fuzz/corpus/msprobe_graph

needs ``atheris`` (libFuzzer for Python). Any input must end in a graph or in an
:class:`ImportFormatError`; everything else is a finding. A zero byte ends
a file of the run and begins the next: dump.json, construct.json, stack.json.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def one_input(data: bytes) -> None:
    """Read *data* as the files of a run."""
    from graphstore.errors import ImportFormatError
    from importers.msprobe.importer import MsprobeImporter

    importer = MsprobeImporter()
    files = dict(
        zip(("dump.json", "construct.json", "stack.json"), data.split(b"\0", 2), strict=False)
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        path = Path(folder) / "dump.json"
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
        from importers.msprobe import graph, importer  # noqa: F401 - for their branches

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
