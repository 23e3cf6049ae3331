"""The data behind ``divergraph demo``: a LeNet training step, compressed."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from importlib import resources
from pathlib import Path

from divergraph.comparison import CompareRequest
from divergraph.version import __version__
from graphstore.errors import InputError
from graphstore.private_folder import private_folder

_ARCHIVE = "lenet_train.tar.xz"


def unpack_demo_data(folder: Path) -> None:
    """Unpack the model, the golden dump and two device runs into *folder*."""
    packed = resources.files("divergraph.comparison") / "demo_data" / _ARCHIVE
    with packed.open("rb") as stream, tarfile.open(fileobj=stream, mode="r:xz") as archive:
        # Set, not passed: Python before 3.11.4 has neither the filter nor the argument.
        if (safe := getattr(tarfile, "data_filter", None)) is not None:
            archive.extraction_filter = safe
        members = archive.getmembers()
        for member in members:
            member.mode |= 0o700 if member.isdir() else 0o600  # whoever unpacks may delete it
        archive.extractall(folder, members)  # noqa: S202 - the archive is ours


def demo_folder() -> Path:
    """Where the demo's data lies, unpacked once into the user's cache.

    It stays there, so that a kept run can go back to its dumps.

    Raises:
        InputError: the cache folder cannot be written.
    """
    import platformdirs

    folder = Path(platformdirs.user_cache_dir("divergraph")) / f"demo-{__version__}"
    try:
        if folder.is_dir():
            return folder
        private_folder(folder.parent)
        unpacked = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            unpack_demo_data(unpacked)
            unpacked.rename(folder)
        finally:
            # Gone already if it took its place; another process may have been first.
            shutil.rmtree(unpacked, ignore_errors=True)
    except OSError as error:
        if isinstance(error, PermissionError) or not folder.is_dir():
            raise InputError(
                f"the demo data cannot be unpacked: {error.strerror}",
                where=str(folder),
                hint="set XDG_CACHE_HOME to a folder you may write",
            ) from error
    return folder


def demo_request(side: str = "npu_fault") -> CompareRequest:
    """The comparison the demo makes; *side* may be ``npu_clean`` for the run without a fault."""
    folder = demo_folder()
    return CompareRequest(
        golden=folder / "model.ckpt.meta",
        golden_dump=folder / "golden",
        device=folder / side / "graph",
        device_dump=folder / side / "dump",
    )
