"""How a tensor differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.question import OpName, Parameter, RunName
from divergraph.ask.tensor_values import InputNumber, OfTensor, OutputNumber, TensorValues
from divergraph.dump_diff.error_picture import ErrorPicture


@dataclass(frozen=True, slots=True)
class TensorPicture:
    """The values of a tensor, and how and where they differ."""

    values: TensorValues
    picture: ErrorPicture


@dataclass(frozen=True, slots=True)
class TensorQuestion(OfTensor[TensorPicture]):
    """How does a tensor of a device op differ from the golden one? Reads the dumps.

    ``output`` is 0 if neither it nor ``input_`` is given; ``top`` elements are listed.
    """

    name = "tensor"
    reads_files = shows_values = True
    shapes = ("TensorAnswer",)

    run: RunName
    op: OpName
    output: OutputNumber = None
    input_: InputNumber = None
    top: Annotated[
        int, Parameter("So many of the worst elements.", metavar="N", minimum=0, maximum=10_000)
    ] = 10

    def of(self, values: TensorValues) -> TensorPicture:
        """Its values and where they differ."""
        return TensorPicture(values, values.picture(self.top))


QUESTION = TensorQuestion
