"""ONNX models prepared for running: outputs added, randomness fixed, weights left in place."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphstore.errors import ExecutionError
from graphstore.traverse.topological_order import lowest_first

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

# Ops that draw numbers; without a `seed` attribute other ones in each run.
_SEEDED = frozenset(
    (
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
        *("Multinomial", "Bernoulli"),
    )
)


def load_model(path: Path) -> ModelProto:
    """The model in *path* without the bytes of weights kept in other files.

    Raises:
        ExecutionError: it is damaged.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model(str(path), load_external_data=False)
    except (DecodeError, OSError, ValueError) as error:
        raise ExecutionError(f"cannot load the model: {error}", where=str(path)) from error
    fix_seeds(model)
    return model


def fix_seeds(model: ModelProto) -> None:
    """Give ops that draw numbers a seed each."""
    for number, node in enumerate(_nodes(model.graph)):
        _fix_seed(node, number)


def root_tensors(graph: GraphProto) -> list[str]:
    """All tensors the nodes of the root graph make, in file order."""
    return [name for node in graph.node for name in node.output if name]


def set_outputs(model: ModelProto, names: Iterable[str]) -> None:
    """Make *model* give *names* and nothing else."""
    from onnx import ValueInfoProto

    del model.graph.output[:]
    model.graph.output.extend(ValueInfoProto(name=name) for name in names)


def captured_names(node: NodeProto) -> set[str]:
    """The tensors from around it that the bodies of a node use."""
    outer: set[str] = set()
    for body in bodies(node):
        own_names = {value.name for value in body.input}
        own_names |= {tensor.name for tensor in body.initializer}
        own_names |= {tensor.values.name for tensor in body.sparse_initializer}
        for inner in body.node:
            used = {name for name in inner.input if name} | captured_names(inner)
            outer |= used - own_names
            own_names |= set(inner.output)
        outer |= {value.name for value in body.output} - own_names
    return outer


def in_makers_order(nodes: Sequence[NodeProto]) -> list[int]:
    """The places of *nodes* so that makers come before users, as the file has them where it can
    be so: tools that append nodes write files in which they do not. Nodes that wait for each
    other are missing.
    """
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    edges = {
        (makers[name], place)
        for place, node in enumerate(nodes)
        for name in (*node.input, *captured_names(node))
        if makers.get(name, place) != place
    }
    sources, targets = [source for source, _ in edges], [target for _, target in edges]
    return lowest_first(len(nodes), sources, targets)


def bodies(node: NodeProto) -> Iterator[GraphProto]:
    """The bodies a node owns."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for body in bodies(node):
            yield from _nodes(body)


def _fix_seed(node: NodeProto, number: int) -> None:
    # Dropout has a seed from opset 12 on, and draws only where it has a training input.
    draws = node.op_type in _SEEDED or (node.op_type == "Dropout" and len(node.input) == 3)
    if draws and not any(attribute.name == "seed" for attribute in node.attribute):
        from onnx import helper

        seed: float = number + 1 if node.op_type == "Dropout" else float(number + 1)
        node.attribute.append(helper.make_attribute("seed", seed))


# Models in half precision whose every op reads what the op before it gives, rounded.


def round_between_ops(graph: GraphProto, halves: Collection[str]) -> None:
    """Make the ops of *graph* read the float16 tensors *halves* as they are given out.

    ONNX Runtime computes most ops of float16 in float32 and, with all optimisations off, still
    leaves out the casts to float16 and back between two of them: the second reads more digits than
    the first gives out, so that 65504 + 0.5 - 65504 is 0.5. Only a float16 kernel between them
    keeps the casts, and one ``Identity`` by itself is computed in float32, too; two are not.
    """
    if not halves:
        return
    read = {name for node in graph.node for name in (*node.input, *captured_names(node))}
    nodes = [rounded_node for node in graph.node for rounded_node in _rounded(node, halves, read)]
    del graph.node[:]
    graph.node.extend(nodes)


def _rounded(node: NodeProto, halves: Container[str], read: Container[str]) -> Iterator[NodeProto]:
    """A copy of *node*, and what rounds those outputs that others read."""
    from onnx import NodeProto, helper

    copy = NodeProto()
    copy.CopyFrom(node)
    names = [name for name in node.output if name and name in halves and name in read]
    for place, name in enumerate(node.output):
        if name in names:
            copy.output[place] = f"{name}:unrounded"
    yield copy
    for name in names:
        yield helper.make_node("Identity", [f"{name}:unrounded"], [f"{name}:rounded"])
        yield helper.make_node("Identity", [f"{name}:rounded"], [name])
