"""The data folder of precision_tool."""

from __future__ import annotations

from pathlib import Path

from divergraph.api.arguments import AnyPath
from divergraph.inputs.data_folder import DEFAULT, DataFolder
from divergraph.inputs.data_folder import data_folder as found_at
from divergraph.inputs.kept_paths import kept_path
from graphstore.errors import InputError
from graphstore.model import Run

__all__ = ["DEFAULT", "NOTHING_YET", "DataFolder", "data_folder", "found_at", "is_made_of"]

NOTHING_YET = DataFolder(DEFAULT, (), None, None, None, None, ())
"""A folder without any part."""


def data_folder(path: AnyPath) -> DataFolder:
    """The parts of the data folder at *path*.

    Raises:
        InputError: it is none.
    """
    folder = Path(path)
    laid_out = found_at(folder)
    if laid_out is None:
        what = "not laid out as precision_tool's data" if folder.is_dir() else "no such folder"
        raise InputError(
            what, where=str(folder), hint="it has npu/debug_0/{graph,dump} and tf/{dump,graph}"
        )
    return laid_out


def is_made_of(run: Run, folder: Path) -> bool:
    """Whether the device's side of *run* lies in the data *folder*."""
    try:
        device = kept_path(run, "device")
    except InputError:
        return False
    return folder.resolve() in device.resolve().parents
