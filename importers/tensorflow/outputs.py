"""How many outputs a TensorFlow op has, and of which types.

A MetaGraphDef carries the definitions of its ops; a bare GraphDef does not. For these the
table ``op_outputs.txt`` says what matters: ops with no, several or optional outputs, and ops
whose output type is not their usual type attribute. Any other op has one output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from importers.protos import tf_graph_pb2 as pb


@dataclass(frozen=True, slots=True)
class OutputArg:
    """One declared output: of a fixed ``dtype``, or of the type in the attribute ``type``.

    ``count`` names the attribute with the number of such outputs; ``types`` one that lists
    a type for each. ``default`` is the type if the attribute is not there.
    """

    dtype: int = 0
    type: str = ""
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
    text = files("importers.tensorflow").joinpath("op_outputs.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        outputs, _, ops = line.partition(":")
        args = tuple(_parsed(word) for word in outputs.split() if word != "-")
        table.update(dict.fromkeys(ops.split(), args))
    return table


_USUAL = ("dtype", "T", "DstT", "out_type", "output_type", "Tout", "element_dtype", "Tparams")


def declared(ops: pb.OpList) -> dict[str, tuple[OutputArg, ...]]:
    """The outputs of the ops a MetaGraphDef defines, stronger than the table."""
    return {op.name: _declared_outputs(op) for op in ops.op}


def _declared_outputs(op: pb.OpDef) -> tuple[OutputArg, ...]:
    defaults = {attr.name: attr.default_value.type for attr in op.attr}
    return tuple(
        OutputArg(
            dtype=arg.type,
            type=arg.type_attr,
            count=arg.number_attr,
            types=arg.type_list_attr,
            default=defaults.get(arg.type_attr, 0),
        )
        for arg in op.output_arg
    )


def output_types(node: pb.NodeDef, args: tuple[OutputArg, ...] | None, most: int) -> list[int]:
    """The type number of each output of *node*, 0 where unknown; at most *most* of them."""
    if args is None:
        found = (node.attr[name].type for name in _USUAL if name in node.attr)
        return [next((number for number in found if number), 0)]
    types: list[int] = []
    for arg in args:
        if arg.types:
            types += node.attr[arg.types].list.type if arg.types in node.attr else []
            continue
        count = _number(node, arg.count) if arg.count else 1
        dtype = arg.dtype or _attr_type(node, arg.type) or arg.default
        types += [dtype] * min(count, most)
    return types[:most]


def _number(node: pb.NodeDef, attr: str) -> int:
    return max(node.attr[attr].i, 0) if attr in node.attr else 1


def _attr_type(node: pb.NodeDef, attr: str) -> int:
    return node.attr[attr].type if attr in node.attr else 0
