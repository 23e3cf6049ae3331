"""The values of a tensor at a place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.question import OpName, Parameter, RunName
from divergraph.ask.tensor_values import InputNumber, OfTensor, OutputNumber, TensorValues
from divergraph.dump_diff.value_parts import ValueSlice


@dataclass(frozen=True, slots=True)
class TensorSlice:
    """The values of a tensor at a place."""

    values: TensorValues
    found: ValueSlice


@dataclass(frozen=True, slots=True)
class TensorSliceQuestion(OfTensor[TensorSlice]):
    """Which values has a tensor at a place, on both sides? Reads the dumps.

    ``at`` is an index, or a range, of each axis of golden's tensor: ``0,3:9,:``.
    """

    name = "tensor-values"
    command = "tensor --at"
    path = "/runs/{run}/tensor/values"
    reads_files = shows_values = True
    shapes = ("TensorSlice",)

    run: RunName
    op: OpName
    at: Annotated[str, Parameter("0,3:9,: has an index or a range for each axis.")]
    output: OutputNumber = None
    input_: InputNumber = None

    def of(self, values: TensorValues) -> TensorSlice:
        """The values there.

        Raises:
            InputError: there is no such place, or it holds too many.
        """
        return TensorSlice(values, values.at(self.at))


QUESTION = TensorSliceQuestion
