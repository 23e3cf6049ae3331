"""Write arrays to files whose every byte is known to have been written."""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt


def write_npy(path: Path, value: npt.NDArray[Any]) -> int:
    """Write *value* to the new file *path*; returns its bytes.

    numpy's own writer closes C files without looking, so a small array on a full disk
    would be cut without a word.

    Raises:
        OSError: the file is there already, or cannot be written whole.
    """
    with path.open("xb") as file:
        write_npy_to(file, value)
        return file.tell()


def write_npy_to(file: IO[bytes], value: npt.NDArray[Any]) -> None:
    """Write *value* to an open file.

    Raises:
        OSError: it cannot be written whole.
    """
    header = io.BytesIO()
    plain = np.asarray(value, order="C")
    about = np.lib.format.header_data_from_array_1_0(plain)
    np.lib.format.write_array_header_1_0(header, about)
    file.write(header.getvalue())
    _write_elements(file, plain)


def write_raw(path: Path, value: npt.NDArray[Any]) -> None:
    """Write the elements of *value* in C order, and nothing else, to *path*.

    Raises:
        OSError: it cannot be written whole.
    """
    with path.open("wb") as file:
        _write_elements(file, np.asarray(value, order="C"))


def _write_elements(file: IO[bytes], plain: npt.NDArray[Any]) -> None:
    if plain.size:
        file.write(plain.reshape(-1).view(np.uint8).data)
