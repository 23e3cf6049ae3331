"""A Caffe layer on its way to ONNX: its bottoms and weights apart, its parameters with defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError, OpRows
from divergraph.execute.translate.piece import Expr, Operand, Outputs, Piece
from graphstore.model import AttrValue, Shape
from importers.caffe.net import Layer
from importers.caffe.shapes import top_shapes

BVLC = "BVLC/caffe, src/caffe/layers/{}_layer.cpp"

ROWS = OpRows("caffe")
"""Caffe's layer types with their rows."""

LayerRow: TypeAlias = "Callable[[CaffeLayer], Outputs]"


def row(*types: str, source: str) -> Callable[[LayerRow], LayerRow]:
    """Put the decorated function into Caffe's table for these layer *types*; *source* says where
    they are defined (a single word is a layer file of BVLC/caffe)."""
    description = source if " " in source else BVLC.format(source)

    def put(layer_row: LayerRow) -> LayerRow:
        ROWS.row(*types, source=description)(lambda piece: layer_row(CaffeLayer(piece)))
        return layer_row

    return put


class CaffeLayer:
    """One layer: ``bottoms`` are the names of what it reads without its weights, ``tops`` is the
    number of blobs it writes. Parameters are called by their path (``pooling_param.pool``)."""

    def __init__(self, piece: Piece) -> None:
        mark = f"{piece.op.id}/blobs/"
        weights = [ref is not None and ref.tensor.startswith(mark) for ref in piece.op.inputs]
        self.piece = piece
        self._places = [at for at, is_weight in enumerate(weights) if not is_weight]
        self._weights = [at for at, is_weight in enumerate(weights) if is_weight]
        self.bottoms = tuple(piece.name(at) for at in self._places)
        self.tops = len(piece.op.outputs)
        self.settings = Layer(
            piece.op.name, piece.op.type, tops=("",) * self.tops, attrs=piece.op.attrs
        )

    # what it reads

    def bottom(self, at: int = 0) -> Expr:
        """The name of a bottom.

        Raises:
            NotTranslatedError: the layer has fewer.
        """
        if at >= len(self.bottoms):
            raise self.refused(f"has {len(self.bottoms)} bottoms")
        return self.bottoms[at]

    def shape(self, at: int = 0) -> tuple[int, ...]:
        """The shape of a bottom."""
        self.bottom(at)
        return self.piece.shape(self._places[at])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type of the first bottom: of all it computes."""
        return self.piece.dtype(self._places[0]) if self._places else np.dtype(np.float32)

    @property
    def weights(self) -> int:
        """How many weights there are."""
        return len(self._weights)

    def weight(self, at: int, *shape: int) -> Expr:
        """A weight in the *shape* the layer takes it in: old files fill shapes up to four axes.

        Raises:
            NotTranslatedError: it is missing, or of another size.
        """
        if at >= len(self._weights):
            raise self.refused("has no weights: is there a .caffemodel?")
        place = self._weights[at]
        if np.prod(self.piece.shape(place), dtype=np.int64) != np.prod(shape, dtype=np.int64):
            raise self.refused(f"has weights of shape {self.piece.shape(place)}, not {shape}")
        tensor = self.piece.known[place]
        if tensor is not None and tensor.value is not None:
            return self.piece.const(tensor.value.reshape(shape).astype(self.dtype, copy=False))
        name = self.piece.name(place)
        if self.piece.dtype(place) != self.dtype:
            name = self.piece.cast(name, self.dtype)
        return name if self.piece.shape(place) == shape else self.piece.reshape(name, shape)

    def weight_size(self, at: int) -> int:
        """The number of elements of a weight; 0 if there is none."""
        if at >= len(self._weights):
            return 0
        return int(np.prod(self.piece.shape(self._weights[at]), dtype=np.int64))

    # what it is set to

    def setting(self, path: str) -> AttrValue | None:
        """A parameter; the last one, if it is said several times."""
        value = self.piece.op.attrs.get(path)
        return value[-1] if isinstance(value, tuple) and value else value

    def integer(self, path: str, default: int) -> int:
        """A whole number."""
        value = self.setting(path)
        if value is None:
            return default
        if type(value) is not int:
            raise self.refused(f"has {path}: {value}")
        return value

    def real(self, path: str, default: float) -> float:
        """A number, in single precision as Caffe keeps it."""
        value = self.setting(path)
        if not isinstance(value, int | float | None):
            raise self.refused(f"has {path}: {value}")
        return float(np.float32(default if value is None else value))

    def flag(self, path: str, default: bool) -> bool:
        """Yes or no."""
        value = self.setting(path)
        return default if value is None else bool(value)

    def choice(self, path: str, names: Sequence[str], default: str) -> str:
        """One of *names*, which a file may give by its place among them."""
        value = self.setting(path)
        if value is None:
            return default
        if type(value) is int and 0 <= value < len(names):
            return names[value]
        if value not in names:
            raise self.refused(f"has {path}: {value}")
        return str(value)

    def integers(self, path: str) -> tuple[int, ...]:
        """All whole numbers of a parameter that may be repeated."""
        return tuple(number for number in self._all(path) if type(number) is int)

    def reals(self, path: str) -> tuple[float, ...]:
        """All numbers of a parameter that may be repeated."""
        return tuple(float(n) for n in self._all(path) if isinstance(n, int | float))

    def _all(self, path: str) -> tuple[AttrValue, ...]:
        value = self.piece.op.attrs.get(path)
        if value is None:
            return ()
        return value if isinstance(value, tuple) else (value,)

    def axis(self, path: str, default: int, rank: int | None = None) -> int:
        """An axis of the first bottom, counted from the front."""
        dims = len(self.shape()) if rank is None else rank
        at = self.integer(path, default)
        if not -dims <= at < max(dims, 1):
            raise self.refused(f"has {path}: {at} for a bottom of {dims} axes")
        return at % dims if dims else 0

    @property
    def is_training(self) -> bool:
        """Whether the net was read in the phase TRAIN."""
        return self.setting("phase") == "TRAIN"

    def expected(self, shapes: Sequence[tuple[int, ...]]) -> list[Shape | None]:
        """The shapes of its tops on bottoms of these *shapes*, by Caffe's formulas."""
        return top_shapes(self.settings, shapes)

    def refused(self, why: str) -> NotTranslatedError:
        """The error that says what of this layer has no translation."""
        return NotTranslatedError(
            f"the layer {self.piece.op.name!r} of type {self.settings.type} {why}"
        )

    # what it makes

    def add(self, kind: str, *inputs: Operand, **attrs: Any) -> Expr:
        """Add a node with one output and give the output's name."""
        return self.piece.add(kind, *inputs, **attrs)

    def number(self, value: float) -> Expr:
        """A scalar constant of the layer's element type."""
        return self.piece.const(np.array(value, self.dtype))

    def array(self, values: Any) -> Expr:
        """A constant of the layer's element type."""
        return self.piece.const(np.asarray(values, self.dtype))

    def reshape(self, tensor: Expr, shape: Sequence[int]) -> Expr:
        """*tensor* in another shape."""
        return self.piece.reshape(tensor, shape)
