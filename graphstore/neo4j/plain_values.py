"""What a Neo4j server answers, as the embedded store gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from graphstore.schema.tables import NODES, RELS

SCALARS = frozenset((type(None), bool, int, float, str, bytes))
"""Values that are taken as they come."""


def plain_value(value: Any) -> object:
    """Nodes and relationships as dicts, paths as lists, times as text."""
    import neo4j.graph

    if isinstance(value, neo4j.graph.Node):
        return _in_order(":".join(sorted(value.labels)), value)
    if isinstance(value, neo4j.graph.Relationship):
        return _in_order(value.type, value)
    if isinstance(value, neo4j.graph.Path):
        return [plain_value(node) for node in value.nodes]
    if isinstance(value, list):
        return [item if type(item) in SCALARS else plain_value(item) for item in value]
    if isinstance(value, dict):
        return {key: plain_value(item) for key, item in value.items()}
    return value.iso_format() if hasattr(value, "iso_format") else value


def _in_order(label: str, properties: Mapping[str, object]) -> dict[str, object]:
    """Properties in the order of their table, as the embedded store gives them."""
    props = {name: properties[name] for name in _columns().get(label, ()) if name in properties}
    return {
        "_label": label,
        **props,
        **dict(sorted((name, properties[name]) for name in properties.keys() - props.keys())),
    }


@cache
def _columns() -> Mapping[str, Sequence[str]]:
    tables = [(node.label, node.columns) for node in NODES]
    tables += [(rel.type, rel.columns) for rel in RELS]
    return {name: [column.name for column in columns] for name, columns in tables}
