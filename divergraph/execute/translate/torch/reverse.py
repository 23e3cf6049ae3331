"""Ways back that follow from the ways there: the nodes of a call's row, in reverse.

A row says what a call computes in a few dozen kinds of ONNX nodes, and each kind has a derivative,
so that a call with a row has a way back as well (reverse accumulation, the chain rule).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divergraph.execute.translate.contract import KnownTensor
from divergraph.execute.translate.piece import Expr, Operand, Outputs, Piece
from divergraph.execute.translate.pieces import made_by
from divergraph.execute.translate.torch.alone import GRADIENT, MADE, PARAMETER
from divergraph.execute.translate.torch.call import BACK, OF_PARAMETERS, ROWS, TorchCall
from divergraph.execute.translate.torch.derivatives import gradients_of
from divergraph.execute.translate.torch.slopes import typed
from graphstore.model import DType, Tensor

if TYPE_CHECKING:
    from onnx import NodeProto


class Reverse:
    """The way back of ``nodes``, which a row has made for a ``call``."""

    def __init__(self, call: TorchCall, nodes: Sequence[NodeProto]) -> None:
        self.call = call
        self.piece: Piece = call.piece
        self._nodes = nodes
        made = [name for node in nodes for name in node.output]
        self._known: dict[str, KnownTensor] = {
            name: known
            for name, known in zip(self.piece.names, self.piece.known, strict=True)
            if known is not None
        }
        self._known |= {n: KnownTensor.of(value) for n, value in self.piece.constants.items()}
        self._known |= made_by(self.piece, made) if made else {}

    def gradients(self, incoming: Mapping[str, Expr], wanted: Sequence[str]) -> dict[str, Expr]:
        """The gradients by each of *wanted* that has one, of those by what the call made.

        Raises:
            NotTranslatedError: a node on the way has no derivative.
        """
        moving = set(wanted)
        for node in self._nodes:
            if moving.intersection(node.input):
                moving.update(name for name in node.output if self.is_real(name))
        back = dict(incoming)
        for node in reversed(self._nodes):
            if not any(name in back for name in node.output):
                continue
            if not moving.intersection(node.input):
                continue
            places = [at for at, name in enumerate(node.input) if name in moving]
            for at, gradient in gradients_of(self, node, back, places).items():
                name = node.input[at]
                known = back.get(name)
                back[name] = gradient if known is None else (known + gradient)
        return {name: back[name] for name in wanted if name in back}

    def add(self, kind: str, *inputs: Operand, **attrs: Any) -> Expr:
        """Add a node with one output and give the output's name."""
        return self.piece.add(kind, *inputs, **attrs)

    def is_real(self, name: str) -> bool:
        """Whether a tensor has floats, and so may have a gradient."""
        return name in self._known and self._known[name].dtype.kind == "f"

    def value(self, name: str) -> Expr:
        """A tensor of the way there."""
        return Expr(self.piece, name, lambda: self._known[name].dtype)

    def read(self, node: NodeProto) -> list[Expr]:
        """The inputs of a node; one that is left out has no name."""
        return list(map(self.value, node.input))

    def shape(self, tensor: Expr | str) -> tuple[int, ...]:
        """The shape of a tensor.

        Raises:
            NotTranslatedError: it follows only from values.
        """
        known = self._known.get(str(tensor))
        if known is None or known.shape is None:
            raise self.call.refused("has a shape that follows from values")
        return known.shape

    def zeros(self, like: Expr | str) -> Expr:
        """Zeros as many as the tensor *like* has elements."""
        nothing = np.array(0.0, self._known[str(like)].dtype)
        return self.add("Expand", nothing, self.piece.ints(*self.shape(like)))

    def integers(self, node: NodeProto, at: int) -> tuple[int, ...] | None:
        """The integers of a constant input; None where it is left out."""
        name = node.input[at] if at < len(node.input) else ""
        return tuple(map(int, self.piece.constants[name].ravel())) if name else None

    def summed(self, gradient: Expr, shape: Sequence[int], like: Expr | str) -> Expr:
        """*gradient*, of *shape*, added up over what the tensor *like* was spread along."""
        wanted = self.shape(like)
        lead = len(shape) - len(wanted)
        axes = [
            axis
            for axis, size in enumerate(shape)
            if axis < lead or (wanted[axis - lead] == 1 and size != 1)
        ]
        if not axes:
            return gradient
        wide = self.piece.cast(gradient, np.float64)
        total = self.add("ReduceSum", wide, self.piece.ints(*axes), keepdims=1)
        return typed(self.piece.reshape(total, wanted), self.value(str(like)))

    def all_axes_of(self, node: NodeProto) -> tuple[int, ...]:
        """The axes along which *node* reduces, counted from the front."""
        rank, axes = len(self.shape(node.input[0])), self.integers(node, 1)
        return tuple(range(rank)) if axes is None else tuple(axis % rank for axis in axes)

    def kept(self, node: NodeProto, value: Expr) -> Expr:
        """*value*, of the shape of what *node* reduced to, with the axes that are gone as ones."""
        axes, shape = self.all_axes_of(node), self.shape(node.input[0])
        return self.piece.reshape(value, [1 if n in axes else size for n, size in enumerate(shape)])


