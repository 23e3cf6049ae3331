"""Ascend graphs of single ops with real dump files, in plain and in device layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from divergraph.values.array_types import Array
from divergraph.verification.operands import DumpedOperands
from graphstore.model import (
    DType,
    DumpFormat,
    DumpTensorRef,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Tensor,
    TensorIO,
    TensorOrigin,
    TensorRef,
)
from importers.dumps.index import DumpIndex

C0 = 16


def in_blocks(value: Array, layout: str) -> Array:
    """A tensor of four axes as NC1HWC0, channels padded with zeros."""
    nchw = value.transpose(*(layout.index(axis) for axis in "NCHW"))
    n, c, h, w = nchw.shape
    wide = np.zeros((n, -(-c // C0) * C0, h, w), value.dtype)
    wide[:, :c] = nchw
    return wide.reshape(n, -1, C0, h, w).transpose(0, 1, 3, 4, 2)


def in_fractals(value: Array) -> Array:
    """A matrix as FRACTAL_NZ."""
    *batch, rows, columns = value.shape
    high, wide = -(-rows // C0), -(-columns // C0)
    padded = np.zeros((*batch, high * C0, wide * C0), value.dtype)
    padded[..., :rows, :columns] = value
    blocks = padded.reshape(*batch, high, C0, wide, C0)
    at = len(batch)
    return blocks.transpose(*range(at), at + 2, at, at + 1, at + 3)


@dataclass
class DeviceOps:
    """Ops that each read inputs of their own; all tensors are dumped into files of *folder*."""

    folder: Path
    ops: list[Op] = field(default_factory=list)
    tensors: dict[tuple[str, TensorIO, int], DumpTensorRef] = field(default_factory=dict)

    def add(
        self,
        name: str,
        kind: str,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array],
        layouts: Sequence[str] = (),
        *,
        blocked: str = "",
        originals: tuple[str, ...] | None = None,
        **attrs: Any,
    ) -> None:
        """Add an op with the values it reads and makes. *layouts* are of its inputs, then of its
        outputs ("" for ND); *blocked* is the device layout of those of four axes, or of matrices.
        """
        names = [*layouts, *[""] * (len(inputs) + len(outputs) - len(layouts))]
        refs: list[InputRef | None] = []
        for at, value in enumerate(inputs):
            if value is None:
                refs.append(None)
                continue
            source = f"{name}_in{at}"
            tensor = self._dumped(source, name, TensorIO.INPUT, at, value, names[at], blocked)
            self.ops.append(Op(source, source, "Data", outputs=(tensor,)))
            refs.append(InputRef(f"{source}:0", TensorRef(source, 0)))
        made = [
            self._dumped(
                name, name, TensorIO.OUTPUT, port, value, names[len(inputs) + port], blocked
            )
            for port, value in enumerate(outputs)
        ]
        self.ops.append(
            Op(
                *(name, name, kind, tuple(refs)),
                outputs=tuple(made),
                attrs=attrs,
                original_names=originals,
            )
        )

    def _dumped(
        self,
        source: str,
        op: str,
        io: TensorIO,
        port: int,
        value: Array,
        layout: str,
        blocked: str,
    ) -> Tensor:
        stored, device = value, layout or "ND"
        if blocked == "NC1HWC0" and sorted(layout) == sorted("NCHW"):
            stored, device = in_blocks(value, layout), blocked
        elif blocked == "FRACTAL_NZ" and value.ndim >= 2 and not layout:
            stored, device = in_fractals(value), blocked
        path = self.folder / f"{op}.{io.value}.{port}"
        path.write_bytes(np.ascontiguousarray(stored).tobytes())
        kind = DType(stored.dtype.name)
        self.tensors[op, io, port] = DumpTensorRef(
            *(path, DumpFormat.ASCEND_V2, op, io, port, kind, stored.shape, 0, stored.nbytes),
            layout=device,
            original_shape=value.shape,
        )
        origin = TensorOrigin(source, 0, layout or "ND", kind, value.shape)
        return Tensor(
            f"{source}:{0 if io is TensorIO.INPUT else port}", kind, stored.shape, device, origin
        )

    def operands(self, **more: Any) -> DumpedOperands:
        """The graph with its dump."""
        graph = ModelGraph("g", GraphKind.DEVICE, Framework.ASCEND, "test", tuple(self.ops))
        return DumpedOperands(graph, DumpIndex(self.tensors, files=len(self.tensors)), **more)


def spoiled(operands: DumpedOperands, faults: Mapping[str, Any]) -> None:
    """Change what ops dumped: each fault changes an array in place."""
    for op, change in faults.items():
        ref = operands.dump.tensors[op, TensorIO.OUTPUT, 0]
        assert ref.dtype is not None
        assert ref.shape is not None
        value = np.frombuffer(ref.path.read_bytes(), ref.dtype.numpy).reshape(ref.shape).copy()
        change(value)
        ref.path.write_bytes(value.tobytes())
