"""Notes and baselines as small texts that each store keeps in its own way."""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TypeVar

from graphstore.cypher.questions import CypherQueries
from graphstore.errors import InputError, UnknownNameError
from graphstore.model import Baseline, Note, RunStanding
from graphstore.schema import codec

NOTES, BASELINES, STANDINGS = "notes", "baselines", "standings"
_ID = re.compile(r"[0-9a-f]{8,64}")
_MOST_TEXT = 10_000
_T = TypeVar("_T", Note, Baseline)


class CypherMemory(CypherQueries):
    """The part of :class:`GraphStore` that remembers what a team says."""

    _read_only: bool

    @abstractmethod
    def _remembered(self, kind: str) -> list[str]:
        """The texts of a kind, in any order."""

    def remembered(self, kind: str) -> list[str]:
        """The texts of a kind, for who reads them at another place."""
        return self._remembered(kind)

    @abstractmethod
    def _remember(self, kind: str, key: str, text: str) -> None:
        """Keep *text* under *key*, in place of an earlier one, in one step."""

    @abstractmethod
    def _forget(self, kind: str, key: str) -> bool:
        """Remove what is kept under *key*; False if nothing is."""

    def notes(self, model: str | None = None) -> list[Note]:
        """All notes, or those on one model, oldest first."""
        records = (_record(Note, text) for text in self._remembered(NOTES))
        wanted = [note for note in records if model in (None, note.model)]
        return sorted(wanted, key=lambda note: (note.created, note.id))

    def keep_note(self, note: Note) -> None:
        """Keep *note*, in place of an earlier one of its id."""
        check_memory(note)
        self._remember(NOTES, note.id, codec.text_of(note))

    def delete_note(self, note: str) -> None:
        """Remove the note of this id."""
        if not _ID.fullmatch(note) or not self._forget(NOTES, note):
            raise UnknownNameError("note", note)

    def baselines(self) -> list[Baseline]:
        """The baselines, one a model, by model."""
        records = (_record(Baseline, text) for text in self._remembered(BASELINES))
        return sorted(records, key=lambda baseline: baseline.model)

    def keep_baseline(self, baseline: Baseline) -> None:
        """Let other runs of the model be held against this one."""
        check_memory(baseline)
        self._remember(BASELINES, _key(baseline.model), codec.text_of(baseline))

    def drop_baseline(self, model: str) -> None:
        """Let the model have no baseline."""
        if not self._forget(BASELINES, _key(model)):
            raise UnknownNameError("baseline of the model", model)

    def standings(self) -> list[RunStanding]:
        """What was kept of how runs stand against baselines."""
        texts = self._remembered(STANDINGS)
        return [standing for text in texts for standing in codec.records_of(RunStanding, text)]

    def keep_standings(self, model: str, standings: Sequence[RunStanding]) -> None:
        """Keep how the runs of a model stand, if the store may be written."""
        if not self._read_only:
            self._remember(STANDINGS, _key(model), codec.text_of(standings))

    def _baseline_gone(self, run: str) -> None:
        """Forget that *run*, which was deleted, is a baseline."""
        for baseline in self.baselines():
            if baseline.run == run:
                self._forget(BASELINES, _key(baseline.model))
                self._forget(STANDINGS, _key(baseline.model))

    def _baseline_renamed(self, run: str, new_name: str) -> None:
        """Go on with the baseline *run* under its new name."""
        for baseline in self.baselines():
            if baseline.run == run:
                self.keep_baseline(replace(baseline, run=new_name))


def _key(model: str) -> str:
    """A model's name may have any letters and length."""
    return hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _record(kind: type[_T], text: str) -> _T:
    return codec.record_of(kind, text)


def check_memory(record: Note | Baseline) -> None:
    """Return if *record* can be kept; in a backup may stand anything.

    Raises:
        InputError: it cannot.
    """
    for field in fields(record):
        value = getattr(record, field.name)
        is_text = isinstance(value, str) or (field.name == "edited" and value is None)
        if field.name not in ("output", "bookmark") and not is_text:
            raise InputError(f"the {field.name} of a note or baseline is a text")
    if isinstance(record, Note):
        _check_note(record)


def _check_note(note: Note) -> None:
    if not note.op:
        raise InputError("a note is about an op")
    if not _ID.fullmatch(note.id):
        raise InputError(f"{str(note.id)[:80]!r} is no id of a note")
    if not isinstance(note.bookmark, bool):
        raise InputError(f"{note.bookmark!r} does not say whether it is a bookmark")
    if not (note.output is None or (type(note.output) is int and note.output >= 0)):
        raise InputError(f"{note.output!r} is no number of an output")
    if not note.text.strip() and not note.bookmark:
        raise InputError("a note without a text says nothing", hint="a bookmark needs none")
    if len(note.text) > _MOST_TEXT:
        raise InputError(f"a note has {_MOST_TEXT} characters at most, this one {len(note.text)}")
