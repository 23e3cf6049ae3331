"""What was written of ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.memory.notes import list_notes
from divergraph.ask.question import Parameter, Question
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import Note


@dataclass(frozen=True, slots=True)
class NotesAnswer:
    """Notes, oldest first."""

    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class NotesQuestion(Question[NotesAnswer]):
    """Which notes are there, of all models, of the model of RUN, or of its OP?"""

    name = "notes"
    command = "note list"

    run: Annotated[str | None, Parameter("Of its model.", is_argument=True, is_run=True)] = None
    op: Annotated[str | None, Parameter("Of this op.", is_argument=True)] = None

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> NotesAnswer:
        """The notes.

        Raises:
            InputError: an op without a run.
        """
        if self.op is not None and self.run is None:
            raise InputError("an op is one of a run", hint="name the run, too")
        return NotesAnswer(tuple(list_notes(store, self.run, self.op)))


QUESTION = NotesQuestion
