"""Fuzz the reader of TensorFlow graphs, binary and text.

    python tests/fuzz/fuzz_tensorflow.py -max_total_time=180 NEW tests/fuzz/corpus/tensorflow

needs ``atheris`` (libFuzzer for Python). Any input must end in a graph or in an
:class:`ImportFormatError`; everything else is a finding.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def one_input(data: bytes) -> None:
    """Read *data* as a file of the kind it looks like."""
    from graphstore.errors import ImportFormatError
    from importers.tensorflow.importer import (
        GraphDefImporter,
        MetaGraphImporter,
        SavedModelImporter,
    )

    importers = (GraphDefImporter(), MetaGraphImporter(), SavedModelImporter())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pb"
        path.write_bytes(data)
        fitting = [each for each in importers if each.detect(path, data[: 1 << 16]).confidence]
        try:
            graph = (fitting or importers)[0].read(path)
        except ImportFormatError:
            return
    for _ in graph.edges():
        pass


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["importers", "graphstore"]):
        from importers.tensorflow import (  # noqa: F401 - so that its branches are counted
            importer,
            reading,
        )

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
