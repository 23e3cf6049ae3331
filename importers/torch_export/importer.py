"""Read models that ``torch.export.save`` wrote: ``.pt2``."""

from __future__ import annotations

import re
from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import ModelGraph
from importers.contract import Confidence, Detection
from importers.source import mapped, sha256

_FIRST = re.compile(
    rb"PK\x03\x04.{26}(?:serialized_exported_program\.json|[^/\0]+/"
    rb"(?:data/(?:weights|constants)/|models/[^/\0]+\.json|archive_format))",
    re.DOTALL,
)
"""How an archive begins: a zip's local header, then the name of its first member."""


class TorchExportImporter:
    """Importer of exported programs of PyTorch."""

    name = "torch_export"
    reads = "PyTorch's torch.export .pt2"

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the archive's first member."""
        if _FIRST.match(head) is None:
            return Detection(Confidence.NO, "")
        return Detection(Confidence.SURE, "an archive of torch.export")

    def read(self, path: Path) -> ModelGraph:
        """The program: operators of ATen as calls of PyTorch; weights stay in the file."""
        from importers.torch_export.archive import read_program
        from importers.torch_export.graph import exported_graph

        program = read_program(path)
        with mapped(path) as buffer:
            digest = sha256(buffer)
        try:
            return exported_graph(program, path, digest)
        except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
            what = f"the program is not built as PyTorch's are ({type(error).__name__}: {error})"
            raise ImportFormatError(path, what, hint="export it again") from error
