"""TensorArrays, TensorLists and stacks: each element is a tensor of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from divergraph.execute.translate.contract import KnownTensor, NotTranslatedError
from divergraph.execute.translate.lists import TensorList
from divergraph.execute.translate.piece import Expr, Operand, Outputs, Piece
from divergraph.execute.translate.tensorflow.rows.table import DATA_FLOW, LIST, ROWS, numpy_type


def _new(p: Piece, tensor_list: TensorList) -> Expr:
    return p.const(np.array(p.lists.new(tensor_list), np.int64))


def _list(p: Piece, at: int = 0) -> TensorList:
    try:
        return p.lists[p.integers(at)[0]]
    except (KeyError, IndexError) as error:
        raise NotTranslatedError(f"{p.op.type} of a list that was not made") from error


def _flow(p: Piece) -> Expr:
    """What orders the ops of a TensorArray; its value says nothing."""
    return p.const(np.zeros((), np.float32))


def _sizes(shape: object) -> tuple[int, ...] | None:
    """The shape of elements as an attribute says it; None where it does not."""
    if not isinstance(shape, tuple | list):
        return None
    return tuple(-1 if size is None else int(str(size)) for size in shape)


def _element_shape(p: Piece, at: int) -> tuple[int, ...] | None:
    """The shape of elements as an input says it."""
    value = p.value(at)
    return tuple(int(size) for size in value) if value.ndim else None


def _unwritten_shape(tensor_list: TensorList, *shapes: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape of an element nobody wrote, as one of *shapes* or the list says it.

    Raises:
        NotTranslatedError: none of them does.
    """
    for shape in (*shapes, tensor_list.shape):
        if shape is not None and min(shape, default=0) >= 0:
            return shape
    raise NotTranslatedError("an element that nobody wrote, of unknown shape")


def _element(p: Piece, tensor_list: TensorList, at: int, *shapes: tuple[int, ...] | None) -> Expr:
    """The element at a place; zeros where nobody wrote one."""
    if not 0 <= at < len(tensor_list.elements):
        raise NotTranslatedError(f"{p.op.type} at {at} of {len(tensor_list.elements)} elements")
    name = tensor_list.elements[at]
    if name is not None:
        return p.tensor(name)
    like = (element for element in tensor_list.elements if element is not None)
    known_tensor = p.known_of(next(like, ""))
    shape = known_tensor.shape if known_tensor is not None else None
    return p.const(np.zeros(_unwritten_shape(tensor_list, *shapes, shape), tensor_list.dtype))


def _elements(p: Piece, tensor_list: TensorList, *shapes: tuple[int, ...] | None) -> list[Expr]:
    return [_element(p, tensor_list, at, *shapes) for at in range(len(tensor_list.elements))]


def _stacked(p: Piece, names: Sequence[Expr], tensor_list: TensorList, *shapes: object) -> Expr:
    """Elements as one tensor, along a new first axis."""
    if not names:
        shape = (
            next((shape for shape in shapes if isinstance(shape, tuple)), tensor_list.shape) or ()
        )
        return p.const(np.zeros((0, *(max(size, 0) for size in shape)), tensor_list.dtype))
    wide = [p.add("Unsqueeze", name, p.ints(0)) for name in names]
    return wide[0] if len(wide) == 1 else p.add("Concat", *wide, axis=0)


def _joined(p: Piece, names: Sequence[Expr], tensor_list: TensorList) -> tuple[Expr, Expr]:
    """Elements one behind the other along their first axis, and how long each is."""
    if not names:
        rest = (tensor_list.shape or (0,))[1:]
        empty = np.zeros((0, *(max(size, 0) for size in rest)), tensor_list.dtype)
        return p.const(empty), p.const(np.zeros(0, np.int64))
    sizes = [p.add("Shape", name, start=0, end=1) for name in names]
    return p.add("Concat", *names, axis=0), p.add("Concat", *sizes, axis=0)


def _slices_of(p: Piece, tensor: Operand, count: int) -> list[str | None]:
    """The slices of a tensor along its first axis, each a tensor that stays known."""
    return [
        p.element(p.add("Gather", tensor, p.const(np.array(at, np.int64)), axis=0))
        for at in range(count)
    ]


