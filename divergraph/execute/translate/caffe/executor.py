"""Caffe nets run by ONNX Runtime, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from divergraph.execute.contract import Executor
from divergraph.execute.precision import in_double
from divergraph.execute.translate.caffe.catalogue import ROWS
from divergraph.execute.translate.executor import (
    TranslatedExecutor,
    TranslatedModelFactory,
    runner_name,
)
from divergraph.execute.translate.plugged import with_plugged
from divergraph.execute.translate.program import Program
from divergraph.values.array_types import Array
from graphstore.errors import ExecutionError
from graphstore.model import Constant, Framework, ModelGraph
from importers.caffe.blobs import blob_values
from importers.caffe.graph import WEIGHTED


class CaffeFactory(TranslatedModelFactory):
    """Opens Caffe nets."""

    name = "caffe"
    rows = ROWS

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph* was read from a Caffe net."""
        return graph.framework is Framework.CAFFE

    def open_with(self, path: Path, graph: ModelGraph, options: Mapping[str, str]) -> Executor:
        """The net in *path*, with the weights *graph* was read with."""
        double = in_double(options)
        if not graph.constants and any(op.type in WEIGHTED for op in graph.ops):
            raise ExecutionError(
                "the net has no weights",
                where=str(path),
                hint="give --weights FILE.caffemodel, or put it next to the net under its name",
            )
        name = runner_name(double=double)
        return TranslatedExecutor(replace(caffe_program(name, path, graph), double=double))


# A Caffe net as a program: what runs, what it is fed, its weights.


def caffe_program(name: str, path: Path, graph: ModelGraph) -> Program:
    """The net *graph*, read from *path*, for the engine *name*. Layers that fetch data are
    inputs."""
    fed = {tensor.name for tensor in graph.inputs}
    phase = {"phase": graph.attrs.get("phase", "TEST")}
    ops = tuple(
        replace(op, attrs={**op.attrs, **phase})
        for op in graph.ops
        if not op.outputs or any(tensor.name not in fed for tensor in op.outputs)
    )
    weights = CaffeWeights(path, graph)
    return Program(name, with_plugged(ROWS), ops, graph.inputs, weights, {})


# The weights of a Caffe net, read from its files when they are asked for.


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
