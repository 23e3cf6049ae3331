"""Statements that the product never sends to a Neo4j server, but tests of it do."""

from __future__ import annotations

from graphstore.neo4j.connection import Connection


def run_alone(wire: Connection, cypher: str) -> None:
    """Run a statement that makes its own transactions; it is not tried again."""
    with wire._session("WRITE") as session:
        session.run(cypher).consume()