def _way_there(call: TorchCall) -> Outputs:
    """What the row of a call makes; some rows ask for the shape that was recorded."""
    own, outputs = call.piece.op, list[Tensor]()
    while call.find(port := f"{MADE}{len(outputs)}") is not None:
        outputs.append(Tensor(port, DType(call.dtype(port).name), call.shape(port)))
    call.piece.op = replace(own, type=call.type, outputs=tuple(outputs) or own.outputs)
    try:
        return ROWS.entries[call.type].row(call.piece)
    finally:
        call.piece.op = own


def back_by_its_row(call: TorchCall) -> Outputs:
    """The way back of a call that has a row: by the tensors of floats it took, or a module's
    parameters.

    Raises:
        NotTranslatedError: a node of the row has no derivative.
    """
    made = _way_there(call)
    reverse = Reverse(call, tuple(call.piece.nodes))
    incoming: dict[str, Expr] = {}
    for at, value in enumerate(made):
        if value is None or (gradient := call.find(f"{GRADIENT}{at}")) is None:
            continue
        shape, came = reverse.shape(value), call.gradient_shape(at)
        # With arguments changed to try a cause, onnx would end the process over such sizes.
        if math.prod(shape) != math.prod(came):
            raise call.refused(f"has a gradient of {came}")
        # Rows of a batch may have been recorded as one list.
        incoming[value.name] = gradient if shape == came else call.piece.reshape(gradient, shape)
    is_of_parameters = call.piece.op.type.endswith(OF_PARAMETERS)
    wanted = {
        place.removeprefix(PARAMETER): name
        for place, name in call.taken().items()
        if reverse.is_real(name) and place.startswith(PARAMETER) == is_of_parameters
    }
    gradients = reverse.gradients(incoming, list(wanted.values()))
    places = [place for place, name in wanted.items() if name in gradients]
    # A node of autograd numbers what may have a gradient; by argument it has the argument's place.
    is_own = call.is_by_argument or is_of_parameters
    names = places if is_own else [str(at) for at in range(len(places))]
    return call.gradients(
        {name: gradients[wanted[place]] for name, place in zip(names, places, strict=True)}
    )


def put_missing_ways_back() -> None:
    """Give each row of PyTorch's table that has no way back the one that follows from it."""
    for name, entry in tuple(ROWS.entries.items()):
        is_back = name.endswith((BACK, OF_PARAMETERS))
        for end in () if is_back else (BACK, OF_PARAMETERS):
            if name + end not in ROWS:
                ROWS.row(name + end, source=f"the derivative of: {entry.source}")(
                    lambda piece: back_by_its_row(TorchCall(piece))
                )
