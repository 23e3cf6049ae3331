"""Results of ``polygraphy run --save-outputs``: every output as base64 inside one JSON file.

``{"lst": [[runner, [{"outputs": {tensor: array}}, ...iterations]], ...runners]}``; an array
is ``{"array": base64 of a .npy file}``, possibly inside ``{"values": ...}``. Files of inputs,
``[{tensor: array}, ...iterations]`` or one such object, are read as well. Tensors are named as
in the ONNX model. The base64 stays in the file, which is mapped. A folder given to
``--save-outputs`` gets a file for each iteration, called by its number.
"""

from __future__ import annotations

import base64
import binascii
import json
import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from graphstore.errors import InputError
from graphstore.model import DType, DumpFormat, DumpTensorRef, ModelGraph, Reason, TensorIO
from importers.contract import Confidence
from importers.dumps.arrays.npy import NpyHeader, parse_npy_header
from importers.dumps.bare.tensor import BareTensor, Identity, found_tensor, plain
from importers.dumps.contract import DumpChoice, DumpReader, FilePlace, FoundDump, RawForm, at_step
from importers.dumps.index import (
    DamagedError,
    DumpIndex,
    DumpProblem,
    FolderListing,
    Gathering,
    TensorKey,
    merged,
    of_no_op,
    open_dump,
    or_damage,
    shown,
)
from importers.nesting import json_fault
from importers.source import read_at

LONG_TEXT = 64
"""Texts of more bytes are told by their place, names of members always as text. The
shortest ``.npy`` takes 108 bytes as base64."""

MAX_DEPTH = 64
_MAX_NAME = 1 << 16
_MAX_REST = 16 << 20
"""Bytes of JSON that may stand around the long texts."""

# Possessive: a text of a gigabyte must not leave a way back for each of its bytes.
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_MARK = re.compile(r"\0(\d{1,8})")


@dataclass(frozen=True, slots=True)
class TextPlace:
    """The bytes of a long text between its quotes, as they are in the file."""

    offset: int
    length: int


Value: TypeAlias = "dict[str, Value] | list[Value] | str | int | float | bool | TextPlace | None"
Buffer: TypeAlias = bytes | mmap.mmap


def read_places(data: Buffer) -> Value:
    """The one JSON value in *data*.

    Raises:
        DamagedError: no JSON, nested deeper than :data:`MAX_DEPTH`, or too many values;
            says at which byte.
    """
    rest = bytearray()
    places: list[TextPlace] = []
    cuts = [(0, 0)]  # up to where of the rest, and as many bytes further in the file
    at = 0
    for match in _TEXT.finditer(data):
        start, end = match.span()
        if end - start - 2 > LONG_TEXT:
            rest += data[at:start]
            rest += b'"\\u0000%d"' % len(places)
            places.append(TextPlace(start + 1, end - start - 2))
            cuts.append((len(rest), end - len(rest)))
            at = end
            if len(rest) > _MAX_REST:
                break
    if len(rest) + len(data) - at > _MAX_REST:
        raise _bad(f"more than {_MAX_REST} bytes besides its long texts", at)
    rest += data[at:]
    try:
        return _placed(json.loads(rest), places, data, MAX_DEPTH)
    except json.JSONDecodeError as error:
        place = len(error.doc[: error.pos].encode("utf-8", "surrogatepass"))
        moved = next(by for start, by in reversed(cuts) if start <= place)
        raise _bad(json_fault(error), place + moved) from None
    except (ValueError, RecursionError) as error:
        raise _bad(str(error) or f"nested deeper than {MAX_DEPTH}", 0) from None


def _placed(value: Any, places: list[TextPlace], data: Buffer, depth: int) -> Value:
    """*value* with the places of the texts that were left out."""
    if isinstance(value, str):
        mark = _MARK.fullmatch(value)
        number = int(mark[1]) if mark else len(places)
        return places[number] if number < len(places) else value
    if not isinstance(value, list | dict):
        plain: Value = value
        return plain
    if depth == 0:
        raise _bad(f"nested deeper than {MAX_DEPTH}", 0)
    if isinstance(value, list):
        return [_placed(inner, places, data, depth - 1) for inner in value]
    return {
        _name(_placed(name, places, data, depth), data): _placed(inner, places, data, depth - 1)
        for name, inner in value.items()
    }


