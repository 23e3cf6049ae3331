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

_ORDERS = ("NHWC", "NCHW", "HWCN", "NDHWC", "NCDHW", "DHWCN")
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
        raise InputError(f"{text!r} is not a shape", hint="such as 1,3,224,224")
    shape = tuple(map(int, dims.split(",")))
    if 0 in shape or len(shape) > _MAX_RANK:
        what = "every size must be 1 or more" if 0 in shape else "that are too many axes"
        raise InputError(f"{text!r} is not a shape of a tensor: {what}")
    return shape


def relayout(
    array: NDArray[Any],
    stored: str | None,
    wanted: str,
    shape: tuple[int, ...] | None,
    groups: int = 0,
    *,
    exact: bool = True,
) -> tuple[NDArray[Any], str]:
    """*array*, which lies as *stored*, as *wanted* and cut to *shape*; and how it lies then.

    *shape* is that of the tensor without blocks and padding, None if it is not known. A
    tensor without a layout (ND) has none to convert, so it stays as it is; only its place
    in device blocks can be asked for. Where *shape* is that of the framework's tensor, its
    axes may be in another order than those of *wanted* (not *exact*): then they are those
    of the first layout that fits.

    Raises:
        LayoutError: no such conversion, or *shape* does not fit.
    """
    source = stored or ND
    if source in PLAIN and array.ndim != len(PLAIN[source]):
        source = ND  # a four-dimensional name on a tensor that is not
    if wanted == source:
        return array, wanted
    if wanted not in _MADE:
        relaid = _plain(array, source, wanted, shape, groups, exact=exact)
        return relaid, ND if source == ND else wanted
    plain = source
    if source not in PLAIN and source != ND:
        plain = _between(wanted)
        array = _plain(array, source, plain, shape, groups, exact=exact)
    elif shape is not None:
        array = to_layout(array, source, source, shape)
    return from_layout(array, plain, wanted, groups=groups), wanted


def _plain(
    array: NDArray[Any],
    source: str,
    wanted: str,
    shape: tuple[int, ...] | None,
    groups: int,
    *,
    exact: bool,
) -> NDArray[Any]:
    """*array* in a layout without blocks."""
    try:
        return _fitting(to_layout(array, source, wanted, shape, groups=groups), shape)
    except LayoutError:
        if exact or shape is None or wanted not in PLAIN:
            raise
        for order in _ORDERS:
            if sorted(order) != sorted(wanted):
                continue
            try:
                plain = _fitting(to_layout(array, source, order, shape, groups=groups), shape)
            except LayoutError:
                continue  # the next order may fit; if none does, the first error is told
            return to_layout(plain, order, wanted)
        raise


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
