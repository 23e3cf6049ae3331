"""The weights of a Caffe net, read from its files when they are asked for."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np

from divergraph.values.array_types import Array
from graphstore.errors import ExecutionError
from graphstore.model import Constant, ModelGraph
from importers.caffe.blobs import blob_values


class CaffeWeights:
    """The weights of *graph*, which was read from *path*."""

    def __init__(self, path: Path, graph: ModelGraph) -> None:
        self._folder = path.resolve().parent
        self._constants = {constant.tensor.name: constant for constant in graph.constants}
        self._layers = {
            f"{op.id}/blobs/{at}": (op.name, at) for op in graph.ops for at in range(len(op.inputs))
        }

    def __contains__(self, tensor: object) -> bool:
        return tensor in self._constants

    def __getitem__(self, tensor: str) -> Array:
        """The values of one.

        Raises:
            ExecutionError: the file is gone, or does not hold as many as the shape says.
        """
        constant = self._constants[tensor]
        shape = tuple(size or 0 for size in constant.tensor.shape or ())
        values = self._values(constant)
        if values.size != np.prod(shape, dtype=object):
            raise ExecutionError(f"{tensor!r} holds {values.size} values for the shape {shape}")
        return values.reshape(shape)

    def nbytes(self, tensor: str) -> int:
        """The bytes of one, as far as its shape tells."""
        declared = self._constants[tensor].tensor
        width = 8 if declared.dtype is not None and declared.dtype.name == "FLOAT64" else 4
        return width * int(np.prod([size or 0 for size in declared.shape or ()], dtype=object))

    def _values(self, constant: Constant) -> Array:
        declared = constant.tensor
        kind = declared.dtype.numpy if declared.dtype is not None else None
        if not constant.location or kind is None:
            return np.zeros(0, np.float32)
        if constant.nbytes is None:
            layer, at = self._layers[declared.name]
            return self._in_pieces[layer][at]
        path = self._folder / constant.location
        try:
            with path.open("rb") as file:
                file.seek(constant.offset)
                return np.frombuffer(file.read(constant.nbytes), np.dtype(kind).newbyteorder("<"))
        except (OSError, ValueError) as error:
            raise ExecutionError(
                f"cannot read the net's weights: {error}", where=str(path)
            ) from error

    @cached_property
    def _in_pieces(self) -> dict[str, list[Array]]:
        """What does not lie in one piece anywhere, by layer."""
        locations = {
            constant.location for constant in self._constants.values() if constant.nbytes is None
        }
        return {
            name: blobs
            for location in sorted(locations - {""})
            for name, blobs in blob_values(self._folder / location).items()
        }
