"""Database files written in a process of its own.

On a full disk, or of a defect, the engine may end its whole process; so it is not ours.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from graphstore.embedded.child_process import ChildProcess
from graphstore.embedded.engine import DOUBT
from graphstore.embedded.engine_writing import MODULE
from graphstore.errors import StoreError
from graphstore.schema.tables import NODES, RELS

_LAST_WORDS = re.compile(rb"what\(\):\s*(.+)")


def write_database(path: Path, files: Sequence[tuple[str, Path]]) -> None:
    """Make a new database file at *path* (which must not exist) of the tables in Parquet *files*,
    nodes first.

    Raises:
        StoreError: the engine cannot write it, or not read them; what is left of it is not usable.
    """
    child = ChildProcess(MODULE)
    try:
        # the child may have another working directory
        absolute = [(table, file.absolute()) for table, file in files]
        answer = child.ask((path.absolute(), list(embedded_ddl()), absolute))
    finally:
        child.end()
    if isinstance(answer, StoreError):
        raise answer
    if answer is None:
        raise StoreError(_last_words(child), where=str(path), hint=DOUBT)


def embedded_ddl() -> Iterator[str]:
    """The statements that make the embedded store's tables."""
    for node in NODES:
        columns = ", ".join(f"`{column.name}` {column.type}" for column in node.columns)
        yield f"CREATE NODE TABLE {node.label}({columns}, PRIMARY KEY(id))"
    for rel in RELS:
        columns = "".join(f", `{column.name}` {column.type}" for column in rel.columns)
        yield f"CREATE REL TABLE {rel.type}(FROM {rel.source} TO {rel.target}{columns})"


def _last_words(child: ChildProcess) -> str:
    match = _LAST_WORDS.search(child.said)
    if match is not None:
        return f"the embedded database says: {match[1].decode(errors='replace')}"
    ended = child.ended or 0
    by = signal.Signals(-ended).name if ended < 0 else f"exit code {ended}"
    return f"the embedded database ended while it wrote ({by})"