def _cut(p: Piece, tensor: Expr, lengths: Sequence[int]) -> list[str | None]:
    """Parts of a tensor along its first axis."""
    ends = np.cumsum([0, *lengths])
    return [
        p.element(p.add("Slice", tensor, p.ints(int(begin)), p.ints(int(end)), p.ints(0)))
        for begin, end in pairwise(ends)
    ]


@ROWS.row("TensorArrayV3", source=DATA_FLOW)
def tensor_array(p: Piece) -> Outputs:
    """A list of so many tensors."""
    tensor_list = TensorList(
        [None] * p.integers(0)[0],
        numpy_type(p.attr("dtype")),
        _sizes(p.op.attrs.get("element_shape")),
    )
    return [_new(p, tensor_list), _flow(p)]


@ROWS.row("TensorArrayGradV3", source=DATA_FLOW)
def tensor_array_gradient(p: Piece) -> Outputs:
    """The list of the gradients of another one's elements, the same for each who asks."""
    tensor_list = _list(p)
    source = str(p.attr("source"))
    if source not in tensor_list.gradients:
        count = len(tensor_list.elements)
        known_tensors = [
            p.known_of(name) if name is not None else None for name in tensor_list.elements
        ]
        shape = next(
            (known_tensor.shape for known_tensor in known_tensors if known_tensor is not None),
            tensor_list.shape,
        )
        gradient_list = TensorList([None] * count, tensor_list.dtype, shape, adds_up=True)
        tensor_list.gradients[source] = p.lists.new(gradient_list)
    return [p.const(np.array(tensor_list.gradients[source], np.int64)), _flow(p)]


def _write(p: Piece, tensor_list: TensorList, at: int, name: str) -> None:
    tensor_list.elements.extend([None] * (at + 1 - len(tensor_list.elements)))
    before = tensor_list.elements[at]
    if tensor_list.adds_up and before is not None:
        name = p.element(p.tensor(before) + p.tensor(name))
    tensor_list.elements[at] = name


@ROWS.row("TensorArrayWriteV3", source=DATA_FLOW)
def tensor_array_write(p: Piece) -> Outputs:
    """Puts a tensor into a list; into one of gradients, adds it."""
    _write(p, _list(p), p.integers(1)[0], p.names[2])
    return [_flow(p)]


@ROWS.row("TensorArrayReadV3", source=DATA_FLOW)
def tensor_array_read(p: Piece) -> Outputs:
    """The element at a place."""
    return [_element(p, _list(p), p.integers(1)[0])]


@ROWS.row("TensorArrayGatherV3", source=DATA_FLOW)
def tensor_array_gather(p: Piece) -> Outputs:
    """The elements that are listed as one tensor."""
    tensor_list, element_shape = _list(p), _sizes(p.op.attrs.get("element_shape"))
    names = [_element(p, tensor_list, at, element_shape) for at in p.integers(1)]
    return [_stacked(p, names, tensor_list, element_shape)]


@ROWS.row("TensorArrayScatterV3", source=DATA_FLOW)
def tensor_array_scatter(p: Piece) -> Outputs:
    """Puts the slices of a tensor at the places that are listed."""
    tensor_list, places = _list(p), p.integers(1)
    for at, name in zip(places, _slices_of(p, p.name(2), len(places)), strict=True):
        if name is not None:
            _write(p, tensor_list, at, name)
    return [_flow(p)]


@ROWS.row("TensorArrayConcatV3", source=DATA_FLOW)
def tensor_array_concat(p: Piece) -> Outputs:
    """All elements one behind the other, and how long each is."""
    tensor_list = _list(p)
    return _joined(p, _elements(p, tensor_list), tensor_list)


@ROWS.row("TensorArraySplitV3", source=DATA_FLOW)
def tensor_array_split(p: Piece) -> Outputs:
    """Puts parts of a tensor of such lengths."""
    tensor_list = _list(p)
    for at, name in enumerate(_cut(p, p.name(1), p.integers(2))):
        if name is not None:
            _write(p, tensor_list, at, name)
    return [_flow(p)]


@ROWS.row("TensorArraySizeV3", "TensorListLength", source=DATA_FLOW)
def list_length(p: Piece) -> Outputs:
    """How many elements a list has."""
    return [p.const(np.array(len(_list(p).elements), np.int32))]


