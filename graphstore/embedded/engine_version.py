"""Which version of the engine wrote a database, and whether the one installed can read it.

A file begins with four letters and the version of its form, 8 bytes. Engines read older forms and
write their own; an older engine refuses a newer form, and knows no way back.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from graphstore.errors import StoreError

_MAGIC, _HEAD = b"LBUG", 12


def engine_name() -> str:
    """The engine that is installed, and its version."""
    return f"ladybug {version('ladybug')}"


def is_own_form(path: Path, writer: str | None) -> bool:
    """True if a database file has the form that the installed engine writes, or is none at all.

    *writer* is the engine that wrote it, None if nobody knows.

    Raises:
        StoreError: a newer engine wrote it, and this one cannot read it.
    """
    if writer == engine_name():
        return True
    import ladybug

    form, own = _form(path), int(ladybug.storage_version)
    if form is not None and form > own:
        raise StoreError(
            f"{writer or 'a newer version of ladybug'} wrote it; {engine_name()}, which is "
            "installed, cannot read it",
            where=str(path),
            hint="nothing is damaged: ask with that engine, or `divergraph backup` with it and "
            "`restore` here",
        )
    return form is None or form == own


def _form(path: Path) -> int | None:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    whole = len(head) == _HEAD and head.startswith(_MAGIC)
    return int.from_bytes(head[len(_MAGIC) :], "little") if whole else None
