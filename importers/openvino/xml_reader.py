"""Read an OpenVINO ``.xml`` in one pass, with the line of everything that is wrong with it.

Expat reads; a document type is refused, so there are no entities to expand or to fetch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn
from xml.parsers import expat

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue, DType, Shape
from importers.kept import kept_list, kept_text
from importers.proto.text_reader import Buffer

HINT = "it was cut, damaged or changed by hand; save the model again"
MIN_VERSION = 10
"""Versions 10 and 11 have named tensors and opsets; older ones are of other tools."""

_AT_ONCE = 1 << 20
_MAX_DEPTH = 256
"""Elements inside elements: a body takes four, and bodies are seldom three deep."""
MAX_RANK = 256
_MAX_DIGITS = 18
_NUMBER = re.compile(r"-?\d+")
_NAMES = re.compile(r"(?:[^,\\]|\\.)+", re.DOTALL)
_BODIES = frozenset({"body", "then_body", "else_body"})
_PORT_MAPS = {
    "port_map": "body",
    "then_port_map": "then_body",
    "else_port_map": "else_body",
}


def read_net(buffer: Buffer, path: Path) -> IrNet:
    """The net in *buffer*, the content of *path*.

    Raises:
        ImportFormatError: no XML, no net, of too old a version, or not what a net is.
    """
    return _Reader(path).read(buffer)


class _Reader:
    """Keeps the nets and layers that are open while expat reports elements."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._tags: list[str] = []
        self._nets: list[IrNet] = []
        self._layers: list[IrLayer] = []
        self._port: tuple[int, str, tuple[str, ...], int] | None = None
        self._dims: list[int | None] | None = None
        self._texts: list[str] = []
        self._whole: IrNet | None = None

    def read(self, buffer: Buffer) -> IrNet:
        try:
            for start in range(0, len(buffer), _AT_ONCE):
                self._parser.Parse(bytes(buffer[start : start + _AT_ONCE]), False)
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            what = f"damaged XML: {expat.ErrorString(error.code)}"
            raise ImportFormatError(
                self._path, what, line=error.lineno, column=error.offset + 1, hint=HINT
            ) from error
        except (ValueError, LookupError) as error:  # an encoding that Python does not know
            self._fail(f"damaged XML: {error}")
        if self._whole is None:
            self._fail("the XML holds no net")
        return self._whole

    def _fail(self, what: str, line: int | None = None) -> NoReturn:
        line = self._parser.CurrentLineNumber if line is None else line
        raise ImportFormatError(self._path, what, line=line, hint=HINT)

    def _doctype(self, *_: object) -> None:
        self._fail("a document type, which no OpenVINO model has: it could define entities")

    def _start(self, tag: str, attrs: dict[str, str]) -> None:
        above = self._tags[-1] if self._tags else ""
        self._tags.append(tag)
        if len(self._tags) > _MAX_DEPTH:
            self._fail(f"elements nested deeper than {_MAX_DEPTH}")
        if not above:
            self._begin_net(tag, attrs)
        elif "rt_info" in self._tags[:-1]:
            self._note(tag, attrs)
        elif (above, tag) == ("layers", "layer"):
            self._begin_layer(attrs)
        elif (above, tag) == ("edges", "edge"):
            self._edge(attrs)
        elif (begin := _IN_LAYERS.get((above, tag))) is not None:
            if not self._layers:
                self._fail(f"<{tag}> outside of a layer")
            begin(self, attrs)

    def _end(self, tag: str) -> None:
        self._tags.pop()
        above = self._tags[-1] if self._tags else ""
        if tag == "dim" and self._dims is not None:
            self._dims.append(self._dim("".join(self._texts)))
        elif tag == "port" and self._port is not None and above in ("input", "output"):
            self._end_port(above)
        elif tag == "layer" and above == "layers":
            self._end_layer()
        elif tag in _BODIES and above == "layer":
            body = self._nets.pop()
            if self._layers[-1].bodies.setdefault(tag, body) is not body:
                self._fail(f"the layer {self._layers[-1].name!r} has two of <{tag}>")
        elif not above:
            self._whole = self._nets.pop()

    def _text(self, text: str) -> None:
        if self._tags and self._tags[-1] == "dim":
            self._texts.append(text)

    def _begin_net(self, tag: str, attrs: Mapping[str, str]) -> None:
        if tag != "net":
            self._fail(f"an XML page of <{tag}>, not an OpenVINO <net>")
        version = self._number(attrs, "version", lowest=0)
        if version < MIN_VERSION:
            self._fail(
                f"an OpenVINO model of version {version}; {MIN_VERSION} and later ones are read"
            )
        self._nets.append(IrNet(attrs.get("name", ""), version))

    def _begin_layer(self, attrs: Mapping[str, str]) -> None:
        layer = IrLayer(
            self._number(attrs, "id", lowest=0),
            attrs.get("name", ""),
            attrs.get("type", ""),
            attrs.get("version", ""),
            self._parser.CurrentLineNumber,
        )
        if not layer.type:
            self._fail(f"the layer {layer.name!r} has no type")
        self._layers.append(layer)

    def _end_layer(self) -> None:
        layer, net = self._layers.pop(), self._nets[-1]
        other = net.layers.setdefault(layer.id, layer)
        if other is not layer:
            self._fail(f"the layer of line {other.line} has the id {layer.id}, too", layer.line)

    def _begin_body(self, _attrs: Mapping[str, str]) -> None:
        self._nets.append(IrNet(self._layers[-1].name, self._nets[-1].version))

    def _data(self, attrs: Mapping[str, str]) -> None:
        self._layers[-1].data.update(attrs)

    def _note(self, tag: str, attrs: Mapping[str, str]) -> None:
        """What the tools noted of a layer, or of the whole net: names and values, nested."""
        at = self._tags.index("rt_info")
        facts: dict[str, str] | None = None  # what is said of a body is not kept
        if at == 1:
            facts = self._nets[-1].facts
        elif self._tags[at - 1] == "layer" and self._layers:
            facts = self._layers[-1].notes
        name = attrs.get("name", "") if tag == "attribute" else "/".join(self._tags[at + 1 :])
        if facts is not None and name and "value" in attrs:
            facts.setdefault(name, attrs["value"])

    def _begin_port(self, attrs: Mapping[str, str]) -> None:
        names = tuple(_unescaped(match[0]) for match in _NAMES.finditer(attrs.get("names", "")))
        self._port = (
            self._number(attrs, "id", lowest=0),
            attrs.get("precision", ""),
            names,
            self._parser.CurrentLineNumber,
        )
        self._dims = []

    def _end_port(self, above: str) -> None:
        assert self._port is not None
        number, precision, names, line = self._port
        if self._dims is not None and len(self._dims) > MAX_RANK:
            self._fail(f"a tensor of {len(self._dims)} dimensions", line)
        dims = tuple(self._dims) if self._dims else None
        layer = self._layers[-1]
        ports = layer.inputs if above == "input" else layer.outputs
        ports.append(Port(number, precision, names, dims, line))
        self._port = self._dims = None

    def _begin_dim(self, _attrs: Mapping[str, str]) -> None:
        self._texts = []

    def _edge(self, attrs: Mapping[str, str]) -> None:
        source = (
            self._number(attrs, "from-layer", lowest=0),
            self._number(attrs, "from-port", lowest=0),
        )
        target = (
            self._number(attrs, "to-layer", lowest=0),
            self._number(attrs, "to-port", lowest=0),
        )
        self._nets[-1].wires.append(Wire(source, target, self._parser.CurrentLineNumber))

    def _body_port(self, attrs: Mapping[str, str]) -> None:
        role = _PORT_MAPS[self._tags[-2]]
        self._layers[-1].ports.setdefault(role, []).append(
            BodyPort(
                self._number(attrs, "external_port_id", lowest=-1),
                self._number(attrs, "internal_layer_id", lowest=0),
                self._tags[-1] == "input",
                self._parser.CurrentLineNumber,
            )
        )

    def _number(self, attrs: Mapping[str, str], name: str, *, lowest: int) -> int:
        number = whole_number(attrs.get(name, ""))
        if number is None or number < lowest:
            message = "has no" if name not in attrs else f"has {attrs[name][:40]!r} as its"
            self._fail(f"<{self._tags[-1]}> {message} {name}")
        return number

    def _dim(self, text: str) -> int | None:
        number = whole_number(text.strip())
        if number is None:
            self._fail(f"{text.strip()[:40]!r} is no dimension")
        return number if number >= 0 else None


