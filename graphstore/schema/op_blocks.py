"""Ops as compressed blocks: their lossless form, which columns alone cannot hold.

A block is the compressed text of up to BLOCK ops that follow each other in the file: a line of
JSON with one list a field, then a line of JSON with the attributes of each op. Producers
are written as how far before their consumer they are in the file, and names of tensors only
where they do not follow, so that layers that repeat look alike and take almost no space.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from graphstore.model import AttrValue, DType, InputRef, Op, Shape, Tensor, TensorOrigin, TensorRef
from graphstore.schema.codec import attrs_text, attrs_value, dumps
from graphstore.schema.output_columns import OutputColumns, Spec
from graphstore.traverse.edge_columns import EdgeColumns

BLOCK = 256
_LEVEL = 3

_SHARED_ATTRS = 4096
_DTYPES: dict[str | None, DType | None] = {None: None} | {dtype.value: dtype for dtype in DType}
"""Asking the enum for a member takes five times as long."""


def op_blocks(
    ops: Sequence[Op], edges: EdgeColumns, outputs: OutputColumns
) -> Iterator[tuple[bytes, bytes]]:
    """(text, the text compressed) of each block of *ops*; *edges* and *outputs* are those of the
    graph."""
    sources = _Sources(edges, ops)
    texts: dict[int, str] = {}
    for first in range(0, len(ops), BLOCK):
        if len(texts) > _SHARED_ATTRS:
            texts.clear()
        head = _head(ops[first : first + BLOCK], first, sources, outputs)
        text = "\n".join([head, *attrs_of(ops[first : first + BLOCK], texts)]).encode("ascii")
        yield text, zlib.compress(text, _LEVEL)


class _Sources:
    """How far before an op the ops are that feed it."""

    def __init__(self, edges: EdgeColumns, ops: Sequence[Op]) -> None:
        targets = edges.targets[: edges.data]
        self._start = np.searchsorted(targets, np.arange(len(ops) + 1)).astype(np.int32)
        self._distances = targets - edges.sources[: edges.data]
        self._inputs = edges.inputs
        special = edges.outputs[: edges.data] != 0
        special[[edge for edge in edges.own_names if edge < edges.data]] = True
        before = np.concatenate(([0], np.cumsum(special, dtype=np.int32)))
        # not if one takes another output than the first, or gives it a name of its own
        self._says_all = np.diff(before[self._start]) == 0
        self._says_all[edges.unfed] = False
        self._ops = ops

    def inputs(self, first: int, until: int) -> list[Any]:
        """The inputs of ops as a block has them; of most, distances say it all."""
        start = self._start[first : until + 1]
        ends = pairwise((start - start[0]).tolist())
        distances: list[int] = self._distances[start[0] : start[-1]].tolist()
        inputs: list[Any] = [distances[low:high] or 0 for low, high in ends]
        for place in np.flatnonzero(~self._says_all[first:until]).tolist():
            low, high = self._start[first + place : first + place + 2].tolist()
            positions = self._inputs[low:high].tolist()
            by_position = dict(zip(positions, self._distances[low:high].tolist(), strict=True))
            inputs[place] = _inputs(self._ops[first + place], first + place, self._ops, by_position)
        return inputs


def attrs_of(ops: Sequence[Op], texts: dict[int, str]) -> list[str]:
    """The attributes of each of *ops*, as JSON; those that several share are written once, and
    kept in *texts* by where they are, for further ops of their graph."""
    for op in ops:
        if id(op.attrs) not in texts:
            texts[id(op.attrs)] = attrs_text(op.attrs)
    return [texts[id(op.attrs)] for op in ops]


def _head(part: Sequence[Op], first: int, sources: _Sources, outputs: OutputColumns) -> str:
    texts, specs = _outputs(outputs, first, first + len(part))
    fields = [
        [op.id for op in part],
        [None if op.name == op.id else op.name for op in part],
        [op.type for op in part],
        sources.inputs(first, first + len(part)),
        [op.control_inputs or 0 for op in part],
        texts,
        specs,
        [op.subgraph or 0 for op in part],
        [op.owns or 0 for op in part],
        [op.original_names for op in part],
        [op.sequence - number for number, op in enumerate(part, start=first)],
    ]
    return dumps(fields)


def _inputs(op: Op, number: int, ops: Sequence[Op], distances: Mapping[int, int]) -> object:
    """0 for none; for each None; a distance (output 0), [distance, output]; or with names.

    *distances* are those of the inputs that ops of the graph feed.
    """
    inputs: list[object] = []
    for position, ref in enumerate(op.inputs):
        if ref is None:
            inputs.append(None)
            continue
        producer = ref.producer
        if producer is None:
            inputs.append([ref.tensor])
            continue
        distance, port = distances.get(position), producer.port
        if distance is not None:
            outputs = ops[number - distance].outputs
            if 0 <= port < len(outputs) and outputs[port].name == ref.tensor:
                inputs.append([distance, port] if port else distance)
                continue
        inputs.append([ref.tensor, producer.op, port])
    return inputs or 0


def _outputs(columns: OutputColumns, first: int, until: int) -> tuple[list[list[Any]], list[Spec]]:
    """The outputs of each of some ops, and the specs whose numbers they begin with: a number, or a
    list with name and origin where there are any."""
    low, high = int(columns.start[first]), int(columns.start[until])
    number_of: dict[int, int] = {}
    codes = columns.specs.codes[low:high].tolist()
    outputs: list[Any] = [number_of.setdefault(code, len(number_of)) for code in codes]
    names, origins = columns.names[low:high], columns.origins[low:high]
    if any(names) or any(origins):
        outputs = list(map(_output, outputs, names, origins))
    ends = (columns.start[first : until + 1] - low).tolist()
    by_op = [outputs[begin:end] for begin, end in pairwise(ends)]
    return by_op, [columns.specs.values[code] for code in number_of]


def _output(spec: int, name: str | None, origin: TensorOrigin | None) -> object:
    if origin is not None:
        return [spec, 0 if name is None else name, _origin_list(origin)]
    return spec if name is None else [spec, name]


def _origin_list(origin: TensorOrigin) -> list[object]:
    return [origin.op, origin.port, origin.layout, origin.dtype, origin.shape]


def _origin_value(read: list[Any]) -> TensorOrigin:
    op, port, layout, dtype, shape = read
    return TensorOrigin(op, port, layout, _DTYPES[dtype], _shape(shape))


def _shape(read: list[int | None] | None) -> Shape | None:
    return None if read is None else tuple(read)


def ops_of_blocks(blocks: Sequence[bytes]) -> Iterator[Op]:
    """The ops of all *blocks* of a graph, in file order."""
    reader = OpReader(lambda first: blocks[first // BLOCK])
    for number in range(len(blocks)):
        yield from reader.ops(number * BLOCK)


class OpReader:
    """Ops from their blocks; *block* gives the compressed one that starts at a place.

    Ops share what is equal: references to a tensor, shapes, attributes.
    """

    def __init__(self, block: Callable[[int], bytes]) -> None:
        self._block = block
        self._read: dict[int, _Block] = {}
        self._first_refs: dict[int, InputRef] = {}
        self._other_refs: dict[tuple[int, int], InputRef] = {}
        self._attrs: dict[str, Mapping[str, AttrValue]] = {}

    def ops(self, first: int) -> Iterator[Op]:
        """All ops of the block that starts at *first*."""
        yield from self._ops_of(first, range(len(self._block_of(first).ids)))
        del self._read[first]  # its references are kept

    def op(self, number: int) -> Op:
        """The op at a place of the file."""
        return next(self._ops_of(number - number % BLOCK, [number % BLOCK]))

    def needed(self, number: int) -> set[int]:
        """The places at which the blocks start that reading an op takes, beside its own."""
        first = number - number % BLOCK
        blocks = set()
        for one in self._block_of(first).inputs[number - first] or ():
            distance = one[0] if isinstance(one, list) else one
            if isinstance(distance, int):
                source = number - distance
                blocks.add(source - source % BLOCK)
        return blocks - {first}

    def _ops_of(self, first: int, places: Iterable[int]) -> Iterator[Op]:
        read = self._block_of(first)
        for at in places:
            op, name, originals = read.ids[at], read.names[at], read.originals[at]
            number = first + at
            yield Op(
                op,
                op if name is None else name,
                read.types[at],
                tuple([self._input(one, number) for one in read.inputs[at] or ()]),
                tuple(read.control[at] or ()),
                tuple(
                    [self._output(read, number, at, port) for port in range(len(read.outputs[at]))]
                ),
                self._attrs_value(read.attrs[at]),
                read.subgraphs[at] or "",
                tuple(read.owns[at] or ()),
                None if originals is None else tuple(originals),
                read.sequence[at] + number,
            )

    def _block_of(self, first: int) -> _Block:
        read = self._read.get(first)
        if read is None:
            head, *attrs = zlib.decompress(self._block(first)).decode("ascii").split("\n")
            fields = json.loads(head)
            read = self._read[first] = _Block(attrs, *fields)
            kinds: dict[str, str] = {}
            read.types[:] = [kinds.setdefault(kind, kind) for kind in read.types]
            read.specs[:] = [
                (_DTYPES[dtype], _shape(shape), layout) for dtype, shape, layout in fields[6]
            ]
        return read

    def _attrs_value(self, text: str) -> Mapping[str, AttrValue]:
        attr = self._attrs.get(text)
        if attr is None:
            if len(self._attrs) > _SHARED_ATTRS:
                self._attrs.clear()
            attr = self._attrs[text] = attrs_value(text)
        return attr

    def _output(self, read: _Block, number: int, at: int, port: int) -> Tensor:
        one = read.outputs[at][port]
        tensor = self._ref(number, port).tensor
        if isinstance(one, int):
            dtype, shape, layout = read.specs[one]
            return Tensor(tensor, dtype, shape, layout)
        origin = _origin_value(one[2]) if len(one) > 2 else None
        dtype, shape, layout = read.specs[one[0]]
        return Tensor(tensor, dtype, shape, layout, origin)

    def _input(self, one: Any, number: int) -> InputRef | None:
        if isinstance(one, int):
            return self._first_refs.get(number - one) or self._ref(number - one, 0)
        if one is None:
            return None
        if isinstance(one[0], int):
            return self._ref(number - one[0], one[1])
        tensor, *producer = one
        return InputRef(tensor, TensorRef(*producer) if producer else None)

    def _ref(self, number: int, port: int) -> InputRef:
        """What reads an output; one value for all readers."""
        known_ref = self._other_refs.get((number, port)) if port else self._first_refs.get(number)
        if known_ref is not None:
            return known_ref
        at = number % BLOCK
        read = self._block_of(number - at)
        op, one = read.ids[at], read.outputs[at][port]
        name = one[1] if isinstance(one, list) and one[1] != 0 else f"{op}:{port}"
        ref = InputRef(name, TensorRef(op, port))
        if port:
            self._other_refs[number, port] = ref
        else:
            self._first_refs[number] = ref
        return ref


@dataclass(frozen=True, slots=True)
class _Block:
    """The fields of a block, each with a value for every op; see :func:`_head`."""

    attrs: list[str]
    ids: list[str]
    names: list[Any]
    types: list[str]
    inputs: list[Any]
    control: list[Any]
    outputs: list[list[Any]]
    specs: list[Spec]
    subgraphs: list[Any]
    owns: list[Any]
    originals: list[Any]
    sequence: list[int]
