"""The layout a user asks for: a tensor of a dump brought from its stored layout into it."""

from __future__ import annotations

import re
from typing import Any

from numpy.typing import NDArray

from graphstore.errors import InputError
from importers.layouts import LayoutError, from_layout, to_layout
from importers.layouts.tables import BLOCKED, MATRIX, ND, PLAIN

_MADE = (*BLOCKED, *MATRIX, "FRACTAL_Z_C04", "C1HWNCoC0")
LAYOUTS = (*PLAIN, ND, *_MADE)
"""The layouts that can be asked for."""

_SHAPE = re.compile(r"\d{1,18}(?:,\d{1,18})*")
_MAX_RANK = 32


def check_layout(name: str) -> str:
    """*name* if it is a layout that can be asked for.

    Raises:
        InputError: it is none.
    """
    if name not in LAYOUTS:
        raise InputError(f"no layout named {name!r}", hint=f"one of {', '.join(LAYOUTS)}")
    return name


def parse_shape(text: str) -> tuple[int, ...]:
    """The shape in *text*, sizes with commas between them.

    Raises:
        InputError: it is none, or a size is 0.
    """
    dims = text.replace(" ", "")
    if _SHAPE.fullmatch(dims) is None:
        raise InputError(f"{text!r} is no shape", hint="such as 1,3,224,224")
    shape = tuple(map(int, dims.split(",")))
    if 0 in shape or len(shape) > _MAX_RANK:
        what = "every size must be 1 or more" if 0 in shape else "that are too many axes"
        raise InputError(f"{text!r} is no shape of a tensor: {what}")
    return shape


def relayout(
    array: NDArray[Any],
    stored: str | None,
    wanted: str,
    shape: tuple[int, ...] | None,
    groups: int = 0,
) -> NDArray[Any]:
    """*array*, which lies as *stored*, as *wanted* and cut to *shape*.

    *shape* is that of the tensor without blocks and padding, None if it is not known.

    Raises:
        LayoutError: no such conversion, or *shape* does not fit.
    """
    source = stored or ND
    if source in PLAIN and array.ndim != len(PLAIN[source]):
        source = ND  # a four-dimensional name on a tensor that is not
    if wanted not in _MADE:
        return _fitting(to_layout(array, source, wanted, shape, groups=groups), shape)
    if wanted == source:
        return array
    plain = source
    if source not in PLAIN and source != ND:
        plain = _between(wanted)
        array = to_layout(array, source, plain, shape, groups=groups)
    elif shape is not None:
        array = to_layout(array, source, source, shape)
    return from_layout(array, plain, wanted, groups=groups)


def _between(wanted: str) -> str:
    if wanted in MATRIX:
        return ND
    if wanted in ("NDC1HWC0", "FRACTAL_Z_3D"):
        return "NCDHW"
    return "NCHW"


def _fitting(array: NDArray[Any], shape: tuple[int, ...] | None) -> NDArray[Any]:
    if shape is not None and array.shape != shape:
        have = ",".join(map(str, array.shape))
        raise LayoutError(f"it has shape {have} then, not {','.join(map(str, shape))}")
    return array
