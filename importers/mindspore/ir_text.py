"""Read MindSpore's IR as text: the ``.ir`` files of ``save_graphs`` and of dumps.

A node is ``%1(name) = Op(%para1_x, %0) ... primitive_attrs: {...}``, then a line with types,
``: (<Tensor[Float32], (2, 3)>) -> (<Tensor[Float32], (2, 3)>)``, and its full name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue, ModelGraph, Shape
from importers.kept import kept_text
from importers.mindspore.assembly import AnfNode, FunctionBody, Value, assemble
from importers.number_formats import named_dtype
from importers.source import mapped, sha256

_MAX_BYTES = 1 << 28
_ENTRY = re.compile(r"#\s*IR entry\s*:\s*@(\S+)")
_PARAMETER = re.compile(r"(%para\d+_\S*?)\s*:\s*(<.*)")
_BODY = re.compile(r"subgraph @([^\s(]+)(.*)\{\s*")
_NODE = re.compile(r"\s+(%\d+)(?:\((\S*)\))?\s*=\s*(.+)")
_RETURN = re.compile(r"\s+Return\((.*)")
_FULL_NAME = re.compile(r"\s+# Fullname with scope:\s*\((.*)\)")
_REFERENCE = re.compile(r"%[\w.\-/:$]+|@[^\s,()]+")
_LITERAL = re.compile(r"(?:I|U)\d+\((-?\d{1,20})\)")
_TYPE = re.compile(r"<(?:Ref\[)?(Tuple|List)?\[?(?:Tensor\[(\w+)\])?")
_ARGUMENT = re.compile(r"%para\d+_\S+?(?=[,)])")
_OPENING, _CLOSING = "([{<", ")]}>"


def read_ir_text(path: Path) -> ModelGraph:
    """The graph in *path*, other functions of the file as bodies.

    Raises:
        ImportFormatError: it holds no node, or a node is cut; with the line.
    """
    with mapped(path) as buffer:
        if len(buffer) > _MAX_BYTES:
            what = f"IR as text of more than {_MAX_BYTES >> 20} MiB"
            raise ImportFormatError(path, what, hint="give the ms_output_*.pb of the same graph")
        digest = sha256(buffer)
        text = buffer[:].decode("utf-8", "replace")
    reading = _Reading(path)
    for number, line in enumerate(text.split("\n"), 1):
        reading.take(line.rstrip("\r"), number)
    return assemble(reading.bodies(), path, digest, form="mindspore_ir", attrs={})


class _Reading:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._entry = ""
        self._parameters: dict[str, tuple[str, Value, bool]] = {}
        self._called: dict[str, str] = {}
        self._bodies: list[FunctionBody] = []
        self._node: AnfNode | None = None
        self._inside = False

    def bodies(self) -> list[FunctionBody]:
        """The functions read, the entry first."""
        if not any(body.nodes for body in self._bodies):
            raise ImportFormatError(self._path, "the IR has no nodes", line=1)
        self._bodies.sort(key=lambda body: body.name != self._entry)
        entry = self._bodies[0]
        for number, (name, value, is_weight) in self._parameters.items():
            where = entry.weights if is_weight else entry.inputs
            where[self._called.get(number, name)] = value
        names = {body.name for body in self._bodies}
        for body in self._bodies:
            for node in body.nodes:
                node.calls = tuple(
                    key[1:] for key in node.inputs if key.startswith("@") and key[1:] in names
                )
                node.inputs = [key for key in node.inputs if not key.startswith("@")]
        return self._bodies

    def take(self, line: str, number: int) -> None:
        """The next *line* of the file."""
        if not self._inside:
            self._take_outside(line)
        elif line.startswith("}"):
            self._inside, self._node = False, None
        elif (match := _NODE.match(line)) is not None:
            self._node = self._read_node(*match.groups(), number=number)
            self._bodies[-1].nodes.append(self._node)
        elif (match := _RETURN.match(line)) is not None:
            self._bodies[-1].outputs = [self._named(key) for key in _REFERENCE.findall(match[1])]
            self._node = None
        elif self._node is not None:
            self._take_detail(line, self._node)

    def _take_outside(self, line: str) -> None:
        if (match := _ENTRY.match(line)) is not None:
            self._entry = match[1]
        elif (match := _PARAMETER.match(line)) is not None:
            number, _, name = match[1].partition("_")
            value = next(iter(_values(match[2])), Value())
            self._parameters[number] = name, value, "has_default" in line
        elif (match := _BODY.match(line)) is not None:
            self._bodies.append(self._new_body(match[1], match[2]))
            self._inside = True

    def _new_body(self, name: str, signature: str) -> FunctionBody:
        body = FunctionBody(name)
        for argument in _ARGUMENT.findall(signature):
            body.inputs.setdefault(argument.partition("_")[2], Value())
        return body

    def _named(self, reference: str) -> str:
        """A parameter by its name; nodes by their number."""
        if not reference.startswith("%para"):
            return reference
        number, _, name = reference.partition("_")
        return self._called.setdefault(number, name)

    def _read_node(self, key: str, name: str | None, rest: str, *, number: int) -> AnfNode:
        start = rest.find("(")
        end = _closing(rest, start) if start >= 0 else -1
        if end < 0:
            raise ImportFormatError(self._path, f"the node {key} is cut", line=number)
        kind = rest[:start].strip().removeprefix("PrimFunc_")
        inputs: list[str] = []
        called, _, function = kind.partition(" ")
        if called == "call" or kind[:1] in "%@":
            inputs.append(self._named(function.strip() or kind.partition("[")[0]))
            kind = "call"
        for argument in _split(rest[start + 1 : end]):
            inputs.append(self._argument(argument, key, len(inputs)))
        attrs = _attrs(rest[end + 1 :])
        return AnfNode(key, f"{kind}-{name or key[1:]}", kind, inputs, [Value()], attrs)

    def _argument(self, argument: str, key: str, position: int) -> str:
        """What an op is given: a value by its name, or a literal of a name of its own."""
        if _REFERENCE.fullmatch(argument) is not None:
            return self._named(argument)
        own = f"{key} input {position}"
        literal = _LITERAL.fullmatch(argument)
        self._bodies[-1].literals[own] = int(literal[1]) if literal else kept_text(argument)
        return own

    def _take_detail(self, line: str, node: AnfNode) -> None:
        if (match := _FULL_NAME.match(line)) is not None:
            node.name = match[1]
        elif line.lstrip().startswith(": (<") and "->" in line and node.outputs == [Value()]:
            node.outputs = _values(line.rpartition("->")[2].strip()[1:-1]) or [Value()]


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at *start* closes; -1 where it does not. Texts in quotes are
    passed over."""
    depth, quoted = 0, False
    for at in range(start, len(text)):
        char = text[at]
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING and text[at - 1 : at + 1] != "->":
            depth -= 1
            if depth == 0:
                return at
    return -1


