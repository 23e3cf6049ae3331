"""Activations and residual sums that were fused into the op before them."""

from __future__ import annotations

import re

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.fused.chains import OPERAND_OF
from divergraph.execute.translate.ge.table import (
    four_axes,
    layout,
    needed,
    output_layout,
    output_shape,
    to_layout,
)
from divergraph.execute.translate.piece import Piece
from graphstore.model import Op

TAIL = "_fused_tail"
"""The attribute that names what a fused op ends with, in its order: activations, those with a slope
as ``LeakyRelu 0.1``, and steps with a second operand as ``Add 3``, which is input 3."""

_SAID = {1: "Relu", "relu": "Relu", "Relu": "Relu", "Relu6": "Relu6", "relu6": "Relu6"}
_ACTIVATION = re.compile(r"(relu6|relu|sigmoid|tanh)[_0-9]*$", re.IGNORECASE)
_SIX = (np.array(0.0, np.float32), np.array(6.0, np.float32))
_OTHER = re.compile(r"(leaky_?|[lpcs])relu|hard_?(sigmoid|tanh)|atanh", re.IGNORECASE)
"""What ends like an activation and is another."""
_ADDED = re.compile(
    r"(bias_?add|add|bias|read|readvariableop|input_sizes|bn|scale|batch_?norm\w*)[_0-9]*$",
    re.IGNORECASE,
)
_KINDS = {"relu": "Relu", "relu6": "Relu6", "sigmoid": "Sigmoid", "tanh": "Tanh"}


def said_tail(op: Op) -> tuple[str, ...] | None:
    """The activation an op says that it has; None if it says nothing of any."""
    for name in ("fused_activation", "activation", "relu_flag", "_fused_activation"):
        value = op.attrs.get(name)
        if value in _SAID and not isinstance(value, tuple):
            return (_SAID[value],)
    return None


def activations(names: tuple[str, ...]) -> tuple[str, ...]:
    """The activations among originals of these *names*."""
    last = [name.rpartition("/")[2] for name in names]
    matches = (_ACTIVATION.search(name) for name in last if not _OTHER.search(name))
    return tuple(_KINDS[match[1].lower()] for match in matches if match)


def tail_of_names(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """The activations of the originals of these names, in order; None if a name tells nothing.

    The first original computes; the others add their bias, are folded into the weights, or are
    activations: frameworks name ops after their types.
    """
    kinds: list[str] = []
    unknown = 0
    for name in names:
        last = name.rpartition("/")[2]
        if _OTHER.search(last):
            return None
        if match := _ACTIVATION.search(last):
            kinds.append(_KINDS[match[1].lower()])
        elif not _ADDED.search(last) and not _ADDED.match(re.sub(r"_.*", "", last)):
            unknown += 1
    return tuple(kinds) if unknown <= 1 else None


def with_tail(piece: Piece, tensor: str, order: str = "") -> str:
    """*tensor* after what the op was fused with; its axes are in this *order*, "" if they have no
    names.

    Raises:
        NotTranslatedError: what else was fused is not known.
    """
    chain = piece.op.attrs.get(TAIL, ())
    if not isinstance(chain, tuple):
        raise NotTranslatedError(f"{piece.op.type} fused with what its graph does not say")
    for kind in chain:
        name, _, slope = str(kind).partition(" ")
        if name in OPERAND_OF:
            tensor = piece.add(name, tensor, _operand(piece, int(slope), order))
        elif name == "Relu6":
            tensor = piece.add("Clip", tensor, *_SIX)
        elif slope:
            tensor = piece.add(name, tensor, alpha=float(slope))
        else:
            tensor = piece.add(name, tensor)
    return tensor


def _operand(piece: Piece, at: int, wanted: str) -> str:
    """Input *at* in the *wanted* layout; of a larger one, every so many rows and columns."""
    value = needed(piece, at)
    if len(wanted) != piece.rank(at):
        return value
    here = four_axes(layout(piece, at), four_axes(output_layout(piece), wanted))
    sizes = dict(zip(here, piece.shape(at), strict=True))
    out = dict(zip(four_axes(output_layout(piece), wanted), output_shape(piece), strict=True))
    steps = [-(-sizes[axis] // out[axis]) for axis in "HW"]
    value = to_layout(piece, value, here, wanted)
    if steps == [1, 1]:
        return value
    places = [wanted.index(axis) for axis in "HW"]
    ends = piece.ints(0, 0), piece.ints(sizes["H"], sizes["W"])
    return piece.add("Slice", value, *ends, piece.ints(*places), piece.ints(*steps))
