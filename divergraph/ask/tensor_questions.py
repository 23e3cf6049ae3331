"""What questions about the values of one tensor share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, TypeAlias

from divergraph.ask.facts import resolve_op
from divergraph.ask.question import Answer, Parameter, Question
from divergraph.ask.tensor_values import TensorValues, opened_tensors
from divergraph.jobs.progress import NO_PROGRESS
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import InputError

OutputNumber: TypeAlias = Annotated[
    int | None, Parameter("Its output N; default: 0.", metavar="N", minimum=0)
]
InputNumber: TypeAlias = Annotated[int | None, Parameter("Its input N.", metavar="N", minimum=0)]


class OfTensor(Question[Answer]):
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


def tensor_values(
    store: GraphStore, run: str, op: str, output: int | None, input_: int | None
) -> TensorValues:
    """The values of an output or input of a device op; output 0 if neither is named.

    Raises:
        InputError: both are named, or the dumps are gone.
    """
    if output is not None and input_ is not None:
        raise InputError("give an output or an input, not both")
    op_id = resolve_op(store, run, op)
    tensors = opened_tensors(lambda ask: ask(store), run, NO_PROGRESS)
    return tensors.values(op_id, (output or 0) if input_ is None else input_, input_ is None)