@ROWS.row("TensorArrayCloseV3", "StackCloseV2", "StackClose", source=DATA_FLOW)
def closes(_: Piece) -> Outputs:
    """Lets go of a list."""
    return []


@ROWS.row("Stack", "StackV2", source=DATA_FLOW)
def stack(p: Piece) -> Outputs:
    """An empty stack."""
    return [_new(p, TensorList([], np.dtype(np.float32)))]


@ROWS.row("StackPush", "StackPushV2", source=DATA_FLOW)
def stack_push(p: Piece) -> Outputs:
    """Puts a tensor on a stack, and hands it on."""
    _list(p).elements.append(p.names[1])
    return [p.name(1)]


@ROWS.row("StackPop", "StackPopV2", source=DATA_FLOW)
def stack_pop(p: Piece) -> Outputs:
    """Takes the tensor that was put last."""
    tensor_list = _list(p)
    if not tensor_list.elements:
        raise NotTranslatedError("takes from a stack that nothing has filled")
    return [p.tensor(str(tensor_list.elements.pop()))]


@ROWS.row("TensorListReserve", source=LIST)
def list_reserve(p: Piece) -> Outputs:
    """A list of so many tensors that nobody wrote."""
    count, shape = p.integers(1)[0], _element_shape(p, 0)
    return [_new(p, TensorList([None] * count, numpy_type(p.attr("element_dtype")), shape))]


@ROWS.row("EmptyTensorList", source=LIST)
def empty_list(p: Piece) -> Outputs:
    """A list of no tensors."""
    return [_new(p, TensorList([], numpy_type(p.attr("element_dtype")), _element_shape(p, 0)))]


@ROWS.row("TensorListFromTensor", source=LIST)
def list_from_tensor(p: Piece) -> Outputs:
    """The slices of a tensor."""
    count, *rest = p.shape(0)
    return [_new(p, TensorList(_slices_of(p, p.name(0), count), p.dtype(0), tuple(rest)))]


@ROWS.row("TensorListStack", source=LIST)
def list_stack(p: Piece) -> Outputs:
    """All elements as one tensor."""
    tensor_list, element_shape = _list(p), _element_shape(p, 1)
    return [_stacked(p, _elements(p, tensor_list, element_shape), tensor_list, element_shape)]


@ROWS.row("TensorListGather", source=LIST)
def list_gather(p: Piece) -> Outputs:
    """The elements that are listed as one tensor."""
    tensor_list, element_shape = _list(p), _element_shape(p, 2)
    return [
        _stacked(
            p,
            [_element(p, tensor_list, at, element_shape) for at in p.integers(1)],
            tensor_list,
            element_shape,
        )
    ]


@ROWS.row("TensorListConcat", "TensorListConcatV2", source=LIST)
def list_concat(p: Piece) -> Outputs:
    """All elements one behind the other, and how long each is."""
    tensor_list = _list(p)
    element_shape = _element_shape(p, 1) if p.has(1) else _sizes(p.op.attrs.get("element_shape"))
    return _joined(p, _elements(p, tensor_list, element_shape), tensor_list)


@ROWS.row("TensorListGetItem", source=LIST)
def list_get(p: Piece) -> Outputs:
    """The element at a place."""
    return [_element(p, _list(p), p.integers(1)[0], _element_shape(p, 2))]


@ROWS.row("TensorListSetItem", source=LIST)
def list_set(p: Piece) -> Outputs:
    """A list with another element at a place."""
    tensor_list, at = _list(p), p.integers(1)[0]
    elements = list(tensor_list.elements)
    elements.extend([None] * (at + 1 - len(elements)))
    elements[at] = p.names[2]
    return [_new(p, TensorList(elements, tensor_list.dtype, tensor_list.shape))]


@ROWS.row("TensorListPushBack", source=LIST)
def list_push(p: Piece) -> Outputs:
    """A list with one more element."""
    tensor_list = _list(p)
    return [
        _new(
            p, TensorList([*tensor_list.elements, p.names[1]], tensor_list.dtype, tensor_list.shape)
        )
    ]


