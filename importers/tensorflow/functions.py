"""Which functions of a graph's library its ops call, and how their arguments meet the op's.

Sources: tensorflow/core/ops/functional_ops.cc (what If, While, Case, ... pass on) and
tensorflow/core/framework/function.proto (how bodies name tensors).

How many outputs an op has, and of which types, a MetaGraphDef says; a bare GraphDef does not.
For these the table ``op_outputs.txt`` says what matters: ops with no, several or optional
outputs, and ops whose output type is not their usual type attribute. Any other op has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files

from importers.proto.messages import tf_graph_pb2 as pb


@dataclass(frozen=True, slots=True)
class OutputArg:
    """One declared output: of a fixed ``dtype``, or of the type in the attribute ``type``.

    ``name`` is what bodies of functions call it, if known. ``count`` names the attribute with
    the number of such outputs; ``types`` one that lists a type for each. ``default`` is the type
    if the attribute is not there.
    """

    dtype: int = 0
    type: str = ""
    name: str = field(default="", compare=False, kw_only=True)
    count: str = ""
    types: str = ""
    default: int = 0


def _parsed(word: str) -> OutputArg:
    if word.startswith("@"):
        return OutputArg(types=word[1:])
    count, _, rest = word.rpartition("*")
    name, _, default = rest.partition("=")
    if f"DT_{name}" in pb.DataType.DESCRIPTOR.values_by_name:
        return OutputArg(dtype=_number_of(name), count=count)
    return OutputArg(type=name, count=count, default=_number_of(default) if default else 0)


def _number_of(name: str) -> int:
    return pb.DataType.Value(f"DT_{name}")


@cache
def known() -> Mapping[str, tuple[OutputArg, ...]]:
    """Declared outputs by op, from the table."""
    table: dict[str, tuple[OutputArg, ...]] = {}
    for outputs, ops in _lines("op_outputs.txt"):
        args = tuple(_parsed(word) for word in outputs if word != "-")
        table.update(dict.fromkeys(ops, args))
    for names, ops in _lines("op_output_names.txt"):
        for op in ops:
            args = table.get(op, ())
            if len(args) == len(names):
                pairs = zip(args, names, strict=True)
                table[op] = tuple(replace(arg, name=name) for arg, name in pairs)
    return table


def _lines(file: str) -> Iterator[tuple[list[str], list[str]]]:
    """What stands before and behind the colon of each line, in words."""
    text = files("importers.tensorflow").joinpath(file).read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            before, _, right = line.partition(":")
            yield before.split(), right.split()


_USUAL = ("dtype", "T", "DstT", "out_type", "output_type", "Tout", "element_dtype", "Tparams")


def declared(ops: pb.OpList) -> dict[str, tuple[OutputArg, ...]]:
    """The outputs of the ops a MetaGraphDef defines, stronger than the table."""
    return {op.name: declared_outputs(op) for op in ops.op}


def declared_outputs(op: pb.OpDef) -> tuple[OutputArg, ...]:
    """The outputs *op* is defined with."""
    defaults = {attr.name: attr.default_value.type for attr in op.attr}
    return tuple(
        OutputArg(
            dtype=arg.type,
            type=arg.type_attr,
            count=arg.number_attr,
            types=arg.type_list_attr,
            default=defaults.get(arg.type_attr, 0),
            name=arg.name,
        )
        for arg in op.output_arg
    )


def output_types(
    node: pb.NodeDef,
    args: tuple[OutputArg, ...] | None,
    limit: int,
    attr_values: Mapping[str, pb.AttrValue] | None = None,
) -> list[int]:
    """The type number of each output of *node*, 0 where unknown; at most *limit* of them.

    *attr_values* are the attributes a caller gives the function *node* is in.
    """
    caller = attr_values or {}
    if args is None:
        attr_types = (_attr_type(node, name, caller) for name in _USUAL)
        return [next((number for number in attr_types if number), 0)]
    types: list[int] = []
    for arg in args:
        if arg.types:
            types += node.attr[arg.types].list.type if arg.types in node.attr else []
            continue
        count = _number(node, arg.count) if arg.count else 1
        dtype = arg.dtype or _attr_type(node, arg.type, caller) or arg.default
        types += [dtype] * min(count, limit)
    return types[:limit]


def output_port(
    node: pb.NodeDef, args: tuple[OutputArg, ...] | None, name: str, index: int
) -> int | None:
    """The port of element *index* of the output called *name*; None if there is no such one."""
    if args is None or len(args) == 1:
        return index
    port = 0
    for arg in args:
        if arg.name == name:
            return port + index
        if arg.types:
            port += len(node.attr[arg.types].list.type) if arg.types in node.attr else 0
        else:
            port += _number(node, arg.count) if arg.count else 1
    return None


def _number(node: pb.NodeDef, attr: str) -> int:
    return max(node.attr[attr].i, 0) if attr in node.attr else 1


def _attr_type(node: pb.NodeDef, attr: str, attr_values: Mapping[str, pb.AttrValue]) -> int:
    if attr not in node.attr:
        return 0
    value = node.attr[attr]
    if value.WhichOneof("value") == "placeholder" and value.placeholder in attr_values:
        value = attr_values[value.placeholder]
    return value.type


Attrs = Mapping[str, pb.AttrValue]


@dataclass(frozen=True, slots=True)
class CallSite:
    """One function an op calls.

    ``first`` is the op's input that the function's first argument takes, None where arguments
    do not come from inputs one by one. ``feeds`` is true if its results are the op's outputs.
    """

    role: str
    function: str
    first: int | None = None
    feeds: bool = False
    skip: int = 0
    """Leading arguments that come from no input (the counter of For)."""
    attrs: Attrs = field(default_factory=dict)


# The op's input that the first argument takes, whether results are outputs, arguments skipped.
_PLAIN, _BRANCH, _DECIDES, _LOOSE = (0, True, 0), (1, True, 0), (0, False, 0), (None, False, 0)
_CONVENTIONS: Mapping[tuple[str, str], tuple[int | None, bool, int]] = {
    ("PartitionedCall", "f"): _PLAIN,
    ("StatefulPartitionedCall", "f"): _PLAIN,
    ("TPUPartitionedCall", "f"): _PLAIN,
    ("BatchFunction", "f"): _PLAIN,
    ("XlaLaunch", "function"): _LOOSE,
    ("RemoteCall", "f"): _BRANCH,  # the target device comes first
    ("SymbolicGradient", "f"): _DECIDES,
    ("If", "then_branch"): _BRANCH,
    ("If", "else_branch"): _BRANCH,
    ("Case", "branches"): _BRANCH,
    ("While", "cond"): _DECIDES,
    ("While", "body"): _PLAIN,
    ("For", "body"): (3, True, 1),
}


class Library:
    """The functions of a graph by name; *nodes* outside may call them as ops of their own."""

    def __init__(self, functions: Iterable[pb.FunctionDef]) -> None:
        self._functions = {function.signature.name: function for function in functions}
        self._called: set[str] = set()
        self.outputs: dict[str, tuple[OutputArg, ...]] = {
            name: declared_outputs(function.signature) for name, function in self._functions.items()
        }

    def find(self, name: str) -> pb.FunctionDef | None:
        """The function of that name."""
        return self._functions.get(name)

    def calls(self, node: pb.NodeDef) -> Iterator[CallSite]:
        """The functions *node* calls, in the order of its attributes (If: then before else)."""
        if node.op in self._functions:
            self._called.add(node.op)
            yield CallSite("f", node.op, 0, feeds=True, attrs=node.attr)
        kind = node.op.removeprefix("_").removeprefix("Stateless")
        function_attrs = [(name, value) for name, value in node.attr.items() if _is_call(value)]
        for name, value in sorted(
            function_attrs, key=lambda item: (item[0] == "else_branch", item[0])
        ):
            one = value.WhichOneof("value") == "func"
            functions = [value.func] if one else value.list.func
            for at, function in enumerate(functions):
                if function.name in self._functions:
                    self._called.add(function.name)
                    how = _CONVENTIONS.get((kind, name)) or _CONVENTIONS.get((node.op, name))
                    role = name if one else f"{name}_{at}"
                    yield CallSite(role, function.name, *(how or _LOOSE), function.attr)

    def uncalled(self) -> list[str]:
        """The functions nothing called."""
        return sorted(self._functions.keys() - self._called)


def _is_call(value: pb.AttrValue) -> bool:
    kind = value.WhichOneof("value")
    return kind == "func" or (kind == "list" and bool(value.list.func))


def filled_in(value: pb.AttrValue, attrs: Attrs) -> pb.AttrValue:
    """*value*, or what the caller gives for the placeholder it is."""
    if value.WhichOneof("value") == "placeholder" and value.placeholder in attrs:
        return attrs[value.placeholder]
    return value