def _unescaped(name: str) -> str:
    return name.replace("\\,", ",")


def whole_number(text: str) -> int | None:
    """The number *text* is; None for what is none, or larger than any file or dimension."""
    if not text.isascii() or len(text) > _MAX_DIGITS or not _NUMBER.fullmatch(text):
        return None
    return int(text)


_IN_LAYERS: dict[tuple[str, str], Callable[[_Reader, Mapping[str, str]], None]] = {
    **{("layer", tag): _Reader._begin_body for tag in _BODIES},
    ("layer", "data"): _Reader._data,
    ("input", "port"): _Reader._begin_port,
    ("output", "port"): _Reader._begin_port,
    ("port", "dim"): _Reader._begin_dim,
    **{(tag, kind): _Reader._body_port for tag in _PORT_MAPS for kind in ("input", "output")},
}
"""What begins in a layer, by the tag around it and its own; anything else is passed over."""


# What an OpenVINO ``.xml`` says, as plain values: nets of layers, ports, edges and bodies.


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a layer; ``dims`` is None where the file gives none: a scalar, or a
    tensor of any rank."""

    id: int
    precision: str
    names: tuple[str, ...]
    dims: tuple[int | None, ...] | None
    line: int


class Wire(NamedTuple):
    """An edge from an output to an input, both as (layer, port)."""

    source: tuple[int, int]
    target: tuple[int, int]
    line: int


class BodyPort(NamedTuple):
    """Port *outer* of a layer stands for the Parameter or Result *inner* of its body."""

    outer: int
    inner: int
    is_input: bool
    line: int


@dataclass(slots=True)
class IrLayer:
    """One layer; ``bodies`` and ``ports`` (which ports enter and leave a body) go by role:
    ``body``, ``then_body``, ``else_body``."""

    id: int
    name: str
    type: str
    version: str
    line: int
    data: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    bodies: dict[str, IrNet] = field(default_factory=dict)
    ports: dict[str, list[BodyPort]] = field(default_factory=dict)


@dataclass(slots=True)
class IrNet:
    """A net or the body of a layer; ``facts`` is what the net says of itself."""

    name: str
    version: int
    layers: dict[int, IrLayer] = field(default_factory=dict)
    wires: list[Wire] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)


# Element types, shapes and attributes as OpenVINO writes them, as plain values.


_TYPES = """
    f16=float16 f32=float32 f64=float64 bf16=bfloat16 fp16=float16 fp32=float32 fp64=float64
    i4=int4 i8=int8 i16=int16 i32=int32 i64=int64 u1=uint1 u2=uint2 u4=uint4 u8=uint8 u16=uint16
    u32=uint32 u64=uint64 bin=uint1 bool=bool boolean=bool string=string
    f8e4m3=float8_e4m3fn f8e5m2=float8_e5m2 f8e8m0=float8_e8m0 f4e2m1=float4_e2m1
