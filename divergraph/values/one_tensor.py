"""One dumped tensor, as it is stored or in its graph's order."""

from __future__ import annotations

from divergraph.values.array_types import Array
from divergraph.values.tensor_pair import is_blocked
from divergraph.values.unread import Unread, unread
from graphstore.errors import ImportFormatError
from graphstore.model import DType, DumpFormat, DumpTensorRef
from importers.dumps.read import read_array, read_npy
from importers.layouts import LayoutError, align_to_golden, to_layout


def is_closed(ref: DumpTensorRef) -> bool:
    """True for a ``.npy`` file whose header has not been read yet."""
    return ref.format is DumpFormat.NPY and ref.shape is None


def stored_values(ref: DumpTensorRef) -> tuple[Array, DType | None]:
    """The values in the stored (device) shape, and their element type; large files are
    memory-mapped.

    Raises:
        ImportFormatError: the file is damaged, or has changed since it was listed.
    """
    if is_closed(ref):
        return read_npy(ref.path, ref.dtype, ref.nbytes)
    return read_array(ref), ref.dtype


def in_graph_order(array: Array, ref: DumpTensorRef, layout: str | None = None) -> Array:
    """The stored *array* of *ref* with device blocks undone and padding cut off.

    *layout* is the one the graph gives the tensor; without it the original shape decides between
    NCHW and NHWC. Tensors without blocks are returned as they are, and others as a view where
    possible.

    Raises:
        LayoutError: the layout is not known, or does not fit the shapes.
    """
    if ref.layout is None or not is_blocked(ref):
        return array
    shape = ref.original_shape or None
    if shape is not None:
        return align_to_golden(array, ref.layout, layout, shape, shape, groups=ref.groups)
    return to_layout(array, ref.layout, layout or "ND", groups=ref.groups)


def read_stored(ref: DumpTensorRef) -> Array | Unread:
    """The values of *ref* in the shape and layout they are stored in."""
    try:
        return stored_values(ref)[0]
    except ImportFormatError as error:
        return unread(ref.path, error)


def read_tensor(ref: DumpTensorRef, layout: str | None = None) -> Array | Unread:
    """The values of *ref* as its graph has them: see :func:`in_graph_order`."""
    try:
        return in_graph_order(stored_values(ref)[0], ref, layout)
    except (ImportFormatError, LayoutError) as error:
        return unread(ref.path, error)
