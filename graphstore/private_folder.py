"""Folders that hold paths, names of models and values: for this user alone."""

from __future__ import annotations

from pathlib import Path


def private_folder(folder: Path) -> Path:
    """*folder*, made with its missing parents so that nobody else looks into them.

    A folder that is there keeps its permissions: a team makes its own and shares it.

    Raises:
        OSError: it cannot be made.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(folder))
    return folder
