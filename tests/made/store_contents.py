"""What a store shows to users, to hold two against each other; and how it loses something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from graphstore.contract import GraphStore, QueryParameters
from graphstore.schema.tables import NODES, RELS


def everything(store: GraphStore, target: str | None = None) -> Iterator[tuple[str, list[str]]]:
    """All that users can see, table by table."""
    for node in NODES:
        columns = ", ".join(f"n.`{column.name}` AS `{column.name}`" for column in node.columns)
        yield node.label, rows(store, f"MATCH (n:{node.label}) RETURN {columns}", target)
    for rel in RELS:
        pattern = f"(a:{rel.source})-[r:{rel.type}]->(b:{rel.target})"
        columns = "".join(f", r.`{column.name}` AS `{column.name}`" for column in rel.columns)
        text = f"MATCH {pattern} RETURN a.id AS a, b.id AS b{columns}"
        yield rel.type, rows(store, text, target)


def rows(store: GraphStore, text: str, target: str | None) -> list[str]:
    return sorted(map(repr, store.query(text, QueryParameters(), target).rows))


def tables_of(home: Path) -> Path:
    """The folder of the tables of the entry in *home*."""
    (folder,) = home.glob("tables*")
    return folder


def flip(path: Path) -> None:
    """Turn a bit over in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
