"""What lies below the roots, as paths that a form offers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from divergraph.server.roots import Roots

_MOST = 400
_DEEP = 3
_LOOKED_AT = 2000
"""Of a folder with more some are left out, whichever."""


def listed_paths(roots: Roots) -> list[str]:
    """Files and folders near the top of each root, as ``ROOT:PATH``; 400 at the most."""
    share = _MOST // max(1, len(roots.named))
    return [
        f"{name}:{path}"
        for name, folder in roots.named.items()
        for path in islice(_below(folder, ""), share)
    ]


def _below(folder: Path, prefix: str, deep: int = _DEEP) -> Iterator[str]:
    """By name, folders before what is in them; links are not followed."""
    try:
        with os.scandir(folder) as entries:
            dir_entries = sorted(islice(entries, _LOOKED_AT), key=lambda entry: entry.name)
    except OSError:
        return  # a folder that may not be read offers nothing
    folders = [entry for entry in dir_entries if entry.is_dir(follow_symlinks=False)]
    yield from (f"{prefix}{entry.name}" for entry in folders)
    yield from (
        f"{prefix}{entry.name}" for entry in dir_entries if entry.is_file(follow_symlinks=False)
    )
    for entry in folders if deep > 1 else ():
        yield from _below(Path(entry.path), f"{prefix}{entry.name}/", deep - 1)
