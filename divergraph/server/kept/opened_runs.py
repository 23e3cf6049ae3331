"""The dumps of the runs whose tensors were asked for last, opened once for many questions."""

from __future__ import annotations

from divergraph.api.answers import TensorValues
from divergraph.ask.facts import resolve_op
from divergraph.ask.tensor_values import RunTensors
from divergraph.jobs.progress import NO_PROGRESS
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.recent import Recent
from graphstore.schema import codec


class OpenedRuns:
    """Tensors of the runs in *store*; what is known of them, which is no values, takes about *most*
    bytes, or those of one run."""

    def __init__(self, store: GraphStore, most: int) -> None:
        self._store = store
        self._opened: Recent[RunTensors] = Recent(1, most, lambda opened: opened.about_bytes)

    def values(self, run: str, op: str, output: int | None, input_: int | None) -> TensorValues:
        """The values of an output or input of a device op; output 0 if neither is named.

        Raises:
            InputError: both are named, or the dumps are gone.
            UnknownNameError: no such run or op.
        """
        if output is not None and input_ is not None:
            raise InputError("give an output or an input, not both")
        store = self._store
        written = codec.text_of(store.run(run))  # another run that takes the name is opened anew
        found = resolve_op(store, run, op)
        opened = self._opened.get(
            written, lambda: RunTensors.stored(lambda ask: ask(store), run, NO_PROGRESS)
        )
        return opened.values(found, output or 0 if input_ is None else input_, input_ is None)