@ROWS.row("TensorListPopBack", source=LIST)
def list_pop(p: Piece) -> Outputs:
    """A list without its last element, and that."""
    tensor_list, element_shape = _list(p), _element_shape(p, 1)
    last = _element(p, tensor_list, len(tensor_list.elements) - 1, element_shape)
    return [
        _new(p, TensorList(tensor_list.elements[:-1], tensor_list.dtype, tensor_list.shape)),
        last,
    ]


@ROWS.row("TensorListResize", source=LIST)
def list_resize(p: Piece) -> Outputs:
    """A list with so many of its elements, or more that nobody wrote."""
    tensor_list, count = _list(p), p.integers(1)[0]
    elements = [*tensor_list.elements[:count], *[None] * (count - len(tensor_list.elements))]
    return [_new(p, TensorList(elements, tensor_list.dtype, tensor_list.shape))]


@ROWS.row("TensorListConcatLists", source=LIST)
def list_of_both(p: Piece) -> Outputs:
    """The elements of one list, then those of another."""
    first, second = _list(p, 0), _list(p, 1)
    both = [*first.elements, *second.elements]
    return [_new(p, TensorList(both, first.dtype, first.shape))]


@ROWS.row("TensorListElementShape", source=LIST)
def list_shape(p: Piece) -> Outputs:
    """The shape of the elements, -1 where it is not known."""
    shape = _list(p).shape
    kind = numpy_type(p.attr("shape_type"))
    return [p.const(np.array(-1 if shape is None else shape, kind))]


@ROWS.row("TensorListScatter", "TensorListScatterV2", source=LIST)
def list_scatter(p: Piece) -> Outputs:
    """The slices of a tensor at the places that are listed."""
    places, element_shape = p.integers(1), _element_shape(p, 2)
    count = max(p.integers(3)[0] if p.has(3) else -1, max(places, default=-1) + 1)
    elements: list[str | None] = [None] * count
    for at, name in zip(places, _slices_of(p, p.name(0), len(places)), strict=True):
        elements[at] = name
    return [_new(p, TensorList(elements, p.dtype(0), element_shape))]


@ROWS.row("TensorListScatterIntoExistingList", source=LIST)
def list_scatter_into(p: Piece) -> Outputs:
    """A list with the slices of a tensor at the places that are listed."""
    tensor_list, places = _list(p), p.integers(2)
    elements = list(tensor_list.elements)
    elements.extend([None] * (max(places, default=-1) + 1 - len(elements)))
    for at, name in zip(places, _slices_of(p, p.name(1), len(places)), strict=True):
        elements[at] = name
    return [_new(p, TensorList(elements, tensor_list.dtype, tensor_list.shape))]


@ROWS.row("TensorListSplit", source=LIST)
def list_split(p: Piece) -> Outputs:
    """Parts of a tensor of such lengths."""
    parts = _cut(p, p.name(0), p.integers(2))
    return [_new(p, TensorList(parts, p.dtype(0), _element_shape(p, 1)))]


def added_lists(p: Piece) -> Expr:
    """The sum of lists, element by element: what several users of a list give back for it."""
    tensor_lists = [_list(p, at) for at in range(len(p))]
    count = max(len(tensor_list.elements) for tensor_list in tensor_lists)
    sums: list[str | None] = []
    for at in range(count):
        names = [
            tensor_list.elements[at]
            for tensor_list in tensor_lists
            if at < len(tensor_list.elements)
        ]
        there = [name for name in names if name is not None]
        if len(there) > 1:
            sums.append(p.element(p.add("Sum", *there)))
        else:
            sums.append(there[0] if there else None)
    return _new(p, TensorList(sums, tensor_lists[0].dtype, tensor_lists[0].shape))


def empty_like(p: Piece) -> Expr:
    """A list of as many elements, all of zeros."""
    tensor_list = _list(p)
    known_tensor: KnownTensor | None = None
    for name in tensor_list.elements:
        known_tensor = known_tensor or (p.known_of(name) if name is not None else None)
    shape = (
        known_tensor.shape
        if known_tensor is not None and known_tensor.shape is not None
        else tensor_list.shape
    )
    return _new(p, TensorList([None] * len(tensor_list.elements), tensor_list.dtype, shape))
