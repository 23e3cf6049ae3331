"""Golden dumps: ``.npy`` files named after the tensors of the original graph.

TensorFlow's debugger recipe, ONNX and Caffe write
``{op name}.{output index}.{timestamp}.npy`` with ``/`` as ``_`` and ``:`` as ``.``. ONNX
dumps may name the tensor instead of the op. msaccucmp's converter writes
``{device dump name}.{input|output}.{index}.npy``; this too is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from graphstore.model import DType, DumpTensorRef, ModelGraph, Op, Tensor, TensorIO
from importers.contract import Confidence
from importers.dumps.arrays.golden_names import GoldenNames, Hit, name_without_time
from importers.dumps.arrays.npy import NpyHeader, read_npy_header
from importers.dumps.ascend.file import look_at, tensor_ref
from importers.dumps.bare.tensor import BareTensor, found_tensor, identity_of, npy_tensor
from importers.dumps.contract import DumpChoice, DumpReader, FilePlace, FoundDump, RawForm
from importers.dumps.index import (
    DamagedError,
    DumpIndex,
    DumpPlace,
    FolderListing,
    Gathering,
    TensorKey,
    list_folder,
    open_dump,
    or_damage,
)
from importers.dumps.names import MAPPING, OpNames, parse_dump_name, read_mapping

NPY = ".npy"
_PARAMETER = "Parameter"
"""The type of op under which MindSpore dumps what is fed and what the weights are."""

_BINARY = (".pb", ".quant")
_WHOLE_NUMBERS = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.INT32})
_CONVERTED = re.compile(
    r"(?P<dump>.+)\.(?P<io>input|output)\.(?P<port>\d{1,6})(?:\.(?P<layout>[A-Za-z]\w*))?"
    r"(?:\.(?P<dtype>[A-Za-z]+\d*))?"
)


@dataclass(frozen=True, slots=True)
class _File:
    """One golden file after its header was looked at; of one with the header of a device dump
    the header is the tensor as that describes it."""

    path: Path
    header: NpyHeader | DumpTensorRef | None
    damage: DamagedError | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """A file and the tensor it was found to hold."""

    file: _File
    key: TensorKey
    timestamp: int
    tensor: Tensor | None
    layout: str | None = None
    scale: float | None = None
    zero_point: int = 0

    @property
    def path(self) -> Path:
        return self.file.path


def scan_golden_dumps(folder: Path, graph: ModelGraph) -> DumpIndex:
    """The tensors of the ``.npy`` files directly in *folder*, by op of *graph*.

    Of several dumps of one tensor the latest counts. A damaged or unclear file becomes
    a problem of its op; nothing of the file's data is read.

    Raises:
        InputError: the folder is missing or may not be read.
    """
    return scan_golden_listing(list_folder(folder), graph)


def scan_golden_listing(listing: FolderListing, graph: ModelGraph) -> DumpIndex:
    """As :func:`scan_golden_dumps`, for a folder already listed."""
    scan = _Scan(graph)
    mapping = read_mapping(listing.folder) if MAPPING in listing.files else {}
    for name in listing.files:
        if (ending := golden_ending(name)) is not None:
            stem = name.removesuffix(ending)
            full = mapping.get(name) or mapping.get(stem) or stem
            scan.add(_look_at(listing.folder / name), full.removesuffix(ending))
    for name, why in listing.others.items():
        if (ending := golden_ending(name)) is not None:
            file = _File(listing.folder / name, None, DamagedError(why))
            scan.add(file, name.removesuffix(ending))
    return scan.result()


def golden_ending(name: str) -> str | None:
    """The ending of a golden file's name: ``.npy``, or ``.pb`` and ``.quant`` where a
    number comes before it, as in the dumps of old Caffe tools; None for other files."""
    if name.endswith(NPY):
        return NPY
    stem, dot, ending = name.rpartition(".")
    if dot and dot + ending in _BINARY and stem.rpartition(".")[2].isdecimal():
        return dot + ending
    return None


def _look_at(path: Path) -> _File:
    try:
        if path.suffix in _BINARY:
            return _File(path, first_output(path))
        with open_dump(path) as (fd, size):
            return _File(path, read_npy_header(fd, size))
    except DamagedError as damage:
        return _File(path, None, damage)


def first_output(path: Path) -> DumpTensorRef:
    """The first output of a file with the header of a device dump.

    Raises:
        DamagedError: it has no such header, or describes no output.
    """
    file = look_at(path, None)
    for tensor in file.whole_header().tensors:
        if tensor.io is TensorIO.OUTPUT:
            return tensor_ref(file, tensor, "", 0)
    raise DamagedError("the header describes no output", offset=8)


class _Scan:
    """Collects files by tensor, then keeps the latest of each."""

    def __init__(self, graph: ModelGraph) -> None:
        self._names = GoldenNames(graph)
        self._device_names = OpNames(graph)
        self._found: dict[TensorKey, list[_Found]] = {}
        self._inputs: dict[str, list[_Found]] = {}
        self._gathered = Gathering()
        self._fits: dict[tuple[str, object], dict[DumpPlace, str]] = {}
        """What unclear files fit, by their name without its time, and their kind: of thousands of
        calls of thousands of ops of one name each file fits all."""

    def add(self, file: _File, stem: str) -> None:
        self._gathered.files += 1
        if self._add_converted(file, stem):
            return
        alike = (name_without_time(stem), _kind(file.header))
        if alike in self._fits:
            self._unclear(file, self._fits[alike])
            return
        hits = self._names.find(stem)
        if len(hits) > 1 and file.header is not None:
            hits = _fitting(hits, file.header) or hits
        if len(hits) > 1:
            self._fits[alike] = _names_of(hits)
            self._unclear(file, self._fits[alike])
        elif hits:
            op, port, time = hits[0].op, hits[0].port, hits[0].timestamp
            key = (op.id, TensorIO.OUTPUT, port)
            scaled = _quantisation(op, port)
            self._keep(_Found(file, key, time, _output(op, port), None, *scaled))
        elif (graph_input := self._names.find_input(stem)) is not None:
            tensor, time = graph_input
            candidate = _Found(file, ("", TensorIO.OUTPUT, 0), time, tensor)
            self._inputs.setdefault(tensor.name, []).append(candidate)
        elif (hit := self._names.find_taken(stem)) is not None:
            self._take(file, hit)
        elif file.damage or not self._names.is_constant(stem):
            self._gathered.strange(file.path, file.damage)

    def _take(self, file: _File, hit: Hit) -> None:
        """Keep an op's input if it is the graph's; what ops made is dumped as their outputs."""
        inputs = hit.op.inputs
        ref = inputs[hit.port] if hit.port < len(inputs) else None
        tensor = self._names.given(ref.tensor) if ref and ref.producer is None else None
        if tensor is not None:
            candidate = _Found(file, ("", TensorIO.OUTPUT, 0), hit.timestamp, tensor)
            self._inputs.setdefault(tensor.name, []).append(candidate)

    def _add_converted(self, file: _File, stem: str) -> bool:
        """Take a device dump that was converted to ``.npy``; False if it is none."""
        match = _CONVERTED.fullmatch(stem)
        name = parse_dump_name(match["dump"]) if match else None
        if match is None or name is None:
            return False
        if name.op_type == _PARAMETER and (parameter := self._names.parameter(name.op_name)):
            candidate = _Found(file, ("", TensorIO.OUTPUT, 0), name.timestamp, parameter)
            self._inputs.setdefault(parameter.name, []).append(candidate)
            return True
        ops = self._device_names.find(name)
        io, port = TensorIO(match["io"]), int(match["port"])
        if len(ops) == 1:
            tensor = _output(ops[0], port) if io is TensorIO.OUTPUT else None
            stored = None if match["layout"] == "DefaultFormat" else match["layout"]
            layout = stored or (tensor.layout if tensor else None)
            self._keep(_Found(file, (ops[0].id, io, port), name.timestamp, tensor, layout))
        elif ops:
            alike = (f"{name.op_type}.{name.op_name}", port)
            if alike not in self._fits:
                self._fits[alike] = _names_of([Hit(op, port, name.timestamp) for op in ops])
            self._unclear(file, self._fits[alike])
        else:
            self._gathered.strange(file.path, file.damage)
        return True

    def _keep(self, candidate: _Found) -> None:
        self._found.setdefault(candidate.key, []).append(candidate)

    def _unclear(self, file: _File, fits: dict[DumpPlace, str]) -> None:
        what = f"the file's name fits {len(fits)} tensors"
        self._gathered.unclear(file.path, what, fits)

    def result(self) -> DumpIndex:
        gathered = self._gathered
        for key, group in self._found.items():
            latest = gathered.latest(group)
            gathered.keep(latest.path, key, partial(_tensor_ref, latest))
        for name, group in self._inputs.items():
            latest = gathered.latest(group)
            ref = gathered.usable(latest.path, latest.key, partial(_tensor_ref, latest))
            if ref is not None:
                gathered.graph_inputs[name] = ref
        return gathered.index()


def _tensor_ref(candidate: _Found) -> DumpTensorRef:
    header = candidate.file.header
    if header is None:
        raise candidate.file.damage or DamagedError("no header")
    if isinstance(header, NpyHeader):
        header = header.ref(
            candidate.path, candidate.key, candidate.tensor.dtype if candidate.tensor else None
        )
    op, io, port = candidate.key
    return DumpTensorRef(
        *(candidate.path, header.format, op, io, port),
        *(header.dtype, header.shape, header.offset, header.nbytes, candidate.layout),
        timestamp=candidate.timestamp,
        scale=candidate.scale if header.dtype in _WHOLE_NUMBERS else None,
        zero_point=candidate.zero_point,
    )


def _quantisation(op: Op, port: int) -> tuple[float | None, int]:
    """The scale and zero point that a TFLite op gives for an output; None without one of its own,
    or with one for each channel."""
    end = f"_{port}" if port else ""
    scale, zero = op.attrs.get(f"scale{end}"), op.attrs.get(f"zero_point{end}")
    if not (isinstance(scale, tuple) and isinstance(zero, tuple) and len(scale) == len(zero) == 1):
        return None, 0
    return (
        (scale[0], zero[0])
        if isinstance(scale[0], float) and isinstance(zero[0], int)
        else (None, 0)
    )


def _output(op: Op, port: int) -> Tensor | None:
    return op.outputs[port] if port < len(op.outputs) else None


def _names_of(hits: list[Hit]) -> dict[DumpPlace, str]:
    return {(hit.op.id, TensorIO.OUTPUT, hit.port): f"{hit.op.name}:{hit.port}" for hit in hits}


def _kind(header: NpyHeader | DumpTensorRef | None) -> object:
    """What :func:`_fitting` looks at."""
    return None if header is None else (str(header.dtype), header.shape)


def _fitting(hits: list[Hit], header: NpyHeader | DumpTensorRef) -> list[Hit]:
    """The hits whose tensor can be the file's by type and shape, as the graph says."""
    try:
        dtype = header.element_type() if isinstance(header, NpyHeader) else header.dtype
    except DamagedError:
        return []
    shape = header.shape or ()
    return [hit for hit in hits if _can_be(_output(hit.op, hit.port), dtype, shape)]


