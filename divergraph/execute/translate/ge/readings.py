"""What a graph leaves open about an op: each way to read it that fits the shapes.

Build graphs do not always keep the attributes of what was fused: a fused convolution has neither
strides nor paddings, and its activation stands only among the names of its originals. Shapes leave
few values over. Where the true one is among them, an output that none of them makes is wrong; where
it may not be (``is_open``), such an output says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.convolution import FILTER, SIZELESS, square_geometries
from divergraph.execute.translate.ge.fused import (
    FUSED,
    LEAKING,
    STEPS,
    TAIL,
    activations,
    kernel_types,
    orders,
    residual_tails,
    said_tail,
    tail_of_names,
    tails_of,
)
from divergraph.execute.translate.ge.matrices import TRANSPOSES, said_transposes
from divergraph.execute.translate.ge.table import LAYOUTS, ROWS, four_axes
from graphstore.model import AttrValue, Op

Attrs = Mapping[str, AttrValue]

_PRODUCTS = frozenset({"MatMul", "MatMulV2", "BatchMatMul", "BatchMatMulV2"})
_CONVOLUTIONS = frozenset({"Conv2D", "Convolution", "DepthwiseConv2D", "DepthwiseConv2DD"})
_GRADIENTS = frozenset({"Conv2DBackpropInput", "Conv2DBackpropInputD", "Conv2DTransposeD"})
_FILTER_GRADIENTS = frozenset({"Conv2DBackpropFilter", "Conv2DBackpropFilterD"})
_POOLS = frozenset({"MaxPool", "AvgPool", "MaxPoolGrad"})
_ENDING = _PRODUCTS | _CONVOLUTIONS | _GRADIENTS | {"FullyConnection"}
"""Ops whose kernel goes on with what was fused behind them."""
_OPERANDS = 3
"""Inputs of those ops that are their own: two operands and a bias."""
_FILTERS = ("HWCN", "NCHW", "NHWC")
_LEAKING = tuple((name,) for name in LEAKING)
_TAILS: tuple[tuple[str, ...], ...] = (
    *((), ("Relu",), ("Relu6",), ("Sigmoid",), ("Tanh",)),
    *_LEAKING,
)
_WINDOWS = (2, 3)


@dataclass(frozen=True, slots=True)
class OpReadings:
    """The attributes to add to an op, one set for each way to read it."""

    attrs: tuple[Attrs, ...]
    is_open: bool = False


def readings(op: Op, shapes: Sequence[tuple[int, ...] | None]) -> OpReadings:
    """How *op* can be read, whose inputs have these *shapes* (None where they are not known).

    Raises:
        NotTranslatedError: it has no row, or was fused of what its graph does not define.
    """
    if op.type not in ROWS:
        raise NotTranslatedError(f"no definition of ops of type {op.type}")
    if op.type == FUSED:
        return OpReadings(_chains(op))
    tails, is_open = _tails(op, shapes)
    readings_of_op: list[Attrs] = [{}]
    out = op.outputs[0].shape if op.outputs else None
    if out is not None and None not in out:
        sizes = tuple(size for size in out if size is not None)
        geometries = _fitting_attrs(op, [*shapes, None, None, None], sizes)
        if geometries is not None:
            readings_of_op, among = geometries
            is_open |= among
    if not readings_of_op:
        raise NotTranslatedError(f"{op.type} whose shapes fit no attributes")
    both = (
        {**reading, **({TAIL: tail} if tail else {})}
        for reading, tail in product(readings_of_op, tails)
    )
    return OpReadings(tuple(both), is_open)


def _chains(op: Op) -> tuple[Attrs, ...]:
    if None in op.inputs or len(op.outputs) != 1:
        raise NotTranslatedError(f"fused of {', '.join(op.original_names or ())}, not all is there")
    return tuple({STEPS: order} for order in orders(kernel_types(op) or (), len(op.inputs)))


def read_as(op: Op, attrs: Attrs) -> Op:
    """*op* with the attributes of one way to read it."""
    return replace(op, attrs={**op.attrs, **attrs})


def fused_kernel(op: Op) -> bool:
    """Whether the op is one kernel made of several ops (UB fusion), not one op that stands for
    several originals."""
    scope = op.attrs.get("_fusion_scope", op.attrs.get("fusion_scope"))
    return op.is_fused and isinstance(scope, int) and scope >= 0


Tails: TypeAlias = "tuple[tuple[str, ...], ...]"


def _tails(op: Op, shapes: Sequence[tuple[int, ...] | None]) -> tuple[Tails, bool]:
    """What the op may end with, and whether it may be something else."""
    tail = said_tail(op) if op.type in _ENDING else None
    if tail is not None:
        return (tail,), False
    if not fused_kernel(op):
        return ((),), False
    types = kernel_types(op)
    tails = None
    if op.type in _ENDING:
        tails = None if types is None else tails_of(types, op.inputs)
    if tails is not None:
        return tuple(tails), False
    names = op.original_names or ()
    if op.type not in _ENDING or types is not None:
        raise NotTranslatedError(f"fused of {', '.join(names)}, a chain its graph does not define")
    return _tails_of_names(op, names, shapes)


def _tails_of_names(
    op: Op, names: tuple[str, ...], shapes: Sequence[tuple[int, ...] | None]
) -> tuple[Tails, bool]:
    beyond = [at for at, ref in enumerate(op.inputs) if ref is not None and at >= _OPERANDS]
    if beyond:
        alike = shapes[beyond[0]] is not None and shapes[beyond[0]] == op.outputs[0].shape
        if len(beyond) > 1 or not alike:
            raise NotTranslatedError(
                f"fused of {', '.join(names)}, a chain its graph does not define"
            )
        return tuple(residual_tails(activations(names), beyond[0])), True
    tail = tail_of_names(names)
    if tail is None:
        return _TAILS, True
    return ((tail, *_LEAKING) if tail == ("Relu",) else (tail,)), False


def _fitting_attrs(
    op: Op, shapes: Sequence[tuple[int, ...] | None], out: tuple[int, ...]
) -> tuple[list[Attrs], bool] | None:
    """The attributes that fit the shapes, and whether others might; None if none are asked for."""
    if op.type in _PRODUCTS:
        if said_transposes(dict(op.attrs)) is not None or not (shapes[0] and shapes[1]):
            return None
        return list(_transposes(op.type, shapes[0], shapes[1], out)), False
    if op.type in _CONVOLUTIONS and shapes[0] and shapes[1]:
        return list(_windows(op, (shapes[0], 0), shapes[1], (out, None))), False
    if op.type in _GRADIENTS:
        weight, gradient = (1, 2) if len(op.inputs) > SIZELESS else (0, 1)
        if op.type == "Conv2DTransposeD":
            weight, gradient = 1, 0
        filters, small = shapes[weight], shapes[gradient]
        if filters and small:
            return list(_windows(op, (out, None), filters, (small, gradient))), False
    if op.type in _FILTER_GRADIENTS:
        gradient = 2 if len(op.inputs) > SIZELESS else 1
        value, small = shapes[0], shapes[gradient]
        if value and small:
            return list(_windows(op, (value, 0), out, (small, gradient))), False
    if op.type in _POOLS and shapes[0] and "ksize" not in op.attrs and "window" not in op.attrs:
        return _pools(op, shapes, out), True
    return None


def _transposes(
    kind: str, one: tuple[int, ...], other: tuple[int, ...], out: tuple[int, ...]
) -> Iterator[Attrs]:
    names = TRANSPOSES[1 if kind.startswith("Batch") else 0]
    for swaps in product((False, True), repeat=2):
        one_dims = one[:-2] + (one[:-3:-1] if swaps[0] else one[-2:])
        right = other[:-2] + (other[:-3:-1] if swaps[1] else other[-2:])
        if one_dims[-1] == right[-2] and (one_dims[-2], right[-1]) == out[-2:]:
            yield dict(zip(names, swaps, strict=True))


def _layout(op: Op, at: int | None) -> str:
    """The order of the axes of an input, or of the output."""
    usual = str(op.attrs.get("data_format", "NCHW"))
    if at is None:
        return four_axes(op.outputs[0].layout or "", usual)
    layouts = op.attrs.get(LAYOUTS, ())
    name = str(layouts[at]) if isinstance(layouts, tuple) and at < len(layouts) else ""
    return four_axes(name, usual)


def _windows(
    op: Op,
    large: tuple[tuple[int, ...], int | None],
    filters: tuple[int, ...],
    small: tuple[tuple[int, ...], int | None],
) -> Iterator[Attrs]:
    """For a convolution from *large* to *small* (shapes with their places): the order of the
    filter's axes, and the geometries that fit where the graph gives none."""
    if not len(large[0]) == len(filters) == len(small[0]) == len("NCHW"):
        return
    value = dict(zip(_layout(op, large[1]), large[0], strict=True))
    out_sizes = dict(zip(_layout(op, small[1]), small[0], strict=True))
    groups_attr = op.attrs.get("groups", 1)
    groups = groups_attr if isinstance(groups_attr, int) else 1
    for order in _orders(op, filters, value["C"], out_sizes["C"], groups):
        sizes = dict(zip(order, filters, strict=True))
        if _has_geometry(op):
            yield {FILTER: order}
            continue
        for geometry_attrs in square_geometries(value, (sizes["H"], sizes["W"]), out_sizes):
            yield {**geometry_attrs, FILTER: order}


