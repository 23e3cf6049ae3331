"""Fuzz the reader of golden .npy files.

    python tests/fuzz/fuzz_npy.py -max_total_time=180 NEW tests/fuzz/corpus/npy

needs ``atheris`` (libFuzzer for Python). Any input must end in tensors that can
be read, or in a problem or :class:`ImportFormatError` of one line; everything else is a finding.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path


def one_input(data: bytes) -> None:
    """Read *data* as the content of a file."""
    from graphstore.errors import ImportFormatError
    from graphstore.model import DType, Framework, GraphKind, ModelGraph, Op, Tensor
    from importers.dumps import read_array, scan_dumps

    ops = (Op("a", "a", "Add", outputs=(Tensor("", DType.BFLOAT16),)),)
    graph = ModelGraph("net", GraphKind.ORIGINAL, Framework.ONNX, "fuzz", ops)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.0.1664180560000000.npy").write_bytes(data)
        index = scan_dumps(Path(folder), graph)
        assert len(index.tensors) + len(index.problems) == 1
        for ref in index.tensors.values():
            with suppress(ImportFormatError):
                assert read_array(ref).shape == ref.shape


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["importers", "graphstore"]):
        # so that their branches are counted; the packages load their modules late
        import importers.dumps.read
        import importers.dumps.scan
        import importers.layouts.align  # noqa: F401

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
