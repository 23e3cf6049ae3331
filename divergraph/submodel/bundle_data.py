"""The dumped data of a part: its inputs and outputs, and the dumps of every op of both sides."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from divergraph.execute.contract import Array
from divergraph.files.dump_names import DumpFileNames
from divergraph.files.npy_file import write_npy, write_raw
from divergraph.submodel.export.contract import WrittenPart
from divergraph.submodel.export.ge_export import with_bodies
from divergraph.submodel.run_parts import RunParts
from divergraph.submodel.selection import BoundaryTensor, Selection
from divergraph.values.one_tensor import read_stored
from divergraph.values.unread import or_raise
from graphstore.model import DumpTensorRef, ModelGraph, TensorIO, TensorRef

TIMESTAMP = 1_600_000_000_000_000
"""The time in names of golden dumps; always the same, so that equal parts have equal bundles."""
_LONGEST = 80
_LIKELY = 1e-2
"""The tolerance where the analysis gave no floor; more than float16 needs."""


@dataclass
class PartData:
    """Writes the data of *part* below *folder* and remembers where each tensor is.

    *graph* is the written part as an importer reads it, *device* what stands for it.
    """

    parts: RunParts
    part: Selection
    folder: Path
    graph: ModelGraph
    written: WrittenPart
    device: Selection | None = None
    _files: dict[str, dict[str, str | None]] = field(default_factory=dict)
    _log: list[str] = field(default_factory=list)

    def write(self) -> None:
        """Write inputs, expected outputs and dumps."""
        for kind, tensors in (("inputs", self.part.inputs), ("outputs", self.part.outputs)):
            (self.folder / kind).mkdir()
            for place, tensor in enumerate(t for t in tensors if not t.frozen):
                self._write_ends(kind, place, tensor)
        self._write_golden()
        self._write_device()

    def files_of(self, tensor: BoundaryTensor) -> Mapping[str, str | None]:
        """Where the golden and the device's value of an input or output is."""
        return self._files.get(tensor.name, {"golden": None, "device": None})

    def device_tolerance(self) -> float:
        """How far the golden part may be from the device on the device's own inputs, to count as
        rounding."""
        refs = [tensor.ref for tensor in self.part.outputs if tensor.ref is not None]
        floors = [floor for ref in refs if (floor := self.parts.floor(ref)) is not None]
        return self.parts.data.run.analysis.guilty * max(floors) if floors else _LIKELY

    def log(self) -> Iterator[str]:
        """Lines of the same content as the vendor's tool writes."""
        yield from self.written.added or (
            f"Add Layer Into Model: {tensor.name} (input, shape "
            f"{','.join(map(str, tensor.shape or ()))})"
            for tensor in self.part.inputs
            if not tensor.frozen
        )
        yield "Output Dump Path:dump_data"
        yield from self._log
        yield f"Export Layer:{','.join(self.part.ops)}"

    def _write_ends(self, kind: str, place: int, tensor: BoundaryTensor) -> None:
        files: dict[str, str | None] = {"golden": None, "device": None}
        for side, value in self._values(tensor):
            if value is None:
                continue
            stem = numbered_name(place, tensor.name)
            name = f"{kind}/{stem}.{side}.npy"
            write_npy(self.folder / name, value)
            files[side] = name
            if kind == "inputs":
                self._write_raw(f"{kind}/{stem}.{side}", value)
        self._files[tensor.name] = files

    def device_ops(self) -> tuple[str, ...]:
        """The device ops of the part, in execution order."""
        if self.device is not None:
            return tuple(with_bodies(self.parts.device, self.device.chosen))
        return self.parts.device_ops(self.part.chosen)

    def _values(self, tensor: BoundaryTensor) -> Iterator[tuple[str, Array | None]]:
        there = self.parts.has_golden(tensor.key)
        yield "golden", self.parts.golden_value(tensor.key) if there else None
        yield "device", self.parts.device_value(tensor.key)

    def _write_raw(self, stem: str, value: Array) -> None:
        """Write the raw bytes for inference tools, floats as float16 and float32."""
        if value.dtype.kind in "US":
            return  # tools have their own formats for strings
        if value.dtype.kind != "f":
            write_raw(self.folder / f"{stem}.{value.dtype}.bin", value)
            return
        with np.errstate(over="ignore"):
            write_raw(self.folder / f"{stem}.fp32.bin", value.astype(np.float32))
            write_raw(self.folder / f"{stem}.fp16.bin", value.astype(np.float16))

    def _write_golden(self) -> None:
        """Write the golden dumps, named for the written part's own graph, so that both make a new
        run."""
        folder = self.folder / "dump_data" / "golden"
        folder.mkdir(parents=True)
        names = DumpFileNames(self.graph, TIMESTAMP)
        keys = self._keys_by_name()
        produced = {tensor.name for op in self.graph.ops for tensor in op.outputs}
        for tensor in self.graph.inputs:
            if tensor.name not in produced and self._is_dumped(key := keys.get(tensor.name)):
                self._save(folder / names.of_input(tensor.name), key)
        for op in self.graph.ops:
            for port, tensor in enumerate(op.outputs):
                if self._is_dumped(key := keys.get(tensor.name)):
                    self._save(folder / names.of_output(op, port), key)
        names.write_mapping(folder)

    def _keys_by_name(self) -> dict[str, TensorRef | str]:
        """The golden tensors of the part by their names in the written part."""
        ops = self.parts.selector.ops
        keys: dict[str, TensorRef | str] = {
            tensor.name: TensorRef(op, port)
            for op in self.part.ops
            for port, tensor in enumerate(ops[op].outputs)
        }
        keys |= {tensor.name: tensor.key for tensor in self.part.inputs}
        return {self.written.names.get(name, name): key for name, key in keys.items()}

    def _is_dumped(self, key: TensorRef | str | None) -> bool:
        return key is not None and self.parts.has_golden(key)

    def _save(self, path: Path, key: TensorRef | str | None) -> None:
        assert key is not None
        write_npy(path, self.parts.golden_value(key))

    def _write_device(self) -> None:
        folder = self.folder / "dump_data" / "device"
        folder.mkdir(parents=True)
        chosen = self.device_ops()
        before = self._feeding(chosen)
        copied: dict[Path, str] = {}
        for op in (*before, *chosen):
            for ref in self._dumped(op):
                self._copy(ref, folder, copied)
        for op in chosen:
            originals = self.parts.originals.get(op) or (op,)
            self._log.append(f"Dump Layer:[{', '.join(originals)}]")
            outputs = {copied[r.path] for r in self._dumped(op) if r.path in copied}
            input_files = {copied[r.path] for b in self._makers(op) for r in self._dumped(b)
                     if r.path in copied}  # fmt: skip
            self._log.append(f"Output File:{', '.join(sorted(outputs)) or 'none'}")
            self._log.append(f"Input File:{', '.join(sorted(input_files)) or 'none'}")

    def _feeding(self, chosen: tuple[str, ...]) -> list[str]:
        chosen_ops = set(chosen)
        return [op for op in dict.fromkeys(m for o in chosen for m in self._makers(o))
                if op not in chosen_ops]  # fmt: skip

    def _makers(self, op: str) -> Iterator[str]:
        return (ref.op for ref in self.parts.device_selector.ops[op].takes)

    def _dumped(self, op: str) -> Iterator[DumpTensorRef]:
        tensors = self.parts.sources.device_dump.tensors
        for io in TensorIO:
            outputs = self.parts.device_selector.ops[op]
            ports = len(outputs.outputs) if io is TensorIO.OUTPUT else len(outputs.inputs)
            for port in range(ports):
                ref = tensors.get((op, io, port))
                if ref is not None:
                    yield ref

    def _copy(self, ref: DumpTensorRef, folder: Path, copied: dict[Path, str]) -> None:
        """A dump file as it is; files that hold a whole run (JSON, archives) are not taken."""
        if ref.path in copied or not ref.path.is_file():
            return
        if ref.nbytes and ref.path.stat().st_size > 4 * ref.nbytes + (1 << 20):
            return
        target = folder / ref.path.name
        if target.exists():
            return
        shutil.copyfile(ref.path, target)
        copied[ref.path] = ref.path.name


