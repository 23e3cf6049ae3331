"""Folders of ours as one file to take away."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.responses import FileResponse

ZIP = "application/zip"


def packed(find: Callable[[Path], Path]) -> FileResponse:
    """The folder that *find* names as a ZIP file; it is given a place to make it in, which is
    cleared once the answer is sent."""
    place = Path(tempfile.mkdtemp(prefix="divergraph-part-"))
    try:
        folder = find(place)
        file = place / f"{folder.name}.zip"
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.write(path, f"{folder.name}/{path.relative_to(folder)}")
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    clean = BackgroundTask(shutil.rmtree, place, ignore_errors=True)
    return FileResponse(file, filename=file.name, media_type=ZIP, background=clean)
