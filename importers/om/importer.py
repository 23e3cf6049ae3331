"""Read an offline model (``.om``): the device graph it runs."""

from __future__ import annotations

from pathlib import Path

from graphstore.model import AttrValue, ModelGraph
from importers.contract import Confidence, Detection
from importers.fusion_result import with_fusion_result
from importers.ge_proto.assembly import assemble
from importers.om.container import MAGIC, Container
from importers.om.model import OfflineModel, read_model
from importers.source import mapped, sha256


class OfflineModelImporter:
    """Importer of offline models of either header version, with one or several models."""

    name = "om"
    reads = "Ascend offline models .om"

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the first four bytes."""
        if head[:4] == MAGIC:
            return Detection(Confidence.SURE, "it starts with IMOD, as offline models do")
        return Detection(Confidence.NO, "")

    def read(self, path: Path) -> ModelGraph:
        """The graph the model runs; the sub-graphs of all its models are bodies in it."""
        return with_fusion_result(read_om(path), path)


def read_om(path: Path) -> ModelGraph:
    """The device graph of the offline model in *path*; weights and kernels stay in the file.

    Raises:
        ImportFormatError: with the byte offset, where the file is damaged or cut.
    """
    with mapped(path) as buffer:
        model = read_model(buffer, path)
        return assembled(model, path, sha256(buffer))


def assembled(model: OfflineModel, path: Path, digest: str) -> ModelGraph:
    """The model as one graph."""
    for key, value in _facts(model.container).items():
        model.attrs.attrs.setdefault(key, value)
    return assemble(
        model.graphs, model.attrs, path, digest, form="om", warnings=model.container.warnings
    )


def _facts(container: Container) -> dict[str, AttrValue]:
    parts = tuple(
        f"{_of(number, len(container.models))}{part.name}: {part.span.size} bytes"
        f" at {part.span.offset}"
        for number, partitions in enumerate(container.models, 1)
        for part in partitions
    )
    return {
        "om_header_version": f"{container.version:#x}",
        "om_platform_version": container.platform,
        "om_partitions": parts,
    }


def _of(number: int, count: int) -> str:
    return f"model {number}, " if count > 1 else ""
