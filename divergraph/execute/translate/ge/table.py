"""The table of GE's op types, and what its rows ask of an op.

A row computes in the layouts the framework gave its tensors (NCHW, NHWC, ND): blocks and padding of
device layouts are undone before. Half numbers come as float32, as the device adds them up.
"""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.execute.translate.contract import Formula, NotTranslatedError, OpRows, inputs_of
from divergraph.execute.translate.piece import Expr, Outputs, Piece


def _alike_inputs(piece: Piece, formula: Formula) -> Sequence[Expr]:
    return alike(piece, *range(len(inputs_of(piece, formula))))


ROWS = OpRows("Ascend", read=_alike_inputs)

LAYOUTS = "_input_layouts"
"""The attribute that gives the layout of each input; "ND" for any that is not known."""

MATH = "CANN op_proto elewise_calculation_ops.h"
NN = "CANN op_proto nn_calculation_ops.h"
NORM = "CANN op_proto nn_norm_ops.h, nn_batch_norm_ops.h"
POOL = "CANN op_proto nn_pooling_ops.h"
MATRIX = "CANN op_proto matrix_calculation_ops.h"
REDUCE = "CANN op_proto reduce_ops.h"
ARRAY = "CANN op_proto array_ops.h, transformation_ops.h, selection_ops.h, split_combination_ops.h"
ACTIVATION = "CANN op_proto nonlinear_fuc_ops.h"
TRAINING = "CANN op_proto nn_training_ops.h"
QUANT = "CANN op_proto quantize_ops.h"


def layout(piece: Piece, at: int = 0) -> str:
    """The layout of an input: NCHW, NHWC, HWCN or ND."""
    layouts = piece.op.attrs.get(LAYOUTS, ())
    return str(layouts[at]) if isinstance(layouts, tuple) and at < len(layouts) else "ND"


def output_layout(piece: Piece, port: int = 0) -> str:
    """The layout of an output."""
    return piece.op.outputs[port].layout or "ND"


def output_shape(piece: Piece, port: int = 0) -> tuple[int, ...]:
    """The shape of an output, as its graph or its dump says.

    Raises:
        NotTranslatedError: neither says.
    """
    shape = piece.op.outputs[port].shape if port < len(piece.op.outputs) else None
    if shape is None or None in shape:
        raise NotTranslatedError(f"{piece.op.type}, whose output {port} is of unknown shape")
    return tuple(size for size in shape if size is not None)


def alike(piece: Piece, *places: int) -> list[Expr]:
    """Inputs in the element type of the first of them."""
    values = [piece.name(at) for at in places]
    kind = piece.dtype(places[0])
    return [
        value if piece.dtype(at) == kind else piece.cast(value, kind)
        for at, value in zip(places, values, strict=True)
    ]


def axes_of(piece: Piece, name: str, at: int | None = None) -> tuple[int, ...]:
    """Axes that stand in the attribute *name* or, in ops of dynamic shape, in input *at*."""
    value = piece.op.attrs.get(name)
    if value is None and at is not None:
        piece.name(at)
        return piece.integers(at)
    if value is None:
        raise NotTranslatedError(f"{piece.op.type} without the attribute {name}")
    return integers(value)


def integers(value: object) -> tuple[int, ...]:
    """An attribute that is a number or a list of them."""
    if isinstance(value, tuple):
        return tuple(int(number) for number in value if isinstance(number, int | float))
    return (int(value),) if isinstance(value, int | float) else ()


def to_layout(piece: Piece, tensor: Expr, source: str, wanted: str) -> Expr:
    """*tensor* of four axes moved from one layout to another."""
    if source == wanted:
        return tensor
    return piece.transpose(tensor, *(source.index(axis) for axis in wanted))


def four_axes(name: str, usual: str = "NCHW") -> str:
    """*name* if it names four axes, else the *usual* layout."""
    return name if sorted(name) == sorted(usual) else usual


def as_output(piece: Piece, tensor: Expr, port: int = 0) -> Outputs:
    """*tensor* in the shape of an output."""
    return [piece.reshape(tensor, output_shape(piece, port))]