def _name(name: Value, data: Buffer) -> str:
    if isinstance(name, TextPlace) and name.length <= _MAX_NAME:
        name = json.loads(data[name.offset - 1 : name.offset + name.length + 1])
    if not isinstance(name, str):
        raise _bad(f"a name of more than {_MAX_NAME} bytes", 0)
    return name


def _bad(what: str, at: int) -> DamagedError:
    return DamagedError(f"the JSON text is damaged: {what}", offset=at)


JSON = ".json"
_HEAD = 16_384
_TIME_OF_RUNNER = re.compile(r"-\d+/\d+/\d+-\d+:\d+:\d+$")
_ITERATION_FILE = re.compile(r"(\d{10})\.json")
_ACCURACY = re.compile(rb'\s*\{\s*"lst":\s*\[\s*\{')
"""Results of comparisons (``--save-accuracy-results``): they hold no tensors."""
_MARKS = (b'"polygraphy_class"', b'"lst"', b'"array"')


@dataclass(frozen=True, slots=True)
class Iteration:
    """One inference of one runner: where the array of each tensor lies. ``place`` counts the
    file's runners."""

    runner: str
    number: int
    arrays: Mapping[str, TextPlace | str]
    place: int = 0

    @property
    def called(self) -> str:
        """The runner, without the time in its name, and the iteration."""
        return f"{_TIME_OF_RUNNER.sub('', self.runner) or 'inputs'}.{self.number}"

    @property
    def scope(self) -> str:
        """What tells it from the first iteration of the first runner, in any file."""
        return f"{self.place}.{self.number}" if self.place or self.number else ""


def is_results(path: Path) -> bool:
    """True if the file looks like Polygraphy's JSON by its first bytes."""
    try:
        with open_dump(path) as (fd, _):
            head = read_at(fd, _HEAD, 0)
    except DamagedError:
        return False
    if _ACCURACY.match(head):
        return False
    return head.lstrip()[:1] in (b"{", b"[") and any(mark in head for mark in _MARKS)


def iteration_of(name: str) -> int | None:
    """Of which iteration a file in a folder of results is, as its *name* says."""
    match = _ITERATION_FILE.fullmatch(name)
    return int(match[1]) if match else None


def read_iterations(path: Path) -> tuple[Iteration, ...]:
    """All iterations of all runners in one file.

    Raises:
        DamagedError: no such JSON; says at which byte.
    """
    with open_dump(path) as (fd, size):
        if size == 0:
            raise DamagedError("the file is empty", offset=0)
        with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as data:
            content = read_places(data)
    iterations = tuple(_iterations(content))
    if not iterations:
        raise DamagedError("no run results in this JSON file", offset=0)
    return iterations


def _iterations(content: Value) -> Iterator[Iteration]:
    if isinstance(content, list):
        for number, arrays in enumerate(content):
            if isinstance(arrays, dict):
                yield Iteration("", number, _arrays(arrays))
    if isinstance(content, dict) and "lst" not in content:
        inputs = _arrays(content)
        if any(isinstance(place, TextPlace) for place in inputs.values()):
            yield Iteration("", 0, inputs)
    runners = content.get("lst") if isinstance(content, dict) else None
    for place, runner in enumerate(runners if isinstance(runners, list) else ()):
        if not isinstance(runner, list) or len(runner) != 2 or not isinstance(runner[1], list):
            continue
        for number, result in enumerate(runner[1]):
            outputs = result.get("outputs") if isinstance(result, dict) else None
            if isinstance(outputs, dict):
                yield Iteration(str(runner[0]), number, _arrays(outputs), place)


def _arrays(outputs: Mapping[str, Value]) -> dict[str, TextPlace | str]:
    return {name: _array(value) for name, value in outputs.items()}


def _array(value: Value) -> TextPlace | str:
    """The base64 of one array; empty if it is kept in another way."""
    for _ in range(4):
        if not isinstance(value, dict):
            break
        array = value.get("array")
        if isinstance(array, TextPlace | str):
            return array
        value = value.get("values")
    return ""


