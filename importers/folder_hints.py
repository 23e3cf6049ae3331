"""What to do with a folder in which there is nothing to read."""

from __future__ import annotations

from pathlib import Path

from importers.archives import unpack_hint

_TFDBG_2 = "tfdbg_events.*.metadata"


def folder_hint(folder: Path) -> str:
    """The way on from *folder*, if what lies in it tells one; else empty."""
    if hint := unpack_hint(folder):
        return hint
    try:
        logs = any(True for _ in folder.glob(_TFDBG_2))
    except OSError:
        return ""
    reason = (
        "these are event logs of tfdbg v2, which are not read: divergraph capture runs the model"
    )
    return reason if logs else ""
