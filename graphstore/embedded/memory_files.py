"""Small texts in ``<root>/memory/<kind>/<key>.json``: written whole, known by a checksum."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from graphstore.embedded.disk import (
    SET_ASIDE,
    DamagedStoreError,
    alone,
    draft_path,
    os_errors,
    read_json,
    sync,
    write_json,
)
from graphstore.private_folder import made_in, share_as

FOLDER = "memory"
_ENDING = ".json"


def remembered(root: Path, kind: str) -> list[str]:
    """The texts of a kind.

    Raises:
        DamagedStoreError: a file is not what was written.
    """
    return [text for path in _files(root, kind) if (text := _text(path)) is not None]


def remember(root: Path, kind: str, key: str, text: str) -> None:
    """Keep *text* under *key*, in place of an earlier one; the store is there."""
    folder = root / FOLDER / kind
    with os_errors("write", folder):
        made_in(root, folder)
        draft = draft_path(root)
        with alone(root):
            write_json(draft, {"text": text})
            share_as(root, draft)
            draft.replace(folder / f"{key}{_ENDING}")
            sync(folder)


def forget(root: Path, kind: str, key: str) -> bool:
    """Remove what is kept under *key*; False if nothing is."""
    path = root / FOLDER / kind / f"{key}{_ENDING}"
    with os_errors("write", path), alone(root):
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        sync(path.parent)
    return True


def damaged_memory(root: Path) -> Iterator[tuple[Path, str]]:
    """The files that cannot be read, each with what is wrong with it."""
    for folder in sorted((root / FOLDER).glob("[!.]*")):
        for path in _files(root, folder.name):
            try:
                _text(path)
            except DamagedStoreError as error:
                yield path, error.what


def _files(root: Path, kind: str) -> list[Path]:
    folder = root / FOLDER / kind
    with os_errors("read", folder):
        return sorted(folder.glob(f"[!.]*{_ENDING}")) if folder.is_dir() else []


def _text(path: Path) -> str | None:
    """What a file holds; None if it is gone since it was listed."""
    with suppress(FileNotFoundError):
        if not path.exists():
            return None
        text = read_json(path).get("text")
        if isinstance(text, str):
            return text
        raise DamagedStoreError(
            "holds no text", where=str(path), hint=f"the store is damaged here; {SET_ASIDE}"
        )
    return None
