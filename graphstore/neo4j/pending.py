"""What is being written or deleted: claims on names and graphs, one change at a time.

Rows hang on nodes ``PendingRun``, ``PendingGraph`` and ``PendingImport``, which carry the
token of their writer and which no named query sees. They become ``Run``, ``Graph`` and
``Import`` in one transaction, and go back to pending to be deleted. Every function here
is one change of state; its transaction has taken the turn (:func:`writers.take_turn`).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphstore.cypher.statements import load_statements
from graphstore.errors import NameTakenError
from graphstore.neo4j.writers import Known, known_writers, take_away
from graphstore.schema.codec import plain_text
from graphstore.schema.stored_graph import StoredGraph

if TYPE_CHECKING:
    from graphstore.neo4j.connection import Statement

LABELS = ("PendingRun", "PendingImport", "PendingGraph")
"""In the order in which they are cleared: a graph only after what uses it."""

_STATEMENTS = load_statements("pending.neo4j")
_STEPS = {
    "run": ("own_run", "show_run", "join_run"),
    "graph": ("own_import", "show_import", "join_import"),
}
"""What asks for, shows and joins what is written with its graphs."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A node that is not shown, and the token of its ``writer``.

    ``hidden`` if it was shown and is being deleted, ``graphs`` what a run or name uses.
    """

    label: str
    id: str
    name: str
    writer: str
    hidden: bool
    graphs: Sequence[str]

    @property
    def left(self) -> str:
        """What it is if its writer is dead, for users."""
        kind = "run" if self.label == "PendingRun" else "graph"
        return f"a {'half-deleted' if self.hidden else 'half-written'} {kind} {self.name!r}"


@dataclass(frozen=True, slots=True)
class WriteLease:
    """What a writer got.

    ``mine`` are the keys of the graphs it has to write, ``run`` the key of its run.
    Otherwise nothing is claimed yet: ``left`` has to be cleared first, ``busy`` (who
    writes it) to be waited for, or a graph of the same key and ``other`` content is there.
    """

    mine: frozenset[str] = frozenset()
    run: str | None = None
    left: tuple[Pending, ...] = ()
    busy: str | None = None
    other: bool = False


@dataclass(frozen=True, slots=True)
class WriteIntent:
    """What a writer wants to write: a run or an imported graph, and its graphs."""

    kind: str
    name: str
    graphs: tuple[StoredGraph, ...]
    replace: bool


def claim(run: Statement, token: str, wish: WriteIntent) -> WriteLease:
    """Take the name and the graphs of *wish* for the writer *token*, all or nothing.

    Raises:
        NameTakenError: the name is used, or somebody is writing under it.
    """
    check_name_free(run, wish.kind, wish.name, replace=wish.replace)
    writers = known_writers(run)
    keys = {stored.key for stored in wish.graphs}
    unfinished: list[Pending] = []
    for item in _all_pending(run):
        is_graph = item.label == "PendingGraph" and item.id in keys
        is_name = item.label != "PendingGraph" and item.name == wish.name and not item.hidden
        if item.writer == token or not (is_graph or is_name):
            continue
        owner = _living(writers, item.writer)
        if owner is None:
            unfinished.append(item)
        elif is_graph or (wish.kind == "graph" and item.graphs == sorted(keys)):
            return WriteLease(busy=owner.place)
        elif not wish.replace:
            raise _being_written(wish.name, owner)
    return WriteLease(left=tuple(unfinished)) if unfinished else _take(run, token, wish)


def _take(run: Statement, token: str, wish: WriteIntent) -> WriteLease:
    mine: dict[str, StoredGraph] = {}
    for stored in wish.graphs:
        rows = run(_STATEMENTS["graph"], id=stored.key)
        if any(row["content"] != stored.content for row in rows):
            return WriteLease(other=True)
        if not rows:
            mine[stored.key] = stored
    for graph_key, stored in mine.items():
        run(
            _STATEMENTS["claim_graph"],
            id=graph_key,
            content=stored.content,
            name=plain_text(stored.graph.name),
            token=token,
        )
    key: str | None = None
    if wish.kind == "run":
        key = plain_text(wish.name)
        if run(_STATEMENTS["any_run"], key=key):
            key = f"{key}~{secrets.token_hex(4)}"
        golden, device = wish.graphs
        run(
            _STATEMENTS["claim_run"],
            id=key,
            name=wish.name,
            golden=golden.key,
            device=device.key,
            token=token,
        )
    else:
        run(
            _STATEMENTS["claim_import"],
            name=wish.name,
            graph=wish.graphs[0].key,
            token=token,
        )
    return WriteLease(frozenset(mine), key)


def show(
    run: Statement, token: str, wish: WriteIntent, claimed: WriteLease, created: str = ""
) -> bool:
    """Show a written run, or a graph under its name since *created*, and its graphs; hide what
    it replaces. False if the claim is lost."""
    own, *steps = _STEPS[wish.kind]
    mine = {"key": claimed.run, "token": token, "created": created, "name": plain_text(wish.name)}
    if not run(_STATEMENTS[own], **mine):
        return False
    check_name_free(run, wish.kind, wish.name, replace=wish.replace)
    unused = hide(run, token, wish.name)
    for step in ("show_graphs", "join_graphs"):
        run(_STATEMENTS[step], keys=sorted(claimed.mine))
    for step in steps:
        run(_STATEMENTS[step], **mine)
    hide_unused(run, token, unused)
    return True


def hide(run: Statement, token: str, name: str) -> set[str]:
    """Take the run or imported graph *name* from sight; the keys of its graphs."""
    rows = run(_STATEMENTS["hide_run"], name=name, token=token)
    rows += run(_STATEMENTS["drop_import"], name=name)
    return {key for row in rows for key in row["graphs"]}


def hide_unused(run: Statement, token: str, graphs: Iterable[str]) -> None:
    """Take those of the *graphs* from sight that no run or import uses."""
    for key in sorted(graphs):
        if not run(_STATEMENTS["users"], key=key):
            run(_STATEMENTS["hide_graph"], key=key, token=token)


def rename(run: Statement, name: str, new_name: str) -> None:
    """Give a run or imported graph another name.

    Raises:
        NameTakenError: *new_name* is in use, or somebody is writing under it.
    """
    check_name_free(run, "", new_name, replace=False)
    writers = known_writers(run)
    for item in _all_pending(run):
        owner = _living(writers, item.writer)
        named = item.label != "PendingGraph" and item.name == new_name and not item.hidden
        if owner is not None and named:
            raise _being_written(new_name, owner)
    run(_STATEMENTS["rename_run"], name=name, new=new_name)
    run(_STATEMENTS["rename_import"], name=name, new=new_name)


def check_name_free(run: Statement, kind: str, name: str, *, replace: bool) -> None:
    """Return if *name* may be given to a new run or graph (*kind*), or an old one ("").

    Raises:
        NameTakenError: it is in use.
    """
    for what in ("run", "graph"):
        is_taken = kind != what or not replace
        if is_taken and run(_STATEMENTS[f"shown_{what}"], name=name):
            raise NameTakenError.by(what, name, or_replace=kind == what)


def left_behind(run: Statement) -> list[Pending]:
    """All pending nodes without a living writer."""
    writers = known_writers(run)
    pendings = [item for item in _all_pending(run) if _living(writers, item.writer) is None]
    return sorted(pendings, key=lambda item: (LABELS.index(item.label), item.id))


def own(run: Statement, token: str) -> list[Pending]:
    """The pending nodes of one writer."""
    pendings = [item for item in _all_pending(run) if item.writer == token]
    return sorted(pendings, key=lambda item: (LABELS.index(item.label), item.id))


def take_over(run: Statement, wanted: Iterable[Pending], token: str) -> list[Pending]:
    """Make those of *wanted* the writer's own whose writers are dead."""
    items = list(wanted)
    gone = take_away(run, sorted({item.writer for item in items}), token)
    pendings = [item for item in items if item.writer in gone]
    for item in pendings:
        run(
            _STATEMENTS.filled("take_over", label=item.label),
            id=item.id,
            old=item.writer,
            token=token,
        )
    return pendings


def _being_written(name: str, owner: Known) -> NameTakenError:
    return NameTakenError(
        f"{owner.place} is writing a run or graph named {name!r} just now",
        hint="use another name, or wait",
    )


def _all_pending(run: Statement) -> list[Pending]:
    rows: Sequence[Mapping[str, Any]] = run(_STATEMENTS["all"])
    return [Pending(**row) for row in rows]


def _living(writers: Mapping[str, Known], token: str) -> Known | None:
    writer = writers.get(token)
    return None if writer is None or writer.is_dead else writer
