"""Write ``.npy`` files whose every byte is known to have been written."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def write_npy(path: Path, value: npt.NDArray[Any]) -> int:
    """Write *value* to the new file *path*; returns its bytes.

    numpy's own writer closes C files without looking, so a small array on a full disk
    would be cut without a word.

    Raises:
        OSError: the file is there already, or cannot be written whole.
    """
    header = io.BytesIO()
    plain = np.asarray(value, order="C")
    about = np.lib.format.header_data_from_array_1_0(plain)
    np.lib.format.write_array_header_1_0(header, about)
    with path.open("xb") as file:
        file.write(header.getvalue())
        if plain.size:
            file.write(plain.reshape(-1).view(np.uint8).data)
        return file.tell()
