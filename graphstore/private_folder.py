"""Folders that hold paths, names of models and values: for this user alone."""

from __future__ import annotations

from contextlib import suppress
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


def share_as(root: Path, *paths: Path) -> None:
    """Let *paths* below *root*, and all in them, be for those for whom *root* itself is,
    whatever the umask: for its user alone, or for a team.

    Raises:
        OSError: it is gone.
    """
    mode = root.stat().st_mode & 0o2777
    for path in paths:
        for entry in (path, *(path.rglob("*") if path.is_dir() else ())):
            with suppress(PermissionError):  # a file system without permissions
                entry.chmod(mode if entry.is_dir() else mode & 0o666)


def made_in(root: Path, folder: Path) -> Path:
    """*folder*, made below *root* with its missing parents, for whom *root* is.

    Raises:
        OSError: it cannot be made.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        share_as(root, path)
    return folder
