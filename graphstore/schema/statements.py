"""The statements that make the tables, constraints and indexes of the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphstore.schema.tables import NODES, RELS


def embedded_ddl() -> Iterator[str]:
    """The statements that make the embedded store's tables."""
    for node in NODES:
        columns = ", ".join(f"`{column.name}` {column.type}" for column in node.columns)
        yield f"CREATE NODE TABLE {node.label}({columns}, PRIMARY KEY(id))"
    for rel in RELS:
        columns = "".join(f", `{column.name}` {column.type}" for column in rel.columns)
        yield f"CREATE REL TABLE {rel.type}(FROM {rel.source} TO {rel.target}{columns})"


_SHOWN_OR_NOT = ("Run", "Import", "Graph")
"""Neo4j only: labels that start with Pending while a node is being written or deleted."""


def neo4j_ddl() -> dict[str, str]:
    """The statements that make Neo4j's constraints and indexes, by the name of each."""
    made = {}
    labels = [node.label for node in NODES] + [f"Pending{label}" for label in _SHOWN_OR_NOT]
    for label in [*labels, "SchemaVersion", "Writer"]:
        made[f"{label.lower()}_id"] = f"CONSTRAINT {{}} FOR (n:{label}) REQUIRE n.id IS UNIQUE"
    made["run_name"] = "CONSTRAINT {} FOR (n:Run) REQUIRE n.name IS UNIQUE"
    for node in NODES:
        for columns in node.indexed:
            keys = ", ".join(f"n.{column}" for column in columns)
            name = f"{node.label.lower()}_{'_'.join(columns)}"
            made[name] = f"INDEX {{}} FOR (n:{node.label}) ON ({keys})"
    for rel in RELS:
        if "run" in rel.key:
            name = f"{rel.type.lower()}_run"
            made[name] = f"INDEX {{}} FOR ()-[r:{rel.type}]-() ON (r.run)"
    return _statements(made)


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


def _statements(made: Mapping[str, str]) -> dict[str, str]:
    return {
        f"divergraph_{name}": f"CREATE {text.format(f'divergraph_{name} IF NOT EXISTS')}"
        for name, text in made.items()
    }
