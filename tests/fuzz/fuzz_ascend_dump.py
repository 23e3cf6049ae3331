"""Fuzz the readers of Ascend dump files, their overflow records and tables of statistics.

    python tests/fuzz/fuzz_ascend_dump.py -max_total_time=600 NEW tests/fuzz/corpus/ascend_dump

needs ``atheris`` (libFuzzer for Python). Any input must end in tensors that can
be read, or in a problem or :class:`ImportFormatError` of one line; everything else is a finding.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

_STAMP = "1664180560000000"
_NAMES = (
    f"Add.a.1.1.{_STAMP}",
    f"Conv2D.b.2.1.{_STAMP}.4.12.0.0",
    f"Opdebug.Node_OpDebug.1.1.{_STAMP}",
    f"Add.c.3.1.{_STAMP}.csv",
    f"d.0.{_STAMP}.pb",
)


def one_input(data: bytes) -> None:
    """Read *data* as the content of a file of each kind."""
    from graphstore.errors import ImportFormatError
    from graphstore.model import Framework, GraphKind, InputRef, ModelGraph, Op, Tensor
    from importers.dumps.ascend.file import read_device_file
    from importers.dumps.detect import scan_dumps
    from importers.dumps.read import read_array
    from importers.layouts import LayoutError, align_to_golden

    ops = tuple(
        Op(name, name, "Add", inputs=(InputRef("x"), None), outputs=(Tensor(""),))
        for name in "abcd"
    )
    graph = ModelGraph("net", GraphKind.DEVICE, Framework.ASCEND, "fuzz", ops)
    with tempfile.TemporaryDirectory() as folder:
        for name in _NAMES:
            (Path(folder) / name).write_bytes(data)
        with suppress(ImportFormatError):
            read_device_file(Path(folder) / _NAMES[0])
        index = scan_dumps(Path(folder), graph)
        for problem in index.problems:
            assert "\n" not in problem.detail
        for ref in index.tensors.values():
            if ref.statistics is not None:
                continue
            with suppress(ImportFormatError, LayoutError):
                align_to_golden(
                    read_array(ref),
                    ref.layout,
                    None,
                    ref.original_shape,
                    (1, 2, 3, 4),
                    groups=ref.groups,
                )


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["importers", "graphstore"]):
        # so that their branches are counted; the packages load their modules late
        import importers.dumps.detect
        import importers.dumps.read
        import importers.layouts.align  # noqa: F401

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
