"""Small device graphs and dumps, written and read like real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
    TensorRef,
)
from importers.dumps import DumpIndex, OverflowRecord


@dataclass
class DumpFolder:
    """Raw tensors in files of one folder."""

    folder: Path
    tensors: dict[tuple[str, TensorIO, int], DumpTensorRef] = field(default_factory=dict)
    overflows: tuple[OverflowRecord, ...] = ()

    def add(self, op: str, values: Any, io: TensorIO = TensorIO.OUTPUT, port: int = 0, **of: Any):
        array = np.ascontiguousarray(values)
        path = self.folder / f"{op}.{io}.{port}"
        path.write_bytes(array.tobytes())
        self.tensors[op, io, port] = DumpTensorRef(
            path,
            DumpFormat.ASCEND_V2,
            op,
            io,
            port,
            DType(array.dtype.name),
            array.shape,
            0,
            array.nbytes,
            **of,
        )

    def takes(self, op: str, values: Any, port: int = 0, **of: Any) -> None:
        self.add(op, values, TensorIO.INPUT, port, **of)

    @property
    def index(self) -> DumpIndex:
        return DumpIndex(self.tensors, files=len(self.tensors), overflows=self.overflows)


@pytest.fixture
def dump(tmp_path: Path) -> DumpFolder:
    folder = tmp_path / "first"
    folder.mkdir()
    return DumpFolder(folder)


@pytest.fixture
def second(tmp_path: Path) -> DumpFolder:
    folder = tmp_path / "second"
    folder.mkdir()
    return DumpFolder(folder)


@pytest.fixture
def device_graph() -> Callable[..., ModelGraph]:
    """Makes a graph of (name, type, names of the ops it takes output 0 of)."""

    def make(*ops: tuple[str, str, Sequence[str]]) -> ModelGraph:
        made = [
            Op(
                name,
                name,
                kind,
                inputs=tuple(InputRef(f"{source}:0", TensorRef(source, 0)) for source in sources),
                outputs=(Tensor(f"{name}:0", DType.FLOAT16),),
                sequence=number,
            )
            for number, (name, kind, sources) in enumerate(ops)
        ]
        return ModelGraph("g", GraphKind.DEVICE, Framework.ASCEND, "test", tuple(made))

    return make
