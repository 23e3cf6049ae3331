"""Fuzz a reader of golden tensors that lie in a file each: ``npy`` or ``tfdbg``.

    python tests/fuzz/fuzz_tensor_file.py npy -max_total_time=180 NEW tests/fuzz/corpus/npy

needs ``atheris`` (libFuzzer for Python). Any input must end in tensors that can
be read, or in a problem or :class:`ImportFormatError` of one line; everything else is a finding.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

READERS = {
    "npy": "a.0.1664180560000000.npy",
    "tfdbg": (
        "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0"
        "/a_0_DebugIdentity_1664180560000000"
    ),
}
"""The name, below the dump, of a file with a tensor."""


def one_input(kind: str, data: bytes) -> None:
    """Read *data* as the content of a file of *kind*."""
    from graphstore.errors import ImportFormatError
    from graphstore.model import DType, Framework, GraphKind, ModelGraph, Op, Tensor
    from importers.dumps.detect import scan_dumps
    from importers.dumps.read import read_array

    ops = (Op("a", "a", "Add", outputs=(Tensor("", DType.BFLOAT16),)),)
    graph = ModelGraph("net", GraphKind.ORIGINAL, Framework.TENSORFLOW, "fuzz", ops)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / READERS[kind]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        index = scan_dumps(Path(folder), graph)
        assert len(index.tensors) + len(index.problems) == 1
        for ref in index.tensors.values():
            with suppress(ImportFormatError):
                assert read_array(ref).shape == ref.shape


def main() -> None:
    import atheris

    kind = sys.argv.pop(1)
    with atheris.instrument_imports(include=["importers", "graphstore"]):
        # so that their branches are counted; the packages load their modules late
        import importers.dumps.detect
        import importers.dumps.read
        import importers.layouts.align  # noqa: F401

    atheris.Setup(sys.argv, partial(one_input, kind))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
