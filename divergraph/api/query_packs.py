"""Named queries of others: checked with the small graphs they come with."""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

from divergraph.api.arguments import AnyPath
from divergraph.api.rows import Rows
from divergraph.api.store import AnyStore, opened_for_keeping
from graphstore.cypher.query_check import QueryChecks, QueryFault
from graphstore.cypher.query_file import NamedQuery
from graphstore.cypher.query_packs import ENTRY_POINT_GROUP, read_pack
from graphstore.cypher.store import CypherStore
from graphstore.errors import InputError
from graphstore.own_folder import OwnFolder


def check_queries(pack: AnyPath, store: AnyStore | None = None) -> Rows[QueryFault]:
    """What is wrong with the queries of a *pack*: a folder, one file, or an installed pack's name.

    Each is asked about its small graphs on an embedded store and, where *store* is given, on that
    one, in runs that are deleted at once.

    Raises:
        InputError: there is no such pack, or a file of it cannot be read.
    """
    queries = _queries(pack)
    with OwnFolder("packs") as folder:
        faults = _faults(queries, folder / "store")
    if store is not None:
        faults += _faults(queries, store)
    return Rows(QueryFault, faults)


def _faults(queries: dict[str, NamedQuery], place: AnyStore) -> list[QueryFault]:
    store = opened_for_keeping(place)
    assert isinstance(store, CypherStore), "there are no other stores"
    try:
        with QueryChecks(store) as checks:
            return [
                fault
                for stem, query in queries.items()
                if stem.partition(".")[2] in ("", store.dialect.value)
                for fault in checks.faults(query)
            ]
    finally:
        if store is not place:
            store.close()


def _queries(pack: AnyPath) -> dict[str, NamedQuery]:
    """The queries of *pack* by stem of their file."""
    path = Path(pack).expanduser()
    if path.is_dir():
        return dict(read_pack(path.resolve().name, path).queries)
    if path.is_file():
        queries = read_pack(path.resolve().parent.name, path.parent).queries
        return {stem: query for stem, query in queries.items() if query.place == str(path)}
    for entry in entry_points(group=ENTRY_POINT_GROUP, name=str(pack)):
        return dict(read_pack(entry.name, files(entry.value)).queries)
    named = ", ".join(
        sorted(entry_point.name for entry_point in entry_points(group=ENTRY_POINT_GROUP))
    )
    hint = f"give a folder, a .cypher file, or one of {named}" if named else "give a folder of them"
    raise InputError("there is no such pack of queries", where=str(pack), hint=hint)
