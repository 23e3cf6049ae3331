"""The team store: a Neo4j server, spoken to with its official driver."""

from graphstore.neo4j.store import Neo4jStore

__all__ = ["Neo4jStore"]
