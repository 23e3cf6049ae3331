"""Notes and bookmarks on the golden ops of a model, whichever run one looks at."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from divergraph.ask.facts import load_facts, resolve_op
from divergraph.ask.origin_answers import OriginAnswer, OriginsAnswer
from graphstore.contract import GraphStore
from graphstore.errors import InputError, UnknownNameError
from graphstore.model import Note, Run, Side
from graphstore.op_row import OpRow


def add_note(
    store: GraphStore,
    run: str,
    op: str,
    text: str,
    author: str,
    *,
    output: int | None = None,
    bookmark: bool = False,
) -> Note:
    """Keep a new note on *op* of the model of *run*: a golden op, or the device op made of it.

    Raises:
        UnknownNameError: no such run, or neither side has the op.
        InputError: the op stands for no golden op, or has no such output; the note says nothing.
    """
    model = store.run(run).golden
    golden = golden_op(store, run, op)
    outputs = len(store.ops(run, [golden], Side.GOLDEN)[golden].outputs)
    if output is not None and not 0 <= output < outputs:
        raise InputError(f"{golden} has no output {output}", hint=f"it has {outputs}")
    note = Note(secrets.token_hex(4), model, golden, text, author, _now(), output, None, bookmark)
    store.keep_note(note)
    return note


def edit_note(store: GraphStore, note: str, text: str) -> Note:
    """Let the note of this id say *text*.

    Raises:
        UnknownNameError: there is none.
        InputError: it says nothing then.
    """
    edited = replace(find_note(store, note), text=text, edited=_now())
    store.keep_note(edited)
    return edited


def find_note(store: GraphStore, note: str) -> Note:
    """The note of this id.

    Raises:
        UnknownNameError: there is none.
    """
    match = next((entry for entry in store.notes() if entry.id == note), None)
    if match is None:
        raise UnknownNameError("note", note, hint="`divergraph note list` shows them")
    return match


def list_notes(store: GraphStore, run: str | None = None, op: str | None = None) -> list[Note]:
    """All notes, those on the model of a *run*, or on one of its ops, oldest first.

    Raises:
        UnknownNameError: no such run, or neither side has the op.
    """
    if run is None:
        return store.notes()
    notes = store.notes(store.run(run).golden)
    if op is None:
        return notes
    golden = _golden_ops(store, run, op)
    return [note for note in notes if note.op in golden]


def with_notes(store: GraphStore, run: Run | None, rows: Sequence[OpRow]) -> list[OpRow]:
    """*rows* of a run with the notes on their originals; of a graph as they are."""
    return list(map(noting(store, run), rows))


def noting(store: GraphStore, run: Run | None) -> Callable[[OpRow], OpRow]:
    """What gives a row of *run* the notes on its originals, as they are now; the row of a graph has
    none."""
    by_op: dict[str, list[Note]] = {}
    for note in store.notes(run.golden) if run is not None else ():
        by_op.setdefault(note.op, []).append(note)
    return lambda row: replace(row, notes=_of(row, by_op)) if by_op else row


def notes_by_op(
    store: GraphStore, run: Run, rows: Iterable[OpRow] | None = None
) -> Mapping[str, tuple[Note, ...]]:
    """The notes on the originals of each op in *rows*, or of each device op of *run*; of those that
    have some."""
    if not store.notes(run.golden):
        return {}
    all_rows = load_facts(store, run.name).rows if rows is None else rows
    return {row.id: row.notes for row in with_notes(store, run, tuple(all_rows)) if row.notes}


def noted_origins(store: GraphStore, answer: OriginsAnswer) -> OriginsAnswer:
    """*answer* with the notes on the originals of its ops."""
    notes = store.notes(answer.run.golden)
    if not notes:
        return answer

    def noted(one: OriginAnswer) -> OriginAnswer:
        ops = {ref.op for ref in one.origin.golden}
        return replace(one, notes=tuple(note for note in notes if note.op in ops))

    origins, suspects = map(noted, answer.origins), map(noted, answer.suspects)
    return replace(answer, origins=tuple(origins), suspects=tuple(suspects))


def _of(row: OpRow, by_op: dict[str, list[Note]]) -> tuple[Note, ...]:
    names: Iterable[str] = (row.id,) if row.side is Side.GOLDEN else row.originals
    return tuple(note for name in dict.fromkeys(names) for note in by_op.get(name, ()))


def golden_op(store: GraphStore, run: str, op: str) -> str:
    """The golden op that *op* of either side is, or was made of; of several the last, whose output
    the device op has.

    Raises:
        UnknownNameError: neither side has the op.
        InputError: the compiler inserted it.
    """
    ops = _golden_ops(store, run, op)
    if not ops:
        message = f"{op} stands for no golden op, and notes are kept on those"
        raise InputError(message, hint="note the op before it")
    return ops[-1]


def _golden_ops(store: GraphStore, run: str, op: str) -> list[str]:
    try:
        return [resolve_op(store, run, op, Side.GOLDEN)]
    except UnknownNameError:
        device = resolve_op(store, run, op)
    links = sorted(store.links(run, device), key=lambda link: link.original_port is not None)
    numbers = store.arrays(run, Side.GOLDEN).number
    return [name for name in dict.fromkeys(link.original for link in links) if name in numbers]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