def _split(text: str) -> Iterator[str]:
    """The parts of *text* between commas that stand in no brackets."""
    start = at = 0
    while at < len(text):
        if text[at] in _OPENING:
            end = _closing(text, at)
            at = len(text) if end < 0 else end + 1
        elif text[at] == ",":
            yield text[start:at].strip()
            start = at = at + 1
        else:
            at += 1
    if text[start:].strip():
        yield text[start:].strip()


def _values(text: str) -> list[Value]:
    """The values of types such as ``<Tensor[Float32], (2, 3)>``, members of a tuple each."""
    values: list[Value] = []
    for part in _split(text):
        kind = _TYPE.match(part)
        if kind is None:
            continue
        if kind[1] is None:
            values.append(_value(part, kind[2]))
        else:
            values.extend(_members(part))
    return values


def _value(part: str, element: str | None) -> Value:
    if element is None:
        return Value()
    shape = re.search(r",\s*\(([^()]*)\)", part)
    return Value(named_dtype(element), _shape(shape[1]) if shape else None)


def _members(part: str) -> list[Value]:
    """Those of ``<Tuple[Tensor[Float32]*5], TupleShape((2, 4), (4), ...)>``."""
    start = part.find("TupleShape(")
    end = _closing(part, start + len("TupleShape")) if start >= 0 else -1
    if end < 0:
        return [Value()]
    shapes = list(_split(part[start + len("TupleShape(") : end]))
    kinds: list[str] = []
    for element, times in re.findall(r"Tensor\[(\w+)\](?:\*(\d{1,5}))?", part[:start]):
        kinds += [element] * int(times or 1)
    same = len(kinds) == len(shapes)
    return [
        Value(named_dtype(kinds[at]) if same else None, _shape(shape.strip("()")))
        for at, shape in enumerate(shapes)
    ]


def _shape(text: str) -> Shape | None:
    sizes = [size.strip() for size in text.split(",") if size.strip()]
    if not all(size.lstrip("-").isdecimal() and len(size) < 19 for size in sizes):
        return None
    return tuple(None if int(size) < 0 else int(size) for size in sizes)


def _attrs(text: str) -> dict[str, AttrValue]:
    start = text.find("primitive_attrs: {")
    end = _closing(text, text.find("{", start)) if start >= 0 else -1
    if end < 0:
        return {}
    inside = text[text.find("{", start) + 1 : end]
    pairs = (part.partition(": ") for part in _split(inside))
    return {key.strip(): kept_text(value.strip()) for key, colon, value in pairs if colon}
