"""How the values of a tensor are distributed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.question import OpName, Parameter, RunName
from divergraph.ask.tensor_values import InputNumber, OfTensor, OutputNumber, TensorValues
from divergraph.dump_diff.value_parts import ValueHistogram


@dataclass(frozen=True, slots=True)
class TensorDistribution:
    """How the values of a tensor are distributed."""

    values: TensorValues
    found: ValueHistogram


@dataclass(frozen=True, slots=True)
class TensorHistogramQuestion(OfTensor[TensorDistribution]):
    """How are the values of a tensor distributed on both sides? Reads the dumps."""

    name = "tensor-histogram"
    command = "tensor --bins"
    path = "/runs/{run}/tensor/histogram"
    reads_files = shows_values = True
    shapes = ("TensorHistogram",)

    run: RunName
    op: OpName
    bins: Annotated[int, Parameter("Over so many bins.", minimum=1, maximum=1000)]
    output: OutputNumber = None
    input_: InputNumber = None

    def of(self, values: TensorValues) -> TensorDistribution:
        """How many lie in each of as many bins.

        Raises:
            InputError: they are no real numbers.
        """
        return TensorDistribution(values, values.distribution(self.bins))


QUESTION = TensorHistogramQuestion