def _can_be(tensor: Tensor | None, dtype: DType | None, shape: tuple[int, ...]) -> bool:
    if tensor is None:
        return True
    if tensor.dtype not in (None, dtype):
        return False
    declared = shape if tensor.shape is None else tensor.shape
    return len(declared) == len(shape) and all(
        want is None or want == have for want, have in zip(declared, shape, strict=True)
    )


class NpyReader(DumpReader):
    """``.npy`` files named after ops or tensors; golden files of other endings lie beside them, so
    one scan takes both."""

    name = "npy"
    reads = ".npy files named after ops or tensors, or made by converters"
    endings = (NPY,)
    names_inputs = False

    def claims(self, name: str, folder: str) -> Confidence:
        """A file without a number in its name may as well be the input of a model."""
        if not name.endswith(NPY):
            return Confidence.NO
        numbered = name.removesuffix(NPY).rpartition(".")[2].isdecimal()
        return Confidence.SURE if numbered else Confidence.MAYBE

    def files_in(self, listing: FolderListing) -> list[str]:
        """All ``.npy`` files."""
        return [name for name in listing.files if name.endswith(NPY)]

    def proof(self, path: Path) -> str:
        """The shape in its header."""
        with open_dump(path) as (fd, size):
            return f"is a .npy file of shape {list(read_npy_header(fd, size).shape)}"

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """The one array; what is in the file is read with the values."""
        yield npy_tensor(str(place.path), place.file, place.folder, place.size, form.raw_type)

    def scan(self, listing: FolderListing, graph: ModelGraph, choice: DumpChoice) -> DumpIndex:
        """Both kinds of golden files by op."""
        return scan_golden_listing(listing, graph)


