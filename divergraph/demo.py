"""The data behind ``divergraph demo``: a real LeNet training step, compressed."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from divergraph.pipeline import CompareRequest

_ARCHIVE = "lenet_train.tar.xz"


def unpack_demo_data(folder: Path) -> None:
    """Unpack the model, the golden dump and two device runs into *folder*."""
    packed = resources.files("divergraph") / "demo_data" / _ARCHIVE
    with packed.open("rb") as stream, tarfile.open(fileobj=stream, mode="r:xz") as archive:
        archive.extractall(folder, filter="data")


@contextmanager
def demo_request(side: str = "npu_fault") -> Iterator[CompareRequest]:
    """The comparison the demo makes; *side* may be ``npu_clean`` for the run without a fault."""
    with tempfile.TemporaryDirectory(prefix="divergraph-demo-") as name:
        folder = Path(name)
        unpack_demo_data(folder)
        yield CompareRequest(
            golden=folder / "model.ckpt.meta",
            golden_dump=folder / "golden",
            device=folder / side / "graph",
            device_dump=folder / side / "dump",
        )
