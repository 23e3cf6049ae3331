"""The weights of an offline model as the framework had them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.errors import ImportFormatError
from graphstore.model import Shape
from importers.dumps.decode import can_decode, decode, stored_bytes
from importers.layouts import LayoutError, to_layout
from importers.om.importer import Weight, assembled, read_model
from importers.source import mapped


class OfflineWeights(Mapping[str, NDArray[Any]]):
    """Arrays by the id of the constant op, read from the mapped file when asked for.

    An array has the framework's shape and axis order, device layouts and padding undone,
    and the type the model stores (float16 weights stay float16; bfloat16 and 8-bit floats,
    which numpy has not, come as float32). It is a view of the file where no layout had to be
    undone. :meth:`stored` gives the values as they lie in the file.
    """

    def __init__(self, path: Path, places: Mapping[str, Weight]) -> None:
        self.places = places
        """Where each weight lies, and how."""
        self._path = path
        self._file: NDArray[np.uint8] = np.memmap(path, np.uint8, "r")

    def __getitem__(self, op: str) -> NDArray[Any]:
        place = self.places[op]
        stored, origin = self.stored(op), place.tensor.origin
        shape = _static_shape(origin.shape if origin else None)
        wanted = origin.layout if origin else None
        layout, groups = _layout(place.tensor.layout)
        if shape is None or layout in ("ND", wanted):
            fits = shape is not None and prod(shape) == stored.size
            return stored.reshape(shape) if fits else stored
        try:
            return to_layout(stored, layout, wanted or "ND", shape, groups=groups)
        except LayoutError as error:
            raise self._error(place, f"{op}: {error}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def stored(self, op: str) -> NDArray[Any]:
        """The values of *op* in the shape and layout they are stored in.

        Raises:
            ImportFormatError: their type or shape is not known, or they are cut.
        """
        place = self.places[op]
        dtype, shape = place.tensor.dtype, _static_shape(place.tensor.shape)
        if dtype is None or not can_decode(dtype) or shape is None:
            kind = dtype.value if dtype else "an unknown type"
            raise self._error(place, f"{op}: weights of {kind} and shape {shape} cannot be read")
        count = prod(shape)
        size = stored_bytes(dtype, count)
        if size > place.span.size:
            what = f"{op}: {place.span.size} bytes of weights where {shape} needs {size}"
            raise self._error(place, what)
        raw = self._file[place.span.offset : place.span.offset + size]
        return decode(raw, dtype, count).reshape(shape)

    def _error(self, place: Weight, what: str) -> ImportFormatError:
        return ImportFormatError(self._path, what, offset=place.span.offset)


def weights(path: Path | str) -> OfflineWeights:
    """The weights of the offline model in *path*: arrays by the ids its graph gives the ops.

    Raises:
        ImportFormatError: it is no offline model, or damaged; with the byte offset.
    """
    path = Path(path)
    with mapped(path) as buffer:
        model = read_model(buffer, path)
        graph = assembled(model, path, "")
    nodes = (node for graph in model.graphs for node in graph.nodes)
    ids = {id(node): op.id for node, op in zip(nodes, graph.ops, strict=True)}
    places = {ids[id(node)]: weight for node, weight in model.weights if id(node) in ids}
    return OfflineWeights(path, places)


def _static_shape(shape: Shape | None) -> tuple[int, ...] | None:
    if shape is None:
        return None
    dims = tuple(dim for dim in shape if dim is not None)
    return dims if len(dims) == len(shape) else None


def _layout(name: str | None) -> tuple[str, int]:
    """Layout and groups of GE's ``FRACTAL_Z:4``; without a layout it lies as its shape says."""
    layout, _, groups = (name or "ND").partition(":")
    return layout, int(groups) if groups.isdecimal() and len(groups) < 9 else 1
