"""The form of the store in a database: constraints, indexes and the mark of its version.

Made at the first write; each step can be done again if it was cut short. The node
``SchemaVersion`` says which form it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from graphstore.cypher.statements import load_statements
from graphstore.neo4j.upgrade import upgrade
from graphstore.neo4j.writers import take_turn
from graphstore.schema.tables import NODES, RELS, SCHEMA_VERSION, check_version

if TYPE_CHECKING:
    from graphstore.neo4j.connection import Connection, Statement

_STATEMENTS = load_statements("server.neo4j")
_MANY_OPS = 10_000
"""Fewer are indexed while they are written."""


def schema_version(wire: Connection) -> int | None:
    """The schema version of the store; None if nothing was written yet.

    Raises:
        StoreError: another program wrote it.
    """
    rows = wire.read(_STATEMENTS["version"], {}).rows
    if not rows or rows[0][0] is None:
        return None
    check_version(rows[0][0], wire.url)
    return int(str(rows[0][0]))


def make_schema(wire: Connection) -> None:
    """Make constraints and indexes, upgrade and mark the store, where that was not done yet.

    Raises:
        StoreError: as :func:`schema_version`.
    """
    version = schema_version(wire)
    _define(wire, neo4j_ddl())
    if version != SCHEMA_VERSION:
        wire.define("CALL db.awaitIndexes(600)")
        if version is not None:
            upgrade(wire)
        wire.change(_mark)


def make_search_indexes(wire: Connection) -> None:
    """Begin to index names for users' searches; the server does it after this returns."""
    _define(wire, neo4j_search_ddl())


def set_names_aside(wire: Connection, ops: int) -> None:
    """Drop the index on parts of names where *ops* new ones are as many as are there.

    Then it is cheaper to make it anew, after the import and by all names at once.
    """
    if ops < _MANY_OPS:
        return
    there = wire.read(_STATEMENTS["count_ops"], {}).rows[0][0]
    if isinstance(there, int) and ops >= there:
        wire.define(f"DROP INDEX {NAME_PARTS} IF EXISTS")


def _define(wire: Connection, statements: Mapping[str, str]) -> None:
    there = _names(wire)
    for name, statement in statements.items():
        if name not in there:
            wire.define(statement)


def _names(wire: Connection) -> set[object]:
    rows = wire.read("SHOW INDEXES YIELD name", {}).rows
    return {name for (name,) in rows}


def _mark(run: Statement) -> None:
    take_turn(run, "schema")
    run(_STATEMENTS["mark"], version=SCHEMA_VERSION)


_SHOWN_OR_NOT = ("Run", "Import", "Graph")
"""Neo4j only: labels that start with Pending while a node is being written or deleted."""


def neo4j_ddl() -> dict[str, str]:
    """The statements that make Neo4j's constraints and indexes, by the name of each."""
    clauses = {}
    labels = [node.label for node in NODES] + [f"Pending{label}" for label in _SHOWN_OR_NOT]
    for label in [*labels, "SchemaVersion", "Writer", "Memory"]:
        clauses[f"{label.lower()}_id"] = f"CONSTRAINT {{}} FOR (n:{label}) REQUIRE n.id IS UNIQUE"
    clauses["run_name"] = "CONSTRAINT {} FOR (n:Run) REQUIRE n.name IS UNIQUE"
    for node in NODES:
        for columns in node.indexed:
            keys = ", ".join(f"n.{column}" for column in columns)
            name = f"{node.label.lower()}_{'_'.join(columns)}"
            clauses[name] = f"INDEX {{}} FOR (n:{node.label}) ON ({keys})"
    for rel in RELS:
        if "run" in rel.key:
            name = f"{rel.type.lower()}_run"
            clauses[name] = f"INDEX {{}} FOR ()-[r:{rel.type}]-() ON (r.run)"
    return _statements(clauses)


NAME_PARTS = "divergraph_op_name_text"
"""Neo4j only: the index on parts of op names, a fifth of the server's work of an import."""


def neo4j_search_ddl() -> dict[str, str]:
    """The statements that make the indexes on words and parts of names, by the name of each.

    They are made when the first rows are there, and for many rows anew.
    """
    return _statements(
        {
            "op_name_text": "TEXT INDEX {} FOR (n:Op) ON (n.name)",
            # Brought up to date behind the writer's back: imports do not wait for it.
            "op_names": "FULLTEXT INDEX {} FOR (n:Op) ON EACH [n.name, n.own_name, n.type] "
            "OPTIONS {{indexConfig: {{`fulltext.eventually_consistent`: true}}}}",
        }
    )


def _statements(clauses: Mapping[str, str]) -> dict[str, str]:
    return {
        f"divergraph_{name}": f"CREATE {text.format(f'divergraph_{name} IF NOT EXISTS')}"
        for name, text in clauses.items()
    }
