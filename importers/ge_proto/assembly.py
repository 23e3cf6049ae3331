"""Join the op blocks of a GE dump into one model graph with its sub-graphs.

How GE fills the fields (order of inputs, control inputs last, ``_parent_node_index``) is
read from its serializer, graph_metadef/graph/serialization/model_serialize.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphstore.model import (
    AttrValue,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Subgraph,
    Tensor,
    TensorRef,
)
from importers.fusion_result import with_fusion_result
from importers.ge_proto.messages import Node, read_attr, read_node
from importers.kept import split_reference, told_of
from importers.names import UniqueIds
from importers.proto.values import Value, message, text

_ORIGINAL_NAMES = "_datadump_original_op_names"
_DANGLING = "{input names an op that is not in its|inputs name an op that is not in their} graph"
_ROLES = {
    "If": ("then_branch", "else_branch"),
    "While": ("cond", "body"),
    "For": ("body",),
    "PartitionedCall": ("f",),
}


@dataclass(slots=True)
class RawGraph:
    """One ``graph`` block as read; *body* is its name as a sub-graph, empty for the root."""

    name: str = ""
    body: str = ""
    nodes: list[Node] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    attrs: dict[str, AttrValue] = field(default_factory=dict)

    def take(self, name: bytes, value: Value) -> None:
        """Keep a field of ``GraphDef`` (or of the ``ModelDef`` around it).

        Raises:
            ValueError: its value is of the wrong kind.
        """
        if name == b"op":
            self.nodes.append(read_node(message(value)))
        elif name == b"attr":
            read_attr(value, self.attrs)
        elif name == b"name":
            self.name = text(value)
        elif name == b"input":
            self.inputs.append(text(value))
        elif name == b"output":
            self.outputs.append(text(value))


@dataclass(slots=True)
class _Linked:
    """A node with its id and its inputs resolved inside its own graph."""

    id: str
    node: Node
    body: str
    sequence: int
    inputs: list[InputRef | None] = field(default_factory=list)
    controls: list[str] = field(default_factory=list)


def assemble(
    graphs: list[RawGraph],
    model: RawGraph,
    path: Path,
    sha256: str,
    *,
    form: str = "ge_proto",
    warnings: Sequence[str] = (),
) -> ModelGraph:
    """The model graph of a file: ``graphs[0]`` is the root, *model* what surrounds them.

    *form* is the file's format, *warnings* what its reader has to say already. The fusion
    passes in a ``fusion_result.json`` beside *path* are read along.
    """
    joined = _Assembly(graphs).joined(model.attrs, path, sha256)
    model_read = replace(joined, format=form, warnings=(*warnings, *joined.warnings))
    return with_fusion_result(model_read, path)


class _Assembly:
    def __init__(self, graphs: list[RawGraph]) -> None:
        self._root = graphs[0]
        self._warnings: list[str] = []
        self._dangling: list[str] = []
        self._ids = UniqueIds()
        self._ports: dict[str, int] = {}
        self._bodies = self._named_bodies(graphs[1:])
        self._linked: list[_Linked] = []
        self._root_ids: dict[str, str] = {}
        for graph in graphs:
            self._linked.extend(self._link(graph))

    def joined(self, model_attrs: dict[str, AttrValue], path: Path, sha256: str) -> ModelGraph:
        owners = self._owners()
        owned: dict[str, list[str]] = {}
        for body, (owner, _) in owners.items():
            owned.setdefault(owner.id, []).append(body)
        ops = tuple(self._op(linked, tuple(owned.get(linked.id, ()))) for linked in self._linked)
        members: dict[str, list[_Linked]] = {body: [] for body in self._bodies}
        for linked in self._linked:
            if linked.body:
                members[linked.body].append(linked)
        bodies = tuple(_subgraph(body, owners.get(body), members[body]) for body in self._bodies)
        return ModelGraph(
            name=self._root.name or path.stem,
            kind=GraphKind.DEVICE,
            framework=Framework.ASCEND,
            format="ge_proto",
            ops=ops,
            subgraphs=bodies,
            inputs=self._graph_inputs(ops),
            outputs=self._graph_outputs(),
            attrs=model_attrs | self._root.attrs,
            warnings=(*self._warnings, *told_of(self._dangling, _DANGLING), *self._ids.warnings()),
            source=str(path),
            sha256=sha256,
        )

    def _named_bodies(self, graphs: list[RawGraph]) -> dict[str, RawGraph]:
        bodies: dict[str, RawGraph] = {}
        for number, graph in enumerate(graphs, 1):
            graph.body = graph.name or f"graph_{number}"
            while graph.body in bodies:
                graph.body += f"#{number}"
            if graph.body != graph.name:
                self._warnings.append(f"sub-graph {graph.name!r} is called {graph.body} here")
            bodies[graph.body] = graph
        return bodies

    def _link(self, graph: RawGraph) -> Iterator[_Linked]:
        by_name: dict[str, str] = {}
        linked: list[_Linked] = []
        # Ids are the execution order, but a dump of an early phase has none at all.
        numbered = any(node.number > 0 for node in graph.nodes)
        for at, node in enumerate(graph.nodes, len(self._linked)):
            op = self._ids.take(node.name, graph.body)
            by_name.setdefault(node.name, op)
            linked.append(_Linked(op, node, graph.body, node.number if numbered else at))
        if graph is self._root:
            self._root_ids = by_name
        for linked_node in linked:
            self._resolve(linked_node, by_name)
        return iter(linked)

    def _resolve(self, linked: _Linked, by_name: dict[str, str]) -> None:
        for entry in linked.node.inputs:
            if not entry:
                linked.inputs.append(None)
                continue
            name, port = split_reference(entry, lowest=-1)
            producer = by_name.get(name)
            if producer is None:
                self._dangling.append(f"{entry} of {linked.id}")
            if port < 0:
                if producer is not None:
                    linked.controls.append(producer)
                continue
            if producer is None:
                linked.inputs.append(InputRef(entry))
                continue
            linked.inputs.append(InputRef(entry, TensorRef(producer, port)))
            self._ports[producer] = max(port, self._ports.get(producer, -1))

    def _owners(self) -> dict[str, tuple[_Linked, str]]:
        owners: dict[str, tuple[_Linked, str]] = {}
        missing: list[str] = []
        for linked in self._linked:
            for position, body in enumerate(linked.node.subgraphs):
                if body not in self._bodies:
                    missing.append(f"{body} of {linked.id}")
                elif body in owners:
                    what = f"sub-graph {body} is claimed by {owners[body][0].id} and {linked.id}"
                    self._warnings.append(f"{what}: the first is taken")
                else:
                    owners[body] = linked, _role(linked.node.type, position)
        orphans = [body for body in self._bodies if body not in owners]
        self._warnings += told_of(missing, "{sub-graph is|sub-graphs are} not in the file")
        self._warnings += told_of(orphans, "{sub-graph belongs|sub-graphs belong} to no op")
        return owners

    def _op(self, linked: _Linked, owns: tuple[str, ...]) -> Op:
        node = linked.node
        # Consumers may know of outputs without a descriptor (dumps of level 3 have none).
        more = range(len(node.outputs), self._ports.get(linked.id, -1) + 1)
        outputs = [*node.outputs, *(Tensor(f"{node.name}:{port}") for port in more)]
        return Op(
            id=linked.id,
            name=node.name,
            type=node.type,
            inputs=tuple(linked.inputs),
            control_inputs=tuple(linked.controls),
            outputs=tuple(outputs),
            attrs=node.attrs,
            subgraph=linked.body,
            owns=owns,
            original_names=_original_names(node),
            sequence=linked.sequence,
        )

    def _graph_inputs(self, ops: tuple[Op, ...]) -> tuple[Tensor, ...]:
        by_id = {op.id: op for op in ops if not op.subgraph}
        wanted = [self._reference(entry) for entry in self._root.inputs]
        named = [by_id[ref.op] for ref in wanted if ref is not None]
        data = named or [op for op in by_id.values() if op.type == "Data"]
        return tuple(op.outputs[0] for op in data if op.outputs)

    def _graph_outputs(self) -> tuple[TensorRef, ...]:
        refs = [self._reference(entry) for entry in self._root.outputs]
        refs_fed = [ref for ref in refs if ref is not None and ref.port >= 0]
        if refs_fed:
            return tuple(refs_fed)
        return tuple(
            ref.producer
            for linked in self._linked
            if not linked.body and linked.node.type == "NetOutput"
            for ref in linked.inputs
            if ref is not None and ref.producer is not None
        )

    def _reference(self, entry: str) -> TensorRef | None:
        name, port = split_reference(entry, lowest=-1)
        op = self._root_ids.get(name)
        return None if op is None else TensorRef(op, port)


def _role(op_type: str, position: int) -> str:
    kind = op_type.removeprefix("Stateless").removeprefix("Stateful")
    if kind == "Case":
        return f"branch_{position}"
    roles = _ROLES.get(kind, ())
    return roles[position] if position < len(roles) else ""


def _original_names(node: Node) -> tuple[str, ...] | None:
    """None: an original op itself; empty: inserted (GE writes an empty list or ``[""]``)."""
    names = node.attrs.get(_ORIGINAL_NAMES)
    if names is None:
        return None
    listed = names if isinstance(names, tuple) else (names,)
    return tuple(str(name) for name in listed if name != "")


def _subgraph(body: str, owner: tuple[_Linked, str] | None, members: list[_Linked]) -> Subgraph:
    inputs: list[tuple[int, str]] = []
    outputs: list[tuple[int, TensorRef]] = []
    role = owner[1] if owner else ""
    for linked in members:
        index = linked.node.attrs.get("_parent_node_index")
        if linked.node.type.endswith("Data") and isinstance(index, int):
            inputs.append((index, linked.id))
        # A loop's condition only decides; it feeds no output of the loop.
        elif linked.node.type == "NetOutput" and role != "cond":
            outputs.extend(_fed_outputs(linked))
    return Subgraph(
        name=body,
        owner=owner[0].id if owner else "",
        role=role,
        inputs=tuple(sorted(inputs)),
        outputs=tuple(sorted(outputs)),
    )


def _fed_outputs(net_output: _Linked) -> Iterator[tuple[int, TensorRef]]:
    """Output port of the owner and the tensor that feeds it, from the NetOutput of a body."""
    feeds = net_output.node.feeds
    connected = [position for position, ref in enumerate(net_output.inputs) if ref is not None]
    # Only inputs in use have a descriptor, but old files keep placeholders for the others.
    if any(fed.placeholder for fed in feeds):
        described = dict(enumerate(feeds))
    else:
        described = dict(zip(connected, feeds, strict=False))
    ports = {position: fed.port for position, fed in described.items()}
    has_ports = any(port is not None for port in ports.values())
    for position in connected:
        ref = net_output.inputs[position]
        port = ports.get(position) if has_ports else position
        if ref is not None and ref.producer is not None and port is not None:
            yield port, ref.producer
