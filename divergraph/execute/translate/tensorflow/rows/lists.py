"""TensorArrays, TensorLists and stacks: each element is a tensor of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from divergraph.execute.translate.contract import KnownTensor, NotTranslatedError
from divergraph.execute.translate.lists import TensorList
from divergraph.execute.translate.piece import Operand, Piece
from divergraph.execute.translate.tensorflow.element_types import numpy_type
from divergraph.execute.translate.tensorflow.rows.table import DATA_FLOW, LIST, ROWS


def _new(p: Piece, made: TensorList) -> str:
    return p.const(np.array(p.lists.new(made), np.int64))


def _list(p: Piece, at: int = 0) -> TensorList:
    try:
        return p.lists[p.integers(at)[0]]
    except (KeyError, IndexError) as error:
        raise NotTranslatedError(f"{p.op.type} of a list that was not made") from error


def _flow(p: Piece) -> str:
    """What orders the ops of a TensorArray; its value says nothing."""
    return p.const(np.zeros((), np.float32))


def _sizes(shape: object) -> tuple[int, ...] | None:
    """The shape of elements as an attribute says it; None where it does not."""
    if not isinstance(shape, tuple | list):
        return None
    return tuple(-1 if size is None else int(str(size)) for size in shape)


def _told(p: Piece, at: int) -> tuple[int, ...] | None:
    """The shape of elements as an input says it."""
    value = p.value(at)
    return tuple(int(size) for size in value) if value.ndim else None


def _whole(held: TensorList, *shapes: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape of an element nobody wrote, as one of *shapes* or the list says it.

    Raises:
        NotTranslatedError: none of them does.
    """
    for shape in (*shapes, held.shape):
        if shape is not None and min(shape, default=0) >= 0:
            return shape
    raise NotTranslatedError("an element that nobody wrote, of unknown shape")


def _element(p: Piece, held: TensorList, at: int, *shapes: tuple[int, ...] | None) -> str:
    """The element at a place; zeros where nobody wrote one."""
    if not 0 <= at < len(held.elements):
        raise NotTranslatedError(f"{p.op.type} at {at} of {len(held.elements)} elements")
    name = held.elements[at]
    if name is not None:
        return name
    like = (each for each in held.elements if each is not None)
    known = p.known_of(next(like, ""))
    found = known.shape if known is not None else None
    return p.const(np.zeros(_whole(held, *shapes, found), held.dtype))


def _elements(p: Piece, held: TensorList, *shapes: tuple[int, ...] | None) -> list[str]:
    return [_element(p, held, at, *shapes) for at in range(len(held.elements))]


def _stacked(p: Piece, names: Sequence[str], held: TensorList, *shapes: object) -> str:
    """Elements as one tensor, along a new first axis."""
    if not names:
        told = next((each for each in shapes if isinstance(each, tuple)), held.shape) or ()
        return p.const(np.zeros((0, *(max(size, 0) for size in told)), held.dtype))
    wide = [p.add("Unsqueeze", name, p.ints(0)) for name in names]
    return wide[0] if len(wide) == 1 else p.add("Concat", *wide, axis=0)


def _joined(p: Piece, names: Sequence[str], held: TensorList) -> tuple[str, str]:
    """Elements one behind the other along their first axis, and how long each is."""
    if not names:
        rest = (held.shape or (0,))[1:]
        empty = np.zeros((0, *(max(size, 0) for size in rest)), held.dtype)
        return p.const(empty), p.const(np.zeros(0, np.int64))
    sizes = [p.add("Shape", name, start=0, end=1) for name in names]
    return p.add("Concat", *names, axis=0), p.add("Concat", *sizes, axis=0)


def _apart(p: Piece, tensor: Operand, count: int) -> list[str | None]:
    """The slices of a tensor along its first axis, each a tensor that stays known."""
    return [
        p.element(p.add("Gather", tensor, p.const(np.array(at, np.int64)), axis=0))
        for at in range(count)
    ]


def _cut(p: Piece, tensor: str, lengths: Sequence[int]) -> list[str | None]:
    """Parts of a tensor along its first axis."""
    ends = np.cumsum([0, *lengths])
    return [
        p.element(p.add("Slice", tensor, p.ints(int(begin)), p.ints(int(end)), p.ints(0)))
        for begin, end in pairwise(ends)
    ]


@ROWS.row("TensorArrayV3", source=DATA_FLOW)
def tensor_array(p: Piece) -> Sequence[str]:
    """A list of so many tensors."""
    made = TensorList(
        [None] * p.integers(0)[0],
        numpy_type(p.attr("dtype")),
        _sizes(p.op.attrs.get("element_shape")),
    )
    return [_new(p, made), _flow(p)]


@ROWS.row("TensorArrayGradV3", source=DATA_FLOW)
def tensor_array_gradient(p: Piece) -> Sequence[str]:
    """The list of the gradients of another one's elements, the same for each who asks."""
    held = _list(p)
    source = str(p.attr("source"))
    if source not in held.gradients:
        count = len(held.elements)
        known = [p.known_of(name) if name is not None else None for name in held.elements]
        shape = next((each.shape for each in known if each is not None), held.shape)
        made = TensorList([None] * count, held.dtype, shape, adds_up=True)
        held.gradients[source] = p.lists.new(made)
    return [p.const(np.array(held.gradients[source], np.int64)), _flow(p)]


