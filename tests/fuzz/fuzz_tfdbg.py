"""Fuzz the reader of TensorFlow debugger sessions.

    python tests/fuzz/fuzz_tfdbg.py -max_total_time=180 NEW tests/fuzz/corpus/tfdbg

needs ``atheris`` (libFuzzer for Python). Any input must end in tensors that can
be read, or in a problem or :class:`ImportFormatError` of one line; everything else is a finding.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path


def one_input(data: bytes) -> None:
    """Read *data* as the content of an event file."""
    from graphstore.errors import ImportFormatError
    from graphstore.model import Framework, GraphKind, ModelGraph, Op, Tensor
    from importers.dumps import read_array, scan_dumps

    ops = (Op("a", "a", "Add", outputs=(Tensor(""),)),)
    graph = ModelGraph("net", GraphKind.ORIGINAL, Framework.TENSORFLOW, "fuzz", ops)
    with tempfile.TemporaryDirectory() as folder:
        device = Path(folder) / "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0"
        device.mkdir()
        (device / "a_0_DebugIdentity_1664180560000000").write_bytes(data)
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
