"""One Ascend dump file: its header checked against the file, its tensors as references."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import DumpTensorRef, Reason, TensorIO
from importers.dumps.ascend.header import read_header
from importers.dumps.ascend.values import DumpHeader, HeaderTensor, RawBlock
from importers.dumps.decode import can_decode, stored_bytes
from importers.dumps.index import DamagedError, open_dump
from importers.dumps.names import DumpName, parse_dump_name

_MAX_DIM = 1 << 62
_MAX_RANK = 64


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A dump file after its header was looked at; ``header`` or ``damage`` is None."""

    path: Path
    name: DumpName | None
    header: DumpHeader | None
    size: int
    damage: DamagedError | None

    @property
    def timestamp(self) -> int:
        """Microseconds from the name, else from the header, 0 if unknown."""
        if self.name is not None:
            return self.name.timestamp
        return 0 if self.header is None else self.header.dump_time

    def whole_header(self) -> DumpHeader:
        """Its header.

        Raises:
            DamagedError: it has none.
        """
        if self.header is None:
            raise self.damage or DamagedError("no header")
        return self.header


@dataclass(frozen=True, slots=True)
class DeviceFile:
    """The tensors of one dump file without a graph; ``op`` of the references is the op's
    name as header or file name tell it, ports count as dumped. ``blocks`` are the bytes
    of L1 buffers and workspaces, ``unusable`` says for each other tensor why."""

    path: Path
    header: DumpHeader
    tensors: tuple[DumpTensorRef, ...]
    blocks: tuple[RawBlock, ...]
    unusable: tuple[str, ...]


def look_at(path: Path, name: DumpName | None) -> ScannedFile:
    """The file with its header or the reason why it has none; never raises."""
    try:
        with open_dump(path) as (fd, size):
            header = read_header(fd, size)
    except DamagedError as damage:
        return ScannedFile(path, name, None, 0, damage)
    return ScannedFile(path, name, header, size, None)


def read_device_file(path: Path) -> DeviceFile:
    """The header and tensors of one dump file, of any version, by itself.

    Raises:
        ImportFormatError: it cannot be read, or is no Ascend dump file.
    """
    file = look_at(path, parse_dump_name(path.name))
    try:
        header = file.whole_header()
    except DamagedError as damage:
        raise ImportFormatError(path, damage.detail) from damage
    op = header.op_name or (file.name.op_name if file.name else path.name)
    tensors: list[DumpTensorRef] = []
    unusable: list[str] = []
    for tensor in header.tensors:
        try:
            tensors.append(tensor_ref(file, tensor, op, tensor.number))
        except DamagedError as damage:
            unusable.append(f"{tensor.io} {tensor.number}: {damage.detail}")
    blocks: list[RawBlock] = []
    for block in header.blocks:
        if block.offset + block.size <= file.size:
            blocks.append(block)
        else:
            unusable.append(f"{block.kind} {block.number}: the file is cut before its end")
    return DeviceFile(path, header, tuple(tensors), tuple(blocks), tuple(unusable))


def tensor_ref(file: ScannedFile, tensor: HeaderTensor, op: str, port: int) -> DumpTensorRef:
    """Where the values of *tensor* lie, checked against the file.

    Raises:
        DamagedError: elements that cannot be read, a cut file, or a wrong size.
    """
    header, dtype = file.whole_header(), tensor.dtype
    if dtype is None or not can_decode(dtype):
        what = f"type number {tensor.type_number}" if dtype is None else f"type {dtype}"
        raise DamagedError(f"elements of {what} cannot be read", Reason.DTYPE_UNSUPPORTED)
    end = tensor.offset + tensor.size
    if end > file.size:
        raise DamagedError(
            f"the file is cut: this tensor takes bytes {tensor.offset} to {end}, "
            f"the file has {file.size}",
            offset=min(tensor.offset, file.size),
        )
    shape, nbytes = _stored_shape(tensor)
    return DumpTensorRef(
        path=file.path,
        format=header.format,
        op=op,
        io=tensor.io,
        port=port,
        dtype=dtype,
        shape=shape,
        offset=tensor.offset,
        nbytes=nbytes,
        layout=tensor.layout,
        original_shape=tensor.original_shape,
        groups=tensor.groups,
        address=tensor.address,
        timestamp=file.timestamp,
    )


def _stored_shape(tensor: HeaderTensor) -> tuple[tuple[int, ...], int]:
    """The shape and the bytes of its elements; without dims, what the size allows."""
    if tensor.undefined:
        return (tensor.size,), tensor.size
    assert tensor.dtype is not None
    dims = tensor.shape
    if not dims:
        one = stored_bytes(tensor.dtype, 1)
        shape = () if tensor.size == one else (tensor.size * 8 // (tensor.dtype.bits or 8),)
        return shape, stored_bytes(tensor.dtype, prod(shape))
    if max(dims) >= _MAX_DIM or len(dims) > _MAX_RANK:
        raise DamagedError("the header has no definite shape", offset=8)
    nbytes = stored_bytes(tensor.dtype, prod(dims))
    if nbytes > tensor.size:
        raise DamagedError(
            f"shape {list(dims)} of {tensor.dtype} takes {nbytes} bytes, "
            f"the header gives {tensor.size}",
            offset=tensor.offset,
        )
    return dims, nbytes


def input_ports(inputs: tuple[object | None, ...], dumped: int) -> list[int]:
    """The input positions of *dumped* inputs of an op whose graph inputs are *inputs*.

    The device dumps only connected inputs; an optional input left open in the graph
    shifts the rest.
    """
    connected = [port for port, ref in enumerate(inputs) if ref is not None]
    if dumped == len(connected) < len(inputs):
        return connected
    return list(range(dumped))


def described(
    file: ScannedFile, inputs: tuple[object | None, ...]
) -> list[tuple[int, HeaderTensor]]:
    """The tensors of a file with the graph's port of each."""
    if file.header is None:
        return []
    dumped = sum(tensor.io is TensorIO.INPUT for tensor in file.header.tensors)
    ports = input_ports(inputs, dumped)
    return [
        (ports[tensor.number] if tensor.io is TensorIO.INPUT else tensor.number, tensor)
        for tensor in file.header.tensors
    ]
