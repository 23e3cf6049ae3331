"""The dumped data of a part of the device's graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from divergraph.execute.contract import Array
from divergraph.files.dump_names import MAPPING, DumpFileNames
from divergraph.files.npy_file import write_npy
from divergraph.submodel.bundle_data import TIMESTAMP, PartData
from divergraph.submodel.export.ge_export import with_bodies
from divergraph.submodel.selection import BoundaryTensor
from divergraph.values.one_tensor import read_stored
from divergraph.values.unread import or_raise
from graphstore.model import TensorIO, TensorRef


@dataclass
class DevicePartData(PartData):
    """As for golden parts, but inputs and outputs are the device's, as it dumped them."""

    def golden_ops(self) -> tuple[str, ...]:
        """The golden ops the part stands for, in execution order."""
        found = {one for op in self.part.chosen for one in self.parts.originals.get(op, ())}
        number = self.parts.selector.arrays.number
        return tuple(sorted(found & number.keys(), key=number.__getitem__))

    def device_tolerance(self) -> float:
        """Nothing runs the part here."""
        return 0.0

    def device_ops(self) -> tuple[str, ...]:
        """The chosen ones and those of their bodies."""
        return tuple(with_bodies(self.parts.device, self.part.chosen))

    def _values(self, tensor: BoundaryTensor) -> Iterator[tuple[str, Array | None]]:
        if tensor.ref is None:
            found = self.parts.sources.device_dump.graph_inputs.get(tensor.name)
        else:
            key = (tensor.ref.op, TensorIO.OUTPUT, tensor.ref.port)
            found = self.parts.sources.device_dump.tensors.get(key)
        # The device's part works on the layout the device has.
        yield "device", None if found is None else or_raise(read_stored(found))

    def _write_golden(self) -> None:
        """The dumps of the originals, named by the golden model."""
        folder = self.folder / "dump_data" / "golden"
        folder.mkdir(parents=True)
        names = DumpFileNames(self.parts.golden, TIMESTAMP)
        ops = self.parts.selector.ops
        for op in self.golden_ops():
            for port, _ in enumerate(ops[op].outputs):
                if self.parts.has_golden(TensorRef(op, port)):
                    value = self.parts.golden_value(TensorRef(op, port))
                    write_npy(folder / names.of_output(ops[op], port), value)
        mapping = names.mapping()
        if mapping:
            (folder / MAPPING).write_text(mapping, encoding="utf-8", errors="backslashreplace")
