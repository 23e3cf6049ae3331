"""The values of one tensor on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from divergraph.api.answers import ErrorPicture, TensorValues
from divergraph.api.runs.compared_run import ComparedRun
from divergraph.present.json.shapes import Json
from divergraph.present.json.tensor import tensor_answer_json
from divergraph.questions.question import Question
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import InputError


@dataclass(frozen=True, slots=True)
class TensorPicture:
    """The values of a tensor, and how and where they differ."""

    values: TensorValues
    picture: ErrorPicture


@dataclass(frozen=True, slots=True)
class TensorQuestion(Question[TensorPicture]):
    """How does a tensor of a device op differ from the golden one? Reads the dumps.

    ``output`` is 0 if neither it nor ``input_`` is given; ``top`` elements are listed.
    """

    run: str
    op: str
    output: int | None = None
    input_: int | None = None
    top: int = 10

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> TensorPicture:
        """Its values and where they differ.

        Raises:
            InputError: both an output and an input are named, or the dumps are gone.
        """
        if self.output is not None and self.input_ is not None:
            raise InputError("give an output or an input, not both")
        run = ComparedRun(self.run, store=store)
        values = run.tensor(self.op, self.output or 0, input=self.input_)
        return TensorPicture(values, values.picture(self.top))

    def json(self, answer: TensorPicture) -> Mapping[str, Json]:
        """What ``tensor`` prints."""
        values = answer.values
        return tensor_answer_json(self.run, values.comparison, values.layout, answer.picture)
