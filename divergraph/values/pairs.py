"""The values of a tensor pair, the device's in golden's shape, order and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from divergraph.values.array_types import Array
from divergraph.values.one_tensor import in_graph_order, stored_values
from divergraph.values.orders import reordered
from divergraph.values.tensor_pair import TensorPair
from divergraph.values.unread import Unread, unread
from divergraph.values.zero_points import may_move, with_zero_of
from graphstore.errors import ImportFormatError
from graphstore.model import DType
from importers.layouts import LayoutError, align_to_golden


class PairValues(NamedTuple):
    """``device`` is in golden's shape and order; ``stored`` is what its dump holds, padding
    included. ``dtypes`` are the device's and golden's in the dumps."""

    device: Array
    golden: Array
    stored: Array
    dtypes: tuple[DType | None, DType | None]


class Unaligned(NamedTuple):
    """Both sides were read, but no order of the device's axes fits golden's shape."""

    why: Unread
    stored: PairValues


def read_pair(pair: TensorPair) -> PairValues | Unread:
    """The values of both sides in golden's shape and order."""
    sides = read_sides(pair)
    return sides.why if isinstance(sides, Unaligned) else sides


def read_sides(pair: TensorPair) -> PairValues | Unaligned | Unread:
    """As :func:`read_pair`, but sides whose shapes do not fit are returned as ``Unaligned``."""
    try:
        stored, device_dtype = stored_values(pair.device)
        golden, golden_dtype = _golden(pair)
    except (ImportFormatError, LayoutError) as error:
        return unread(pair.golden.path, error)  # for a device layout the error is reported below
    try:
        device = _aligned(pair, stored, golden.shape)
    except LayoutError as error:
        as_stored = PairValues(stored, golden, stored, (device_dtype, golden_dtype))
        return Unaligned(unread(pair.device.path, error), as_stored)
    if device.dtype is not golden.dtype:
        device = with_zero_of(device, golden)
    return PairValues(device, golden, stored, (device_dtype, golden_dtype))


def read_golden(pair: TensorPair) -> Array | Unread:
    """The golden values in framework layout (a golden side may be a device dump too)."""
    try:
        return _golden(pair)[0]
    except (ImportFormatError, LayoutError) as error:
        return unread(pair.golden.path, error)


def read_device(
    pair: TensorPair, shape: tuple[int, ...] | None, golden: Callable[[], Array | Unread]
) -> Array | Unread:
    """The device's values in golden's *shape* and order; as they are stored if *shape* is None.
    *golden* is only called where the zero point of 8-bit integers may have been moved."""
    try:
        stored, _ = stored_values(pair.device)
        device = stored if shape is None else _aligned(pair, stored, shape)
    except (ImportFormatError, LayoutError) as error:
        return unread(pair.device.path, error)
    kind = None if pair.golden.dtype is None else pair.golden.dtype.numpy
    if kind is None or not may_move(device.dtype, kind):
        return device
    golden_value = golden()
    return device if isinstance(golden_value, Unread) else with_zero_of(device, golden_value)


def _golden(pair: TensorPair) -> tuple[Array, DType | None]:
    array, dtype = stored_values(pair.golden)
    if pair.is_stored_alike:
        return array, dtype
    return in_graph_order(array, pair.golden, pair.layout), dtype


def _aligned(pair: TensorPair, device: Array, shape: tuple[int, ...]) -> Array:
    if pair.reorder is not None:
        moved = reordered(device, pair.reorder, shape)
        if moved is None:
            raise LayoutError(f"{pair.reorder} does not lead to shape {shape}")
        return moved
    if device.shape == shape and (pair.device.layout is None or pair.is_stored_alike):
        return device
    return align_to_golden(
        device,
        pair.device.layout,
        pair.origin_layout or pair.golden_layout,
        pair.device.original_shape,
        shape,
        groups=pair.device.groups,
    )
