"""The form of the store in a database: made at the first write, brought up to date later.

The node ``SchemaVersion`` says which form it is. Steps lead from one form to the next;
each can be done again if it was cut short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from graphstore.errors import StoreError
from graphstore.neo4j.writers import take_turn
from graphstore.schema.statements import (
    NAME_PARTS,
    NEO4J_DROPPED,
    neo4j_ddl,
    neo4j_search_ddl,
)
from graphstore.schema.tables import (
    FIRST_READABLE,
    NEO4J_VERSION,
    TOO_OLD_HINT,
)

if TYPE_CHECKING:
    from graphstore.neo4j.connection import Connection, Statement

_VERSION = (
    "OPTIONAL MATCH (s:SchemaVersion {id: 'divergraph'}) "
    "OPTIONAL MATCH (old:Store {id: 'divergraph'}) "
    "RETURN coalesce(s.version, old.schema) AS version"
)
_MANY_OPS = 10_000
"""Fewer are indexed while they are written."""


def schema_version(wire: Connection) -> int | None:
    """The form of the store; None if nothing was written yet.

    Raises:
        StoreError: it is newer than this program, or too old to be read.
    """
    version = wire.read(_VERSION, {}).rows[0][0]
    if version is None:
        return None
    if not isinstance(version, int) or version > NEO4J_VERSION:
        raise StoreError(
            f"the store has schema version {version}, this program knows {NEO4J_VERSION}",
            where=wire.url,
            hint="install a newer divergraph",
        )
    if version < FIRST_READABLE and _holds_rows(wire):
        raise StoreError(
            f"the store has schema version {version}, whose rows this program cannot read",
            where=wire.url,
            hint=TOO_OLD_HINT,
        )
    return version


def make_schema(wire: Connection) -> None:
    """Bring the database into the form of this program.

    Raises:
        StoreError: as :func:`schema_version`.
    """
    version = schema_version(wire)
    _define(wire, neo4j_ddl())
    if version == NEO4J_VERSION:
        return
    for name in NEO4J_DROPPED:
        wire.define(f"DROP INDEX {name} IF EXISTS")
    wire.define("CALL db.awaitIndexes(600)")
    for target, step in _STEPS.items():
        if version is not None and version < target:
            wire.change(lambda run, step=step: step(run))  # type: ignore[misc]
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
    there = wire.read("MATCH (g:Graph) RETURN coalesce(sum(g.ops), 0)", {}).rows[0][0]
    if isinstance(there, int) and ops >= there:
        wire.define(f"DROP INDEX {NAME_PARTS} IF EXISTS")


def _define(wire: Connection, statements: Mapping[str, str]) -> None:
    there = _names(wire)
    for name, statement in statements.items():
        if name not in there:
            wire.define(statement)


def _names(wire: Connection) -> set[object]:
    found = wire.read("SHOW INDEXES YIELD name", {}).rows
    return {name for (name,) in found}


def _holds_rows(wire: Connection) -> bool:
    asked = "MATCH (n:Graph|PendingGraph|Run|PendingRun) RETURN n.id LIMIT 1"
    return bool(wire.read(asked, {}).rows)


def _mark(run: Statement) -> None:
    take_turn(run, "migration")
    run(
        "MATCH (s:SchemaVersion {id: 'divergraph'}) "
        "SET s.version = CASE WHEN s.version > $version THEN s.version ELSE $version END",
        version=NEO4J_VERSION,
    )


def _to_2(run: Statement) -> None:
    """Form 1 had its mark on a node ``Store`` and indexes on texts that are gone."""
    take_turn(run, "migration")
    run("MATCH (s:Store {id: 'divergraph'}) DELETE s")


_STEPS: Mapping[int, Callable[[Statement], None]] = {2: _to_2}
"""By the form they lead to. Form 3 has more properties, form 4 nodes ``Columns``: older rows
lack both, and are read without."""