class GoldenReader(DumpReader):
    """Golden files with the header of a device dump."""

    name = "golden"
    reads = "{op}.{output}.{time}.pb and .quant of Caffe tools and msaccucmp's converter"
    endings = _BINARY
    names_inputs = False

    def claims(self, name: str, folder: str) -> Confidence:
        """By the number before the ending: graphs have such endings, too."""
        is_golden = name.endswith(_BINARY) and golden_ending(name) is not None
        return Confidence.SURE if is_golden else Confidence.NO

    def detect(self, listing: FolderListing) -> Iterator[FoundDump]:
        """Only what can be read: graphs have such names."""
        for dump in super().detect(listing):
            if dump.confidence is Confidence.SURE:
                yield dump

    def proof(self, path: Path) -> str:
        """The kind of its header."""
        return f"has a header of kind {look_at(path, None).whole_header().format}"

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """Its first output."""
        identity, time = identity_of(place.folder, place.stem)
        ref = or_damage(lambda: first_output(place.path))
        yield found_tensor(place.below(place.file), place.path, ref, identity, time)

    def scan(self, listing: FolderListing, graph: ModelGraph, choice: DumpChoice) -> DumpIndex:
        """Nothing where ``.npy`` files lie, whose scan takes them along."""
        npy = any(name.endswith(NPY) for name in (*listing.files, *listing.others))
        return DumpIndex() if npy else scan_golden_listing(listing, graph)
