"""Fuzz the reader of offline models.

    python tests/fuzz/fuzz_om.py -max_total_time=180 NEW tests/fuzz/corpus/om

needs ``atheris`` (libFuzzer for Python). Any input must end in a graph and its weights or
in an :class:`ImportFormatError`; everything else is a finding. Inputs
that were one are kept in the corpus, which ``test_replay.py`` replays.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path


def one_input(data: bytes) -> None:
    """Read *data* as an offline model, or as the definition in one if it is none itself."""
    content = data if data[:4] == b"IMOD" else _wrapped(data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.om"
        path.write_bytes(content)
        _read(path)


def _read(path: Path) -> None:
    from graphstore.errors import ImportFormatError
    from importers.om.constants import weights
    from importers.om.importer import OfflineModelImporter

    try:
        graph = OfflineModelImporter().read(path)
        for _ in graph.edges():
            pass
        found = weights(path)
    except ImportFormatError:
        return
    for op in found:
        try:
            found[op].sum()
        except ImportFormatError:
            continue


def _wrapped(definition: bytes) -> bytes:
    weights = bytes(range(256)) * 4
    table = struct.pack("<I", 2)
    for kind, offset, size in (
        (0, 0, len(definition)),
        (1, len(definition), len(weights)),
    ):
        table += struct.pack("<III", kind, offset, size)
    body = table + definition + weights
    header = bytearray(256)
    struct.pack_into("<4sII", header, 0, b"IMOD", 256, 0x20000000)
    struct.pack_into("<I", header, 76, len(body))
    return bytes(header) + body


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["importers", "graphstore"]):
        import importers.layouts.convert
        import importers.om.constants  # noqa: F401 - so that their branches are counted

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
