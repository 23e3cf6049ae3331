"""Activations that were fused into the op before them."""

from __future__ import annotations

import re

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Piece
from graphstore.model import Op

TAIL = "_fused_tail"
"""The attribute that names the activations a fused op ends with, in their order; those with a slope
as ``LeakyRelu 0.1``."""

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


def tail_of_names(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """The activations of the originals of these names, in order; None if a name tells nothing.

    The first original computes; the others add their bias, are folded into the weights, or are
    activations: frameworks name ops after their types.
    """
    found: list[str] = []
    unknown = 0
    for name in names:
        last = name.rpartition("/")[2]
        if _OTHER.search(last):
            return None
        if match := _ACTIVATION.search(last):
            found.append(_KINDS[match[1].lower()])
        elif not _ADDED.search(last) and not _ADDED.match(re.sub(r"_.*", "", last)):
            unknown += 1
    return tuple(found) if unknown <= 1 else None


def with_tail(piece: Piece, tensor: str) -> str:
    """*tensor* after the activations the op was fused with.

    Raises:
        NotTranslatedError: what else was fused is not known.
    """
    chain = piece.op.attrs.get(TAIL, ())
    if not isinstance(chain, tuple):
        raise NotTranslatedError(f"{piece.op.type} fused with what its graph does not say")
    for kind in chain:
        name, _, slope = str(kind).partition(" ")
        if name == "Relu6":
            tensor = piece.add("Clip", tensor, *_SIX)
        elif slope:
            tensor = piece.add(name, tensor, alpha=float(slope))
        else:
            tensor = piece.add(name, tensor)
    return tensor
