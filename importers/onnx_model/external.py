"""Check where a model keeps values outside itself: beside it or below, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

from graphstore.errors import ImportFormatError
from graphstore.model import Constant
from importers.kept import told_of

_HINT = "values may lie only in the model's folder or below it; save the model again"


def check_external(path: Path, constants: Iterable[Constant]) -> list[str]:
    """What is missing of the files with values that the model *path* names, as lines.

    Raises:
        ImportFormatError: a value lies outside of the model's folder, by an absolute path, by
            ``..`` or through a link.
    """
    folder = path.absolute().parent
    sizes: dict[str, int | None] = {}
    short: list[str] = []
    for constant in constants:
        place = constant.location
        if not place:
            continue
        if place not in sizes:
            _check_place(path, folder, constant.tensor.name, place)
            sizes[place] = _size(folder / place)
        size = sizes[place]
        if size is not None and constant.offset + (constant.nbytes or 0) > size:
            short.append(constant.tensor.name)
    missing = sorted(place for place, size in sizes.items() if size is None)
    past = "{value reaches past the end of its|values reach past the end of their} file"
    return [
        *told_of(missing, "{file with values is|files with values are} not there"),
        *told_of(short, past),
    ]


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size if file.is_file() else None
    except OSError:  # a name no file can have is as good as missing
        return None


def _check_place(path: Path, folder: Path, tensor: str, place: str) -> None:
    what = f"the values of {tensor!r} lie at {place!r}"
    if "\0" in place or PurePosixPath(place).is_absolute() or PureWindowsPath(place).anchor:
        raise ImportFormatError(path, f"{what}, an absolute path", hint=_HINT)
    if ".." in PureWindowsPath(place).parts:  # parts at both kinds of slashes
        raise ImportFormatError(path, f"{what}, outside of the model's folder", hint=_HINT)
    inside = os.path.realpath(folder)
    found = os.path.realpath(folder / place)
    if os.path.commonpath([inside, found]) != inside:
        what += ", which is a link out of the model's folder"
        raise ImportFormatError(path, what, hint=_HINT)
