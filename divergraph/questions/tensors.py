"""The values of one tensor on both sides."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from divergraph.api.answers import ErrorPicture, TensorValues, ValueHistogram, ValueSlice
from divergraph.api.runs.compared_run import ComparedRun
from divergraph.ask.question import Answer, OpName, Parameter, RunName
from divergraph.present.declared_answer import WrittenQuestion
from divergraph.present.json.shapes import Json
from divergraph.present.json.tensor import histogram_json, slice_json, tensor_answer_json
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import InputError

OutputNumber: TypeAlias = Annotated[
    int | None, Parameter("Its output N; default: 0.", metavar="N", minimum=0)
]
InputNumber: TypeAlias = Annotated[int | None, Parameter("Its input N.", metavar="N", minimum=0)]


@dataclass(frozen=True, slots=True)
class TensorPicture:
    """The values of a tensor, and how and where they differ."""

    values: TensorValues
    picture: ErrorPicture


@dataclass(frozen=True, slots=True)
class TensorSlice:
    """The values of a tensor at a place."""

    values: TensorValues
    found: ValueSlice


@dataclass(frozen=True, slots=True)
class TensorDistribution:
    """How the values of a tensor are distributed."""

    values: TensorValues
    found: ValueHistogram


class OfTensor(WrittenQuestion[Answer]):
    """A question about one output or input of a device op; output 0 if neither is named."""

    __slots__ = ()
    run: str
    op: str
    output: int | None
    input_: int | None

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> Answer:
        """The answer of its dumps.

        Raises:
            InputError: both an output and an input are named, the parameters do not fit the
                tensor, or the dumps are gone.
        """
        return self.of(tensor_values(store, self.run, self.op, self.output, self.input_))

    @abstractmethod
    def of(self, values: TensorValues) -> Answer:
        """The answer for a tensor that was read.

        Raises:
            InputError: the parameters do not fit it.
        """


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

    def json(self, answer: TensorPicture) -> Mapping[str, Json]:
        """What ``tensor`` prints."""
        values = answer.values
        return tensor_answer_json(self.run, values.comparison, values.layout, answer.picture)


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

    def json(self, answer: TensorSlice) -> Mapping[str, Json]:
        """What ``tensor --at`` prints."""
        return slice_json(self.run, answer.values.comparison, answer.found)


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

    def json(self, answer: TensorDistribution) -> Mapping[str, Json]:
        """What ``tensor --bins`` prints."""
        return histogram_json(self.run, answer.values.comparison, answer.found)


def tensor_values(
    store: GraphStore, run: str, op: str, output: int | None, input_: int | None
) -> TensorValues:
    """The values of an output or input of a device op; output 0 if neither is named.

    Raises:
        InputError: both are named, or the dumps are gone.
    """
    if output is not None and input_ is not None:
        raise InputError("give an output or an input, not both")
    return ComparedRun(run, store=store).tensor(op, output or 0, input=input_)