def scan_polygraphy(path: Path, graph: ModelGraph, step: int | None = None) -> DumpIndex:
    """The tensors of one JSON file by op of *graph*; of iteration *step*, by default the
    first, of the first runner.

    Raises:
        DamagedError: the file is no such JSON.
    """
    iterations = read_iterations(path)
    chosen = _chosen(iterations, step)
    scan = _Scan(graph, path)
    with open_dump(path) as (fd, _):
        for name, place in chosen.arrays.items():
            scan.add(fd, name, place)
    notes: tuple[str, ...] = ()
    if len(iterations) > 1:
        runner = f" of {shown(chosen.runner)}" if chosen.runner else ""
        note = f"{path.name}: iteration {chosen.number}{runner}, one of {len(iterations)}"
        notes = (f"{note} (divergraph convert -d {path.name} -out DIR parts them)",)
    return scan.result(notes)


def _chosen(iterations: tuple[Iteration, ...], step: int | None) -> Iteration:
    if step is None:
        return iterations[0]
    for iteration in iterations:
        if iteration.number == step and iteration.runner == iterations[0].runner:
            return iteration
    numbers = ", ".join(str(iteration.number) for iteration in iterations)
    raise DamagedError(f"no iteration {step}, there are {numbers}")


def array_refs(path: Path) -> Iterator[tuple[Iteration, str, DumpTensorRef | DamagedError]]:
    """The tensors in one JSON file, each with its iteration and name, or why there is none.

    Raises:
        DamagedError: the file is no such JSON.
    """
    iterations = read_iterations(path)
    with open_dump(path) as (fd, _):
        for iteration in iterations:
            for name, place in iteration.arrays.items():
                key = (name, TensorIO.OUTPUT, 0)
                yield iteration, name, or_damage(partial(_ref, fd, path, key, place, None))


class _Scan:
    def __init__(self, graph: ModelGraph, path: Path) -> None:
        self._path = path
        self._by_tensor: dict[str, tuple[TensorKey, DType | None]] = {}
        for op in graph.ops:
            for port, tensor in enumerate(op.outputs):
                if tensor.name and (not op.subgraph or tensor.name not in self._by_tensor):
                    key = (op.id, TensorIO.OUTPUT, port)
                    self._by_tensor[tensor.name] = (key, tensor.dtype)
        self._inputs = {tensor.name: tensor.dtype for tensor in graph.inputs}
        self._gathered = Gathering()
        self._missing: list[str] = []

    def add(self, fd: int, name: str, place: TextPlace | str) -> None:
        self._gathered.files += 1
        key_and_type = self._by_tensor.get(name)
        if key_and_type is None and name not in self._inputs:
            self._missing.append(name)
            return
        key, dtype = key_and_type or (("", TensorIO.OUTPUT, 0), self._inputs.get(name))
        ref = or_damage(partial(_ref, fd, self._path, key, place, dtype))
        if isinstance(ref, DamagedError):
            damage = DamagedError(f"tensor {shown(name)}: {ref.detail}", ref.reason)
            self._gathered.problem(self._path, damage, *key)
        elif key_and_type is None:
            self._gathered.graph_inputs[name] = ref
        else:
            self._gathered.tensors[key] = ref

    def result(self, notes: tuple[str, ...]) -> DumpIndex:
        if self._missing:
            op_names = of_no_op(sorted(self._missing), "tensor")
            notes += (f"{self._path.name}: {op_names}",)
        return self._gathered.index(notes=notes)


def _ref(
    fd: int, path: Path, key: TensorKey, place: TextPlace | str, expected: DType | None
) -> DumpTensorRef:
    if not isinstance(place, TextPlace):
        what = "a short text where the array should be" if place else "no array of numpy's"
        raise DamagedError(what, Reason.DTYPE_UNSUPPORTED)
    header = _header(fd, place)
    ref = header.ref(path, key, expected)
    form = DumpFormat.BASE64_NPY
    return replace(ref, format=form, offset=place.offset, nbytes=place.length)


