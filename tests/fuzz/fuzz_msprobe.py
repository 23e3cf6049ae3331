"""Fuzz the readers of msprobe's dump.json, of .pt files and of Polygraphy's JSON.

    python tests/fuzz/fuzz_msprobe.py -max_total_time=180 NEW tests/fuzz/corpus/msprobe

needs ``atheris`` (libFuzzer for Python). Any input must end in tensors that can
be read, or in a problem or :class:`ImportFormatError` of one line; everything else is a finding.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

_CALL = "Functional.conv2d.0.forward"
_TOLD = (
    '{"data": {"Functional.conv2d.0.forward": {"output": [{"type": "torch.Tensor", '
    '"dtype": "torch.float32", "shape": [2, 3], "data_name": "t.pt"}]}}}'
)


def one_input(data: bytes) -> None:
    """Read *data* as a dump.json, as a .pt file and as run results."""
    from graphstore.errors import ImportFormatError
    from graphstore.model import Framework, GraphKind, ModelGraph, Op, Tensor
    from importers.dumps.detect import scan_dumps
    from importers.dumps.read import read_array

    ops = (Op(_CALL, _CALL, "conv2d", outputs=(Tensor("a"),)),)
    graph = ModelGraph("net", GraphKind.ORIGINAL, Framework.PYTORCH, "fuzz", ops)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "dump_tensor_data").mkdir()
        (folder / "dump_tensor_data" / "t.pt").write_bytes(data)
        (folder / "results.json").write_bytes(data)
        for told, path in (
            (data, folder),
            (_TOLD.encode(), folder),
            (b"", folder / "results.json"),
        ):
            (folder / "dump.json").write_bytes(told)
            with suppress(ImportFormatError):
                for ref in scan_dumps(path, graph).tensors.values():
                    if ref.statistics is None:
                        assert read_array(ref).shape == ref.shape


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
