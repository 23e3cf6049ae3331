"""The values of one tensor of a run, both sides of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from numpy.typing import NDArray

from divergraph.ask.facts import resolve_op
from divergraph.ask.question import Answer, Parameter, Question
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.rootcause.stored import check_there, sources_of
from divergraph.submodel.stored_graphs import AskStore
from divergraph.text.words import REASON_WORDS
from divergraph.values.pairs import read_pair
from divergraph.values.unread import or_raise
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore, RunData
from graphstore.errors import InputError
from graphstore.model import Comparison, Side, TensorIO

if TYPE_CHECKING:
    from divergraph.dump_diff.error_picture import ErrorMap, ErrorPicture
    from divergraph.dump_diff.value_parts import ValueHistogram, ValueSlice
    from graphstore.remote.store import RemoteStore

_TENSOR_BYTES = 8000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TensorValues:
    """A device tensor and its golden one, in golden's shape and order of axes.

    ``comparison`` has the metrics, the level and the golden tensor; ``layout`` are the letters of
    the axes (``NCHW``), None where no graph says them.
    """

    op: str
    io: TensorIO
    port: int
    device: NDArray[Any]
    golden: NDArray[Any]
    comparison: Comparison
    layout: str | None = None

    def picture(self, worst: int = 100) -> ErrorPicture:
        """How the sides differ: by decade and by place, with the *worst* elements.

        Raises:
            InputError: the elements are no real numbers.

        >>> import divergraph as dg
        >>> picture = dg.demo().tensor("LeNet/conv2/Conv2DRelu").picture()
        >>> picture.axes[0], picture.is_apart
        ((3,), True)
        >>> int(picture.by_axis[0].means.argmax())
        15
        """
        from divergraph.dump_diff.error_picture import error_picture

        compared, figures = self.comparison, self.comparison.figures
        try:
            return error_picture(
                self.device,
                self.golden,
                atol=0.0 if figures is None else figures.atol,
                rtol=0.0 if figures is None else figures.rtol,
                types=(compared.device_dtype, compared.golden_dtype),
                layout=self.layout,
                worst=worst,
            )
        except ValueError as error:
            raise InputError(f"{self.op}: {error}") from error

    def error_map(self, axes: Sequence[int], cells: Sequence[int]) -> ErrorMap:
        """The mean |device - golden| along one or two *axes*, in at most so many *cells* each."""
        from divergraph.dump_diff.error_picture import error_map

        return error_map(self.device, self.golden, axes, cells)

    def plain(self, side: Side) -> NDArray[Any]:
        """The values of one side in a type that numpy knows itself: small floats as float32.

        Raises:
            InputError: they are no real numbers.
        """
        from divergraph.dump_diff.value_parts import real_numbers

        return real_numbers(self.device if side is Side.DEVICE else self.golden)

    def at(self, place: str) -> ValueSlice:
        """The values at a *place* such as ``0,3:9,:``, an index or a range of each axis of golden's
        tensor; axes that are not named are taken whole.

        Raises:
            InputError: there is no such place, or it holds more than 10,000 values.
        """
        from divergraph.dump_diff.value_parts import values_at

        return values_at(self.device, self.golden, place)

    def distribution(self, bins: int = 50) -> ValueHistogram:
        """How many values of each side lie in each of as many *bins*, the same for both.

        Raises:
            InputError: they are no real numbers.
        """
        from divergraph.dump_diff.value_parts import distribution

        return distribution(self.device, self.golden, bins)

    def __repr__(self) -> str:
        shape = list(self.golden.shape)
        return f"<{self.op} {self.io.value} {self.port}: {self.golden.dtype}{shape}>"


class RunTensors:
    """The dumps of a run, opened once for many tensors.

    Raises:
        InputError: a model or dump is gone, or another one than was compared.
    """

    def __init__(self, data: RunData, progress: Progress) -> None:
        sources = sources_of(data, progress)
        self._pairs = {(pair.op.id, pair.io, pair.port): pair for pair in sources.pairs}
        self._compared = {(item.op, item.io, item.port): item for item in data.comparisons}

    @classmethod
    def stored(cls, ask: AskStore, run: str, progress: Progress) -> RunTensors:
        """Those of a run in a store; it is read only if its files are still there."""
        check_there(ask(lambda store: store.run(run)))
        return cls(ask(lambda store: store.run_data(run)), progress)

    @property
    def about_bytes(self) -> int:
        """About the memory it takes: what is known of each tensor, no values."""
        return len(self._pairs) * _TENSOR_BYTES

    def values(self, op: str, port: int, is_output: bool) -> TensorValues:
        """Both sides of one output or input of the device op *op*.

        Raises:
            InputError: there is no such tensor, or it has no counterpart or dump.
            ImportFormatError: a dump file is damaged, or the shapes do not fit.
        """
        io = TensorIO.OUTPUT if is_output else TensorIO.INPUT
        key = (op, io, port)
        pair, compared = self._pairs.get(key), self._compared.get(key)
        if pair is None or compared is None:
            raise InputError(f"{op}: {_why_not(compared, f'{io.value} {port}')}")
        pair_values = or_raise(read_pair(pair.tensors))
        layout = pair.tensors.layout
        return TensorValues(op, io, port, pair_values.device, pair_values.golden, compared, layout)


class ServedTensors:
    """The tensors of a run whose dumps a server of ours has."""

    def __init__(self, ask: AskStore, run: str) -> None:
        self._ask, self._run = ask, run

    def values(self, op: str, port: int, is_output: bool) -> TensorValues:
        """Both sides of one output or input of the device op *op*, as numpy knows them.

        Raises:
            QueryError: there is no such tensor, or it has no counterpart or dump.
        """
        io = TensorIO.OUTPUT if is_output else TensorIO.INPUT
        comparisons = self._ask(lambda store: store.comparisons(self._run, [op]))
        compared = next(
            (
                comparison
                for comparison in comparisons
                if (comparison.io, comparison.port) == (io, port)
            ),
            None,
        )
        if compared is None:
            raise InputError(f"{op}: {_why_not(None, f'{io.value} {port}')}")
        sides = self._ask(lambda store: _served(store).tensor(self._run, op, io, port))
        layout = str(sides["layout"]) or None
        return TensorValues(op, io, port, sides["device"], sides["golden"], compared, layout)


def opened_tensors(ask: AskStore, run: str, progress: Progress) -> RunTensors | ServedTensors:
    """The tensors of a run in a store: read here where its files are, else by their server.

    Raises:
        InputError: a model or dump is gone, or another one than was compared.
    """
    if not ask(_is_served):
        return RunTensors.stored(ask, run, progress)
    try:
        return RunTensors.stored(ask, run, progress)
    except InputError:  # as it is for who sits elsewhere
        return ServedTensors(ask, run)


def _is_served(store: GraphStore) -> bool:
    from graphstore.remote.store import RemoteStore

    return isinstance(store, RemoteStore)


def _served(store: GraphStore) -> RemoteStore:
    from graphstore.remote.store import RemoteStore

    assert isinstance(store, RemoteStore)
    return store


def _why_not(compared: Comparison | None, what: str) -> str:
    if compared is None or compared.reason is None:
        return f"{what} was not compared"
    words = REASON_WORDS[compared.reason].removesuffix(" (*)")
    return f"{what} has no values of both sides: {words}" + (
        f": {compared.detail}" if compared.detail else ""
    )


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
