"""Tables that runs of the same two graphs share, counted by the runs that name them.

``<root>/shared/<name>/`` holds the tables and ``manifest.json``, which says the runs they were
written with. It is whole before the manifest of a run names it, and goes with the last of them; one
that no run names, as its writer died, is left over.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from graphstore.embedded.disk import is_marked_alive, read_json, sync, write_json
from graphstore.embedded.table_files import TABLES, manifest_of
from graphstore.errors import StoreError
from graphstore.private_folder import made_in
from graphstore.schema.tables import SCHEMA_VERSION

MANIFEST = "manifest.json"
SHARED = "shared"
_NAME = re.compile(r"[0-9a-f]{16}")


def is_shared_name(value: object) -> bool:
    """True of what a manifest may say: the name of shared tables, or nothing."""
    return value is None or (isinstance(value, str) and _NAME.fullmatch(value) is not None)


def shared_drafts(
    written: Path, runs: Mapping[str, Mapping[str, Any]]
) -> tuple[str, dict[str, Path]]:
    """Split *written*, whose tables are those of *runs* (manifests by name).

    Returns the name of the shared tables, whose folder is ``shared`` in *written*, and the folders
    of the runs by name.
    """
    home = written / SHARED
    home.mkdir()
    (written / TABLES).rename(home / TABLES)
    about = {"kind": "shared", "runs": list(runs), "writer": written.name}
    _write(home, {"schema": SCHEMA_VERSION, **about, "tables": manifest_of(home / TABLES)})
    name = secrets.token_hex(8)
    drafts = {}
    for number, (run, manifest) in enumerate(runs.items()):
        drafts[run] = written / str(number)
        drafts[run].mkdir()
        together = {"schema": SCHEMA_VERSION, "shared": name, "together": len(runs)}
        _write(drafts[run], {**manifest, **together})
    return name, drafts


def _write(folder: Path, manifest: Mapping[str, object]) -> None:
    write_json(folder / MANIFEST, manifest)
    sync(folder)


def publish_shared(root: Path, written: Path, name: str) -> None:
    """Put the tables of :func:`shared_drafts` in their place; while nobody else publishes."""
    made_in(root, root / SHARED)
    (written / SHARED).rename(root / SHARED / name)
    sync(root / SHARED)


def shared_by(manifest: Path) -> str | None:
    """The name of the shared tables a manifest names, if it does."""
    name = _read(manifest).get("shared")
    return name if is_shared_name(name) else None


def release(root: Path, name: str | None) -> None:
    """Remove the shared tables *name* if no run names them; while nobody else publishes."""
    if name is not None and not _is_named(root, name):
        shutil.rmtree(root / SHARED / name, ignore_errors=True)


def unused(root: Path) -> Iterator[Path]:
    """The folders of shared tables that no run names, and no living writer made."""
    for home in sorted((root / SHARED).glob("*")):
        writer = _read(home / MANIFEST).get("writer")
        is_new = writer is not None and is_marked_alive(root / str(writer))
        if not is_new and not _is_named(root, home.name):
            yield home


def _is_named(root: Path, name: str) -> bool:
    # Most still have the name they were written with. One that is set aside counts, too: the
    # tables may be all that is left of it.
    runs = _read(root / SHARED / name / MANIFEST).get("runs", ())
    here = (root / "runs" / str(run) / MANIFEST for run in runs)
    others = (path for kind in ("runs", "damaged") for path in root.glob(f"{kind}/*/{MANIFEST}"))
    return any(_names(path, name) for path in chain(here, others))


def _names(manifest: Path, shared: str) -> bool:
    """Whether a manifest names the tables *shared*, or may do so: what it says is damaged, or
    cannot be read just now, and it has none of its own."""
    if not manifest.exists():
        return False
    try:
        return read_json(manifest).get("shared") == shared
    except StoreError:
        return not any(manifest.parent.glob(f"{TABLES}*"))


def _read(path: Path) -> dict[str, Any]:
    """What a manifest says; nothing, if it cannot be read."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