def _write(p: Piece, held: TensorList, at: int, name: str) -> None:
    held.elements.extend([None] * (at + 1 - len(held.elements)))
    before = held.elements[at]
    if held.adds_up and before is not None:
        name = p.element(p.add("Add", before, name))
    held.elements[at] = name


@ROWS.row("TensorArrayWriteV3", source=DATA_FLOW)
def tensor_array_write(p: Piece) -> Sequence[str]:
    """Puts a tensor into a list; into one of gradients, adds it."""
    _write(p, _list(p), p.integers(1)[0], p.name(2))
    return [_flow(p)]


@ROWS.row("TensorArrayReadV3", source=DATA_FLOW)
def tensor_array_read(p: Piece) -> Sequence[str]:
    """The element at a place."""
    return [_element(p, _list(p), p.integers(1)[0])]


@ROWS.row("TensorArrayGatherV3", source=DATA_FLOW)
def tensor_array_gather(p: Piece) -> Sequence[str]:
    """The elements that are listed as one tensor."""
    held, told = _list(p), _sizes(p.op.attrs.get("element_shape"))
    names = [_element(p, held, at, told) for at in p.integers(1)]
    return [_stacked(p, names, held, told)]


@ROWS.row("TensorArrayScatterV3", source=DATA_FLOW)
def tensor_array_scatter(p: Piece) -> Sequence[str]:
    """Puts the slices of a tensor at the places that are listed."""
    held, places = _list(p), p.integers(1)
    for at, name in zip(places, _apart(p, p.name(2), len(places)), strict=True):
        if name is not None:
            _write(p, held, at, name)
    return [_flow(p)]


@ROWS.row("TensorArrayConcatV3", source=DATA_FLOW)
def tensor_array_concat(p: Piece) -> Sequence[str]:
    """All elements one behind the other, and how long each is."""
    held = _list(p)
    return _joined(p, _elements(p, held), held)


@ROWS.row("TensorArraySplitV3", source=DATA_FLOW)
def tensor_array_split(p: Piece) -> Sequence[str]:
    """Puts parts of a tensor of such lengths."""
    held = _list(p)
    for at, name in enumerate(_cut(p, p.name(1), p.integers(2))):
        if name is not None:
            _write(p, held, at, name)
    return [_flow(p)]


@ROWS.row("TensorArraySizeV3", "TensorListLength", source=DATA_FLOW)
def list_length(p: Piece) -> Sequence[str]:
    """How many elements a list has."""
    return [p.const(np.array(len(_list(p).elements), np.int32))]


@ROWS.row("TensorArrayCloseV3", "StackCloseV2", "StackClose", source=DATA_FLOW)
def closes(_: Piece) -> Sequence[str]:
    """Lets go of a list."""
    return []


@ROWS.row("Stack", "StackV2", source=DATA_FLOW)
def stack(p: Piece) -> Sequence[str]:
    """An empty stack."""
    return [_new(p, TensorList([], np.dtype(np.float32)))]


@ROWS.row("StackPush", "StackPushV2", source=DATA_FLOW)
def stack_push(p: Piece) -> Sequence[str]:
    """Puts a tensor on a stack, and hands it on."""
    _list(p).elements.append(p.name(1))
    return [p.name(1)]


@ROWS.row("StackPop", "StackPopV2", source=DATA_FLOW)
def stack_pop(p: Piece) -> Sequence[str]:
    """Takes the tensor that was put last."""
    held = _list(p)
    if not held.elements:
        raise NotTranslatedError("takes from a stack that nothing has filled")
    return [str(held.elements.pop())]


@ROWS.row("TensorListReserve", source=LIST)
def list_reserve(p: Piece) -> Sequence[str]:
    """A list of so many tensors that nobody wrote."""
    count, shape = p.integers(1)[0], _told(p, 0)
    return [_new(p, TensorList([None] * count, numpy_type(p.attr("element_dtype")), shape))]


@ROWS.row("EmptyTensorList", source=LIST)
def empty_list(p: Piece) -> Sequence[str]:
    """A list of no tensors."""
    return [_new(p, TensorList([], numpy_type(p.attr("element_dtype")), _told(p, 0)))]


@ROWS.row("TensorListFromTensor", source=LIST)
def list_from_tensor(p: Piece) -> Sequence[str]:
    """The slices of a tensor."""
    count, *rest = p.shape(0)
    return [_new(p, TensorList(_apart(p, p.name(0), count), p.dtype(0), tuple(rest)))]


@ROWS.row("TensorListStack", source=LIST)
def list_stack(p: Piece) -> Sequence[str]:
    """All elements as one tensor."""
    held, told = _list(p), _told(p, 1)
    return [_stacked(p, _elements(p, held, told), held, told)]


@ROWS.row("TensorListGather", source=LIST)
def list_gather(p: Piece) -> Sequence[str]:
    """The elements that are listed as one tensor."""
    held, told = _list(p), _told(p, 2)
    return [_stacked(p, [_element(p, held, at, told) for at in p.integers(1)], held, told)]