"""
_DTYPES = {name: DType(dtype) for name, dtype in (pair.split("=") for pair in _TYPES.split())}
_FLOAT = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|-?inf|nan")
_MAX_LIST = 1 << 16  # characters; a longer list is a table


def dtype_of(name: str) -> DType | None:
    """The type called *name* (``f32``, ``FP32``, ``boolean``); None if unknown or not settled."""
    return _DTYPES.get(name.strip().lower())


def shape_of(text: str) -> Shape | None:
    """The shape written *text* (``?,3,1..5``); None for one of any rank or what is no shape."""
    if text.strip() == "...":
        return None
    dims = [part.strip() for part in text.split(",")] if text.strip() else []
    if len(dims) > MAX_RANK:
        return None
    numbers = [whole_number(dim) for dim in dims]
    return tuple(dim if dim is not None and dim >= 0 else None for dim in numbers)


def nbytes_of(dtype: DType | None, shape: Shape | None) -> int | None:
    """The bytes a constant takes; None if that is not known."""
    bits = None if dtype is None else dtype.bits
    if bits is None or shape is None or None in shape:
        return None
    nbytes = (math.prod(dim for dim in shape if dim is not None) * bits + 7) // 8
    return nbytes if nbytes < 1 << 63 else None


def value_of(text: str) -> AttrValue:
    """An attribute: a truth, a number, a list of them with commas, or the text itself."""
    if "," in text and len(text) <= _MAX_LIST:
        parts = [_number(part.strip()) for part in text.split(",")]
        if all(part is not None for part in parts):
            return kept_list([part for part in parts if part is not None])
    if text in ("true", "false"):
        return text == "true"
    number = _number(text)
    return kept_text(text) if number is None else number


def _number(text: str) -> int | float | None:
    integer = whole_number(text)
    if integer is not None:
        return integer
    return float(text) if len(text) < 40 and _FLOAT.fullmatch(text) else None


def names_in(text: str) -> tuple[str, ...]:
    """The names in a list with commas, in their order, each once."""
    return tuple(dict.fromkeys(name for name in (part.strip() for part in text.split(",")) if name))
