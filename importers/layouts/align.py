"""Device values arranged as the golden tensor they are held against."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from importers.layouts.convert import to_layout
from importers.layouts.tables import (
    MATRIX,
    ND,
    PLAIN,
    SWAPPED,
    Array,
    Dims,
    LayoutError,
    UnsupportedLayoutError,
    show,
)


def align_to_golden(
    array: Array,
    stored_layout: str | None,
    origin_layout: str | None,
    original_shape: Dims | None,
    golden_shape: Dims,
    *,
    groups: int = 0,
) -> Array:
    """The values of *array* in the golden tensor's shape and order.

    *stored_layout* is how the device stored them, *origin_layout* the golden tensor's
    layout, *original_shape* the shape before the device's layout, each None if unknown.
    Where NCHW does not fit the shape but NHWC does, or the other way round, that is
    taken. A device tensor larger than golden is cut, one of another shape but the same
    number of elements is reshaped. Where no device says how it stored them, there is no
    padding to cut: more elements are other data. The result is a view where possible.

    Raises:
        UnsupportedLayoutError: the stored layout is not known.
        LayoutError: the sizes differ, or no reading of the layout fits.
    """
    golden_shape = tuple(golden_shape)
    stored = stored_layout or ND
    same_size: Array | None = None
    larger: Array | None = None
    for attempt in _attempts(stored, origin_layout, original_shape, golden_shape):
        try:
            aligned = to_layout(array, stored, *attempt, groups=max(groups, 1))
        except UnsupportedLayoutError:
            raise
        except LayoutError:
            continue  # another target may fit; if none does, both shapes are said below
        if aligned.shape == golden_shape:
            return aligned
        if same_size is None and aligned.size == prod(golden_shape):
            same_size = aligned
        if larger is None and stored_layout is not None:
            larger = _sliced(aligned, golden_shape)
    result = same_size if same_size is not None else larger
    if result is not None:
        return result.reshape(golden_shape)
    original = "" if original_shape is None else f" (original {show(original_shape)})"
    raise LayoutError(
        f"device shape {show(array.shape)} in {stored}{original} "
        f"does not fit golden shape {show(golden_shape)}"
    )


def _attempts(
    stored: str, origin: str | None, original_shape: Dims | None, golden_shape: Dims
) -> Iterator[tuple[str, Dims | None]]:
    """Target layouts and shapes to try, likeliest first."""
    shapes = [golden_shape] if original_shape is None else [tuple(original_shape), golden_shape]
    if stored in MATRIX:
        yield from ((ND, shape) for shape in shapes)
        return
    plain = stored in PLAIN or stored == ND
    for layout in _targets(stored, origin):
        if plain:
            yield layout, None
        else:
            yield from ((layout, shape) for shape in shapes)
    if not plain:  # what is left is to cut a tensor that is larger than it should be
        yield from ((layout, None) for layout in _targets(stored, origin))


def _targets(stored: str, origin: str | None) -> list[str]:
    if stored == ND:
        return [ND]
    if stored in PLAIN:
        layouts = [origin] if origin in PLAIN else []
        swapped = [SWAPPED[stored]] if stored in SWAPPED else []
        return [*layouts, stored, *swapped]
    if stored in ("NDC1HWC0", "FRACTAL_Z_3D"):
        usual = ["NCDHW", "NDHWC", "DHWCN"]
    elif stored.startswith("FRACTAL_Z") or stored == "C1HWNCoC0":
        usual = ["NCHW", "HWCN", "NHWC"]
    else:
        usual = ["NCHW", "NHWC"]
    if origin in PLAIN:
        usual = [origin, *([SWAPPED[origin]] if origin in SWAPPED else []), *usual]
    return list(dict.fromkeys(usual))


def _sliced(array: Array, golden_shape: Dims) -> Array | None:
    """The leading part of *array* as large as golden, shapes filled up with 1s."""
    rank = max(array.ndim, len(golden_shape))
    have = array.shape + (1,) * (rank - array.ndim)
    want = golden_shape + (1,) * (rank - len(golden_shape))
    if 0 in want or any(wanted > size for wanted, size in zip(want, have, strict=True)):
        return None  # nothing left to compare is no cut, it is a different shape
    return array.reshape(have)[tuple(slice(0, wanted) for wanted in want)]
