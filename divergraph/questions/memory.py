"""What a team said: notes on the ops of models, and baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.memory.notes import list_notes
from divergraph.ask.question import Parameter
from divergraph.present.declared_answer import WrittenQuestion
from divergraph.present.json.memory import baselines_answer, notes_answer
from divergraph.present.json.shapes import Json
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import Baseline, Note


@dataclass(frozen=True, slots=True)
class NotesQuestion(WrittenQuestion[Sequence[Note]]):
    """What was written of the ops of all models, of that of a run, or of one op?"""

    name = "notes"
    command = "note list"
    shapes = ("NotesAnswer",)

    run: Annotated[str | None, Parameter("Of its model.", is_argument=True, is_run=True)] = None
    op: Annotated[str | None, Parameter("Of this op.", is_argument=True)] = None

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> Sequence[Note]:
        """The notes, oldest first.

        Raises:
            InputError: an op without a run.
        """
        if self.op is not None and self.run is None:
            raise InputError("an op is one of a run", hint="name the run, too")
        return list_notes(store, self.run, self.op)

    def json(self, answer: Sequence[Note]) -> Mapping[str, Json]:
        """What ``note list`` prints."""
        return notes_answer(answer)


@dataclass(frozen=True, slots=True)
class BaselinesQuestion(WrittenQuestion[Sequence[Baseline]]):
    """Which run is the baseline of which model?"""

    name = "baselines"
    command = "baseline list"
    shapes = ("BaselinesAnswer",)

    def ask(
        self, store: GraphStore, cancellation: Cancellation | None = None
    ) -> Sequence[Baseline]:
        """The baselines, by model."""
        return store.baselines()

    def json(self, answer: Sequence[Baseline]) -> Mapping[str, Json]:
        """What ``baseline list`` prints."""
        return baselines_answer(answer)
