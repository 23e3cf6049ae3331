"""What a store shows to users, to hold two against each other; and how it loses something."""

from __future__ import annotations

import shutil
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


def lose_tables(home: Path) -> None:
    """Remove the tables of the entry in *home*, which its database could be made of again."""
    for folder in home.glob("tables*"):
        shutil.rmtree(folder)
