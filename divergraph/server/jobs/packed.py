"""Folders of ours as one file to take away."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from graphstore.own_folder import OwnFolder

ZIP = "application/zip"


def packed(find: Callable[[Path], Path]) -> FileResponse:
    """The folder that *find* names as a ZIP file; it is given a place to make it in, which is
    cleared once the answer is sent."""
    own = OwnFolder("part")
    try:
        folder = find(own.path)
        file = own.path / f"{folder.name}.zip"
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.write(path, f"{folder.name}/{path.relative_to(folder)}")
    except BaseException:
        own.remove()
        raise
    clean = BackgroundTask(own.remove)
    return FileResponse(file, filename=file.name, media_type=ZIP, background=clean)
