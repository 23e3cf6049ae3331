"""The tensors of one file, looked at without any graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from divergraph.api.arguments import AnyPath, optional_path
from divergraph.api.diff import raw_form
from divergraph.dump_diff.tensor_file import TensorFile, look_at_file


def tensor_file(
    path: AnyPath,
    *,
    dtype: str | None = None,
    shape: Sequence[int] | str | None = None,
    first: int = 10,
    top: int = 10,
    text: AnyPath | None = None,
    name: str | None = None,
) -> TensorFile:
    """The tensors in a dump or array file: type, shape, statistics, *first* and *top* values.

    *dtype* and *shape* say what a raw file holds; *text* is a folder for ``<file>.txt``; *name*
    chooses one of several tensors; of a folder it is to be given.

    Raises:
        InputError: nothing there, or no file with tensors.

    >>> import divergraph as dg
    >>> import numpy as np
    >>> np.save("conv1.npy", np.array([[1, -3], [2, 0]], np.float32))
    >>> (found,) = dg.tensor_file("conv1.npy").tensors
    >>> found.dtype, found.shape, found.statistics.maximum, found.worst[0].index
    ('float32', (2, 2), 2.0, (0, 1))
    """
    form = raw_form(dtype, shape)
    place = Path(path)
    return look_at_file(place, form=form, first=first, top=top, text=optional_path(text), name=name)
