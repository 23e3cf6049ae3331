"""A run as Neo4j Browser can show it: ops coloured by cosine.

Only on demand, for one run at a time: an op may belong to several runs, and without it both kinds
of stores hold the same. No question of ours reads what is added.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from graphstore.cypher.statements import load_statements
from graphstore.cypher.targets import TargetKeys
from graphstore.neo4j.connection import Connection

_STATEMENTS = load_statements("browser.neo4j")
_BANDS = ("Cos_NaN", "Cos_Bad", "Cos_Poor", "Cos_Fair", "Cos_Good")
_INTERNAL = "_Internal"
_OURS = ("OpBlock", "SchemaVersion", "Writer", "Memory")
"""Labels of nodes that only the program reads."""
_ROWS = 2500
"""Rows a transaction."""


def paint(wire: Connection, place: TargetKeys) -> int:
    """Show the run at *place* and no other; how many ops got a colour.

    Raises:
        StoreError: the server cannot be used, or refuses it.
    """
    wash(wire)
    for label in _OURS:
        _until_done(wire, "mark_internal", label=label)
    for part in _parts(_last(wire, "last_result", run=place.run)):
        _changed(wire, "paint_ops", run=place.run, **part)
    # an op without a cosine has no colour
    return sum(_count(wire, band) for band in _BANDS)


def wash(wire: Connection) -> None:
    """Take away all that :func:`paint` added, of whatever run."""
    for label in (*_BANDS, _INTERNAL):
        _until_done(wire, "wash_nodes", label=label)


def style() -> str:
    """A style sheet for Neo4j Browser."""
    return files(__package__).joinpath("browser.grass").read_text(encoding="utf-8")


def _last(wire: Connection, statement: str, **keys: object) -> int:
    last = wire.read(_STATEMENTS[statement], keys).rows[0][0]
    return last if isinstance(last, int) else -1


def _count(wire: Connection, label: str) -> int:
    rows = wire.read(_STATEMENTS.filled("count_nodes", label=label), {}).rows
    return int(str(rows[0][0]))


def _parts(last: int) -> Iterator[dict[str, int]]:
    for start in range(0, last + 1, _ROWS):
        yield {"from": start, "until": start + _ROWS}


def _changed(wire: Connection, statement: str, **params: object) -> int:
    return int(wire.change(lambda run: run(_STATEMENTS[statement], **params))[0]["n"])


def _until_done(wire: Connection, statement: str, **places: str) -> None:
    text = _STATEMENTS.filled(statement, **places)
    while wire.change(lambda run: run(text, rows=_ROWS))[0]["n"]:
        pass