def numbered_name(place: int, name: str) -> str:
    """A plain file name for tensor *name*: nothing of it leads out of a folder."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)
    return f"{place:03d}_{plain[:_LONGEST]}"


@dataclass
class DevicePartData(PartData):
    """As for golden parts, but inputs and outputs are the device's, as it dumped them."""

    def golden_ops(self) -> tuple[str, ...]:
        """The golden ops the part stands for, in execution order."""
        ops = {one for op in self.part.chosen for one in self.parts.originals.get(op, ())}
        number = self.parts.selector.arrays.number
        return tuple(sorted(ops & number.keys(), key=number.__getitem__))

    def device_tolerance(self) -> float:
        """Nothing runs the part here."""
        return 0.0

    def device_ops(self) -> tuple[str, ...]:
        """The chosen ones and those of their bodies."""
        return tuple(with_bodies(self.parts.device, self.part.chosen))

    def _values(self, tensor: BoundaryTensor) -> Iterator[tuple[str, Array | None]]:
        if tensor.ref is None:
            ref = self.parts.sources.device_dump.graph_inputs.get(tensor.name)
        else:
            key = (tensor.ref.op, TensorIO.OUTPUT, tensor.ref.port)
            ref = self.parts.sources.device_dump.tensors.get(key)
        # The device's part works on the layout the device has.
        yield "device", None if ref is None else or_raise(read_stored(ref))

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
        names.write_mapping(folder)