def _has_geometry(op: Op) -> bool:
    return any(name in op.attrs for name in ("strides", "stride")) and any(
        name in op.attrs for name in ("pads", "pad")
    )


def _orders(op: Op, filters: tuple[int, ...], inputs: int, outputs: int, groups: int) -> list[str]:
    """The orders of a filter's axes that fit its channels; what the graph says first, alone where
    it fits: some writers call filters of TensorFlow NHWC."""
    at = 1 if op.type in _CONVOLUTIONS | {"Conv2DTransposeD"} else None
    if op.type in _GRADIENTS and at is None:
        at = 1 if len(op.inputs) > SIZELESS else 0
    layout_of_filters = _layout(op, at)
    fitting = []
    for order in dict.fromkeys((layout_of_filters, *_FILTERS)):
        sizes = dict(zip(order, filters, strict=True))
        if op.type.startswith("Depthwise"):
            if (sizes["C"] == 1 and sizes["N"] == outputs) or (
                sizes["C"] == inputs and sizes["C"] * sizes["N"] == outputs
            ):
                fitting.append(order)
        elif sizes["C"] * groups == inputs and sizes["N"] == outputs:
            fitting.append(order)
    return [layout_of_filters] if layout_of_filters in fitting else fitting


def _pools(op: Op, shapes: Sequence[tuple[int, ...] | None], out: tuple[int, ...]) -> list[Attrs]:
    """The usual windows that fit the sizes of a pooling op without attributes."""
    is_gradient = op.type == "MaxPoolGrad"
    here = _layout(op, 0)
    value = dict(zip(here, shapes[0] or (), strict=False))
    out_sizes = dict(zip(here, (shapes[1] if is_gradient else out) or (), strict=False))
    if not {"H", "W"} <= value.keys() & out_sizes.keys() or not (out_sizes["H"] and out_sizes["W"]):
        return []
    pools: list[Attrs] = []
    for kernel in _WINDOWS:
        for step, padding in product(range(1, kernel + 1), ("VALID", "SAME")):
            size = kernel if padding == "VALID" else 1
            fits = all(-(-(value[a] - size + 1) // step) == out_sizes[a] for a in "HW")
            if fits:
                pools.append(
                    {"ksize": (kernel, kernel), "strides": (step, step), "padding": padding}
                )
    return pools
