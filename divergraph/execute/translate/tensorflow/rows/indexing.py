"""Ops that take or put elements by their places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.tensorflow.rows.table import ARRAY, NN, ROWS, numpy_type
from divergraph.values.array_types import Array


@ROWS.row("Gather", "GatherV2", "ResourceGather", source=ARRAY)
def gather(p: Piece) -> Outputs:
    """The slices along an axis that are listed."""
    axis = p.integers(2)[0] if p.has(2) else 0
    batch = int(p.attr("batch_dims", 0))
    if not batch:
        return [p.add("Gather", p.name(0), p.name(1), axis=axis)]
    axis %= p.rank(0)
    if batch < 0:
        batch += p.rank(1)
    if axis != batch:
        raise NotTranslatedError(f"GatherV2 along axis {axis} of {batch} batch axes")
    indices = p.cast(p.reshape(p.name(1), (*p.shape(1), 1)), np.int64)
    return [p.add("GatherND", p.name(0), indices, batch_dims=batch)]


@ROWS.row("GatherNd", "ResourceGatherNd", source=ARRAY)
def gather_nd(p: Piece) -> Outputs:
    """The slices at the places that are listed."""
    return [p.add("GatherND", p.name(0), p.cast(p.name(1), np.int64))]


@ROWS.row("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", source=ARRAY)
def unique(p: Piece) -> Outputs:
    """The different elements as they come up, where each one is among them, and how often."""
    axis = p.integers(1) if p.has(1) else ()
    along = axis[0] % p.rank(0) if axis else 0
    wide = np.int64 if p.dtype().kind in "iu" else np.float64  # ONNX Runtime knows few types
    wide_value = p.cast(p.name(0), wide)
    unique_values, _, places, counts = p.add_many("Unique", 4, wide_value, axis=along, sorted=0)
    kind = numpy_type(p.attr("out_idx", "int32"))
    return [p.cast(unique_values, p.dtype()), p.cast(places, kind), p.cast(counts, kind)]


@ROWS.row("ScatterNd", source=ARRAY)
def scatter_nd(p: Piece) -> Outputs:
    """Zeros with slices added at the places that are listed."""
    zeros = p.const(np.zeros(p.integers(2), p.dtype(1)))
    return [p.add("ScatterND", zeros, p.cast(p.name(0), np.int64), p.name(1), reduction="add")]


_PUTS = {"Update": "none", "Add": "add", "Sub": "add", "Max": "max", "Min": "min"}
_PUTTING = ("TensorScatter", "ScatterNd", "ResourceScatterNd")


@ROWS.row(*(f"{kind}{how}" for kind in _PUTTING for how in _PUTS), source=ARRAY)
@ROWS.row("ScatterNdNonAliasingAdd", source=ARRAY)
def tensor_scatter(p: Piece) -> Outputs:
    """The input with slices put, added, taken away, ... at the places that are listed."""
    how = next(kind for kind in _PUTS if p.op.type.endswith(kind))
    updates = (-p.name(2)) if how == "Sub" else p.name(2)
    places = p.cast(p.name(1), np.int64)
    return [p.add("ScatterND", p.name(0), places, updates, reduction=_PUTS[how])]


@ROWS.row("OneHot", source=ARRAY)
def one_hot(p: Piece) -> Outputs:
    """A value at the place each index says, another one elsewhere; indices out of range have
    none."""
    (depth,) = p.integers(1)
    axis = int(p.attr("axis", -1))
    rank = p.rank(0) + 1
    axis %= rank
    places = [1] * rank
    places[axis] = depth
    range_ = p.const(np.arange(depth, dtype=p.dtype(0)).reshape(places))
    indices = p.add("Unsqueeze", p.name(0), p.ints(axis))
    return [p.add("Where", indices.equals(range_), p.name(2), p.name(3))]


@ROWS.row("Where", source=ARRAY)
def where(p: Piece) -> Outputs:
    """The places of all elements that are not zero, row by row."""
    flags = p.name() if p.dtype().kind == "b" else p.cast(p.name(), np.bool_)
    return [p.transpose(p.add("NonZero", flags), 1, 0)]


@ROWS.row("TopKV2", source=NN)
def top_k(p: Piece) -> Outputs:
    """The largest elements along the last axis, and where they are."""
    (count,) = p.integers(1)
    is_sorted = int(bool(p.attr("sorted", True)))
    values, places = p.add_many("TopK", 2, p.name(0), p.ints(count), axis=-1, sorted=is_sorted)
    return [values, p.cast(places, numpy_type(p.attr("index_type", "int32")))]


@ROWS.row("DynamicStitch", "ParallelDynamicStitch", source="tensorflow/core/ops/data_flow_ops.cc")
def dynamic_stitch(p: Piece) -> Outputs:
    """OpRows of several tensors, each put where its index says; later ones win."""
    count = len(p) // 2
    indices = [p.integers(at) for at in range(count)]
    inner = p.shape(count)[p.rank(0) :]
    rows = max((max(index, default=-1) for index in indices), default=-1) + 1
    stitched = p.const(np.zeros((rows, *inner), p.dtype(count)))
    for at, places in enumerate(indices):
        if places:
            data = p.reshape(p.name(count + at), (len(places), *inner))
            # An index that comes twice within one tensor: the last one stays.
            last = {place: number for number, place in enumerate(places)}
            rows_read = p.add("Gather", data, p.ints(*last.values()), axis=0)
            where_to = p.const(np.array(list(last), np.int64).reshape(-1, 1))
            stitched = p.add("ScatterND", stitched, where_to, rows_read)
    return [stitched]


class StridedSlice:
    """What the masks of a StridedSlice say (``StridedSliceSpec`` of the op's description): the
    slice along each axis of the input, and the shape of the result."""

    def __init__(
        self,
        p: Piece,
        shape: Sequence[int],
        begin: Sequence[int],
        end: Sequence[int],
        strides: Sequence[int],
    ) -> None:
        masks = {
            name: int(p.attr(f"{name}_mask", 0))
            for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
        }
        self.slices: list[slice] = []
        self.kept: list[int] = []
        count = len(begin)
        entries = [at for at in range(count) if not masks["new_axis"] >> at & 1]
        ellipsis = [at for at in entries if masks["ellipsis"] >> at & 1]
        consumed = len(entries) - len(ellipsis)
        for at in range(count):
            axis = len(self.slices)
            if masks["ellipsis"] >> at & 1:
                for _ in range(len(shape) - consumed):
                    self._all(shape)
            elif masks["new_axis"] >> at & 1:
                self.kept.append(1)
            elif masks["shrink_axis"] >> at & 1:
                place = begin[at] % shape[axis] if shape[axis] else 0
                self.slices.append(slice(place, place + 1, 1))
            else:
                first = None if masks["begin"] >> at & 1 else begin[at]
                last = None if masks["end"] >> at & 1 else end[at]
                axis_slice = slice(first, last, strides[at])
                self.slices.append(axis_slice)
                self.kept.append(len(range(*axis_slice.indices(shape[axis]))))
        while len(self.slices) < len(shape):
            self._all(shape)

    def _all(self, shape: Sequence[int]) -> None:
        self.kept.append(shape[len(self.slices)])
        self.slices.append(slice(None))


@ROWS.row("StridedSlice", source=ARRAY)
def strided_slice(p: Piece) -> Outputs:
    """Every so many elements from a place to another along each axis."""
    spec = StridedSlice(p, p.shape(0), p.integers(1), p.integers(2), p.integers(3))
    chosen = [
        (axis, *axis_slice.indices(p.shape(0)[axis]))
        for axis, axis_slice in enumerate(spec.slices)
        if axis_slice != slice(None)
    ]
    sliced = p.name(0)
    if chosen:
        axes, begins, ends, steps = zip(*chosen, strict=True)
        # Backwards up to the first element is -1, which ONNX would take for the last one.
        lowest = int(np.iinfo(np.int64).min)
        stops = [lowest if last < 0 else last for last in ends]
        sliced = p.add(
            "Slice", sliced, p.ints(*begins), p.ints(*stops), p.ints(*axes), p.ints(*steps)
        )
    return [p.reshape(sliced, spec.kept)]


@ROWS.row("StridedSliceGrad", source=ARRAY)
def strided_slice_grad(p: Piece) -> Outputs:
    """Zeros with the gradient where the slice was taken."""
    shape = p.integers(0)
    zeros = p.const(np.zeros(int(np.prod(shape, dtype=np.int64)), p.dtype(4)))
    return [_put_into(p, zeros, shape, 1)]


_ASSIGNING = ("StridedSliceAssign", "ResourceStridedSliceAssign", "TensorStridedSliceUpdate")


@ROWS.row(*_ASSIGNING, source=ARRAY)
def strided_slice_assign(p: Piece) -> Outputs:
    """The first input with a value in the place of the slice."""
    return [_put_into(p, p.reshape(p.name(0), (-1,)), p.shape(0), 1)]


def _put_into(p: Piece, flat: Expr, shape: Sequence[int], first: int) -> Expr:
    """*flat*, of so many elements as *shape*, with input 4 in the slice that inputs from *first*
    on say."""
    spec = StridedSlice(p, shape, *(p.integers(first + at) for at in range(3)))
    places = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)[tuple(spec.slices)]
    value = p.name(4)
    if p.shape(4) != tuple(spec.kept):
        value = p.add("Expand", value, p.ints(*spec.kept))
    value = p.reshape(value, (places.size,))
    put = p.add("ScatterElements", flat, p.const(places.ravel().copy()), value, axis=0)
    return p.reshape(put, shape)


# Matrices by their diagonals, and bands of them.


def _diagonal(p: Piece, at: int) -> int:
    """The number of the one diagonal that input *at* names.

    Raises:
        NotTranslatedError: it names several.
    """
    diagonals = set(p.integers(at))
    if len(diagonals) != 1:
        raise NotTranslatedError(f"{p.op.type} of several diagonals")
    return diagonals.pop()


def _places(rows: int, columns: int, number: int) -> tuple[Array, Array]:
    """The rows and columns of a diagonal."""
    count = max(min(rows - max(-number, 0), columns - max(number, 0)), 0)
    along = np.arange(count)
    return along + max(-number, 0), along + max(number, 0)


def _diagonal_of(p: Piece, tensor: Expr, shape: Sequence[int], number: int) -> Expr:
    *outer, rows, columns = shape
    down, across = _places(rows, columns, number)
    flat = p.reshape(tensor, (*outer, rows * columns))
    return p.add("Gather", flat, p.const(down * columns + across), axis=len(outer))


def _put(p: Piece, tensor: Expr, diagonal: Expr, shape: Sequence[int], number: int) -> Expr:
    """*tensor* with its diagonal replaced."""
    *outer, rows, columns = shape
    down, across = _places(rows, columns, number)
    flat = p.reshape(tensor, (int(np.prod(outer, dtype=np.int64)), rows * columns))
    line = p.reshape(diagonal, (int(np.prod(outer, dtype=np.int64)), len(down)))
    places = np.broadcast_to(down * columns + across, (int(np.prod(outer)), len(down)))
    put = p.add("ScatterElements", flat, p.const(places.astype(np.int64).copy()), line, axis=1)
    return p.reshape(put, shape)


@ROWS.row("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3", source=ARRAY)
def matrix_diag_part(p: Piece) -> Outputs:
    """A diagonal of each matrix."""
    return [_diagonal_of(p, p.name(0), p.shape(0), _diagonal(p, 1) if p.has(1) else 0)]


@ROWS.row("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3", source=ARRAY)
def matrix_diag(p: Piece) -> Outputs:
    """Matrices with a diagonal, and one value elsewhere."""
    *outer, count = p.shape(0)
    number = _diagonal(p, 1) if p.has(1) else 0
    rows, columns = (p.integers(at)[0] if p.has(at) else -1 for at in (2, 3))
    least_rows, least_columns = count + max(-number, 0), count + max(number, 0)
    if rows == -1 and columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows, columns = (
        (least_rows if rows == -1 else rows),
        (least_columns if columns == -1 else columns),
    )
    shape = (*outer, rows, columns)
    value = p.name(4) if p.has(4) else p.number(0)
    expanded = p.add("Expand", value, p.ints(*shape))
    return [_put(p, expanded, p.name(0), shape, number)]


@ROWS.row("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3", source=ARRAY)
def matrix_set_diag(p: Piece) -> Outputs:
    """Each matrix with another diagonal."""
    number = _diagonal(p, 2) if p.has(2) else 0
    return [_put(p, p.name(0), p.name(1), p.shape(0), number)]


@ROWS.row("MatrixBandPart", source=ARRAY)
def matrix_band_part(p: Piece) -> Outputs:
    """Each matrix with zeros outside of a band; a negative width keeps all on that side."""
    below, above = p.integers(1)[0], p.integers(2)[0]
    rows, columns = p.shape(0)[-2:]
    down, across = np.indices((rows, columns))
    mask = ((below < 0) | (down - across <= below)) & ((above < 0) | (across - down <= above))
    return [p.add("Where", p.const(mask), p.name(0), 0)]


@ROWS.row("Diag", source=ARRAY)
def diag(p: Piece) -> Outputs:
    """A tensor of twice as many axes, with the input where both halves of a place are the same."""
    count = int(np.prod(p.shape(0), dtype=np.int64))
    zeros = p.const(np.zeros((count, count), p.dtype(0)))
    result = _put(p, zeros, p.reshape(p.name(0), (count,)), (count, count), 0)
    return [p.reshape(result, (*p.shape(0), *p.shape(0)))]


@ROWS.row("DiagPart", source=ARRAY)
def diag_part(p: Piece) -> Outputs:
    """What stands where both halves of a place are the same."""
    shape = p.shape(0)[: p.rank(0) // 2]
    count = int(np.prod(shape, dtype=np.int64))
    flat = p.reshape(p.name(0), (count, count))
    return [p.reshape(_diagonal_of(p, flat, (count, count), 0), shape)]