@ROWS.row("TensorListConcat", "TensorListConcatV2", source=LIST)
def list_concat(p: Piece) -> Sequence[str]:
    """All elements one behind the other, and how long each is."""
    held = _list(p)
    told = _told(p, 1) if p.has(1) else _sizes(p.op.attrs.get("element_shape"))
    return _joined(p, _elements(p, held, told), held)


@ROWS.row("TensorListGetItem", source=LIST)
def list_get(p: Piece) -> Sequence[str]:
    """The element at a place."""
    return [_element(p, _list(p), p.integers(1)[0], _told(p, 2))]


@ROWS.row("TensorListSetItem", source=LIST)
def list_set(p: Piece) -> Sequence[str]:
    """A list with another element at a place."""
    held, at = _list(p), p.integers(1)[0]
    made = list(held.elements)
    made.extend([None] * (at + 1 - len(made)))
    made[at] = p.name(2)
    return [_new(p, TensorList(made, held.dtype, held.shape))]


@ROWS.row("TensorListPushBack", source=LIST)
def list_push(p: Piece) -> Sequence[str]:
    """A list with one more element."""
    held = _list(p)
    return [_new(p, TensorList([*held.elements, p.name(1)], held.dtype, held.shape))]


@ROWS.row("TensorListPopBack", source=LIST)
def list_pop(p: Piece) -> Sequence[str]:
    """A list without its last element, and that."""
    held, told = _list(p), _told(p, 1)
    last = _element(p, held, len(held.elements) - 1, told)
    return [_new(p, TensorList(held.elements[:-1], held.dtype, held.shape)), last]


@ROWS.row("TensorListResize", source=LIST)
def list_resize(p: Piece) -> Sequence[str]:
    """A list with so many of its elements, or more that nobody wrote."""
    held, count = _list(p), p.integers(1)[0]
    made = [*held.elements[:count], *[None] * (count - len(held.elements))]
    return [_new(p, TensorList(made, held.dtype, held.shape))]


@ROWS.row("TensorListConcatLists", source=LIST)
def list_of_both(p: Piece) -> Sequence[str]:
    """The elements of one list, then those of another."""
    first, second = _list(p, 0), _list(p, 1)
    both = [*first.elements, *second.elements]
    return [_new(p, TensorList(both, first.dtype, first.shape))]


@ROWS.row("TensorListElementShape", source=LIST)
def list_shape(p: Piece) -> Sequence[str]:
    """The shape of the elements, -1 where it is not known."""
    shape = _list(p).shape
    kind = numpy_type(p.attr("shape_type"))
    return [p.const(np.array(-1 if shape is None else shape, kind))]


@ROWS.row("TensorListScatter", "TensorListScatterV2", source=LIST)
def list_scatter(p: Piece) -> Sequence[str]:
    """The slices of a tensor at the places that are listed."""
    places, told = p.integers(1), _told(p, 2)
    count = max(p.integers(3)[0] if p.has(3) else -1, max(places, default=-1) + 1)
    made: list[str | None] = [None] * count
    for at, name in zip(places, _apart(p, p.name(0), len(places)), strict=True):
        made[at] = name
    return [_new(p, TensorList(made, p.dtype(0), told))]


@ROWS.row("TensorListScatterIntoExistingList", source=LIST)
def list_scatter_into(p: Piece) -> Sequence[str]:
    """A list with the slices of a tensor at the places that are listed."""
    held, places = _list(p), p.integers(2)
    made = list(held.elements)
    made.extend([None] * (max(places, default=-1) + 1 - len(made)))
    for at, name in zip(places, _apart(p, p.name(1), len(places)), strict=True):
        made[at] = name
    return [_new(p, TensorList(made, held.dtype, held.shape))]


@ROWS.row("TensorListSplit", source=LIST)
def list_split(p: Piece) -> Sequence[str]:
    """Parts of a tensor of such lengths."""
    parts = _cut(p, p.name(0), p.integers(2))
    return [_new(p, TensorList(parts, p.dtype(0), _told(p, 1)))]


def added_lists(p: Piece) -> str:
    """The sum of lists, element by element: what several users of a list give back for it."""
    held = [_list(p, at) for at in range(len(p))]
    count = max(len(each.elements) for each in held)
    made: list[str | None] = []
    for at in range(count):
        names = [each.elements[at] for each in held if at < len(each.elements)]
        there = [name for name in names if name is not None]
        if len(there) > 1:
            made.append(p.element(p.add("Sum", *there)))
        else:
            made.append(there[0] if there else None)
    return _new(p, TensorList(made, held[0].dtype, held[0].shape))


def empty_like(p: Piece) -> str:
    """A list of as many elements, all of zeros."""
    held = _list(p)
    known: KnownTensor | None = None
    for name in held.elements:
        known = known or (p.known_of(name) if name is not None else None)
    shape = known.shape if known is not None and known.shape is not None else held.shape
    return _new(p, TensorList([None] * len(held.elements), held.dtype, shape))