def _header(fd: int, place: TextPlace) -> NpyHeader:
    first = read_at(fd, min(place.length, _HEAD), place.offset)
    text = first[: len(first) // 4 * 4]
    padding = read_at(fd, 2, place.offset + place.length - 2).count(b"=")
    size = place.length // 4 * 3 - padding
    return parse_npy_header(_decoded(text, place), size)


def _decoded(text: bytes, place: TextPlace) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise DamagedError("the text is not base64", offset=place.offset) from None


def array_bytes(fd: int, ref: DumpTensorRef) -> tuple[NpyHeader, memoryview]:
    """The ``.npy`` header of an array in a JSON file, and its data.

    Raises:
        DamagedError: it is no base64, or no ``.npy``.
    """
    place = TextPlace(ref.offset, ref.nbytes)
    data = _decoded(read_at(fd, ref.nbytes, ref.offset), place)
    header = parse_npy_header(data, len(data))
    return header, memoryview(data)[header.data_offset :]


class PolygraphyReader(DumpReader):
    """Files of results; of a folder each file is a dump, a damaged one a problem of its own."""

    name = "polygraphy"
    reads = "JSON files of Polygraphy's --save-outputs"
    whole_file = True
    inner_levels = frozenset({"step"})

    def claims(self, name: str, folder: str) -> Confidence:
        """Most JSON files are something else."""
        return Confidence.MAYBE if name.endswith(JSON) else Confidence.NO

    def is_dump(self, path: Path) -> bool:
        """By the first bytes."""
        return is_results(path)

    def files_in(self, listing: FolderListing) -> list[str]:
        """Those that begin as results do."""
        names = [name for name in listing.files if name.endswith(JSON)]
        return [name for name in names if is_results(listing.folder / name)]

    def detect(self, listing: FolderListing) -> Iterator[FoundDump]:
        """Each file, with its iteration where its name tells it."""
        reason = "JSON that holds arrays as Polygraphy writes them"
        for name in self.files_in(listing):
            dump = FoundDump(listing.folder / name, self.name, Confidence.SURE, reason, 1)
            yield at_step(dump, iteration_of(name))

    def parts(self, dump: FoundDump) -> Iterator[FoundDump]:
        """A file once for each iteration of its first runner."""
        try:
            iterations = read_iterations(dump.path)
        except DamagedError:
            iterations = ()  # who reads it says what is wrong
        numbers = [
            iteration.number for iteration in iterations if iteration.runner == iterations[0].runner
        ]
        several = len(numbers) > 1
        yield from (at_step(dump, number) for number in numbers) if several else (dump,)

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """The tensors of all iterations of all runners."""
        for iteration, name, ref in array_refs(place.path):
            scope = "/".join(filter(None, (place.scope, iteration.scope)))
            identity = Identity(scope, "", plain(name), TensorIO.OUTPUT, 0)
            inside = f"{iteration.called}/{name}" if iteration.scope else name
            full = place.below(f"{place.stem}/{inside}")
            tensor = found_tensor(full, place.path, ref, identity, model_name=name)
            tensor.iteration = iteration.called
            yield tensor

    def scan(self, listing: FolderListing, graph: ModelGraph, choice: DumpChoice) -> DumpIndex:
        """Of files that are called by their iterations one is taken: that of the step chosen,
        else the first."""
        indexes: list[DumpIndex] = []
        names = self.files_in(listing)
        numbers = {number: name for name in names if (number := iteration_of(name)) is not None}
        step = choice.step
        if step is not None and numbers and step not in numbers:
            there = ", ".join(map(str, sorted(numbers)))
            raise InputError(f"no iteration {step}, there are {there}", where=str(listing.folder))
        iteration = min(numbers, default=None) if step is None else step
        for name in names:
            path = listing.folder / name
            number = iteration_of(name)
            if number != iteration and number is not None:
                continue
            try:
                one = scan_polygraphy(path, graph, step if number is None else None)
            except DamagedError as damage:
                problem = DumpProblem(path, None, None, None, damage.reason, damage.detail)
                indexes.append(DumpIndex(problems=(problem,), files=1))
                continue
            if number is not None and len(numbers) > 1:
                note = f"iteration {number}, one of {len(numbers)} (--step)"
                one = replace(one, notes=(*one.notes, note))
            indexes.append(one)
        return merged(indexes)
