"""What runs an original model on this machine: the one contract of all executors.

Capturing a golden dump, re-running single ops on the device's own inputs and matching
ops by re-execution all ask here. Executors are plug-ins (entry points of the group
``divergraph.executors``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from divergraph.values.array_types import Array as Array
from graphstore.errors import InputError
from graphstore.model import AttrValue, ModelGraph, Tensor

DEFAULT_MEMORY = 1 << 30
"""Bytes of tensors an executor may hold at once, not counting weights."""


@dataclass(frozen=True, slots=True)
class RunnableSubgraph:
    """A part of the model, such as the ops between measured tensors: everything between *inputs*
    and *outputs* (tensor names). Constants belong to it without being named."""

    key: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubgraphResult:
    """The outputs of a subgraph by name (``values``); ``failure`` says why there are none."""

    key: str
    values: Mapping[str, Array]
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A tensor an executor cannot give, with the reason."""

    tensor: str
    reason: str


SubgraphValues: TypeAlias = Callable[[RunnableSubgraph], Mapping[str, Array]]
"""Gives the input values of a subgraph, by tensor name; called when they are needed."""


class Executor(Protocol):
    """Runs one model, op by op as its author wrote it: no fusion, no rewriting.

    Tensors have the names of the model graph of the same file: ``Tensor.name``.
    """

    name: str
    """The engine with its version: ``onnxruntime 1.31.1``."""
    inputs: tuple[Tensor, ...]
    """The inputs a run must be fed."""
    tensors: tuple[str, ...]
    """The tensors a run can give, in execution order, without inputs and constants."""
    unavailable: tuple[Unavailable, ...]
    """The tensors of the graph a run cannot give; a run adds those it turned out not to give."""

    def run(
        self,
        feeds: Mapping[str, Array],
        wanted: Sequence[str] | None = None,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[tuple[str, Array]]:
        """The values of *wanted* (default: all of :attr:`tensors`), each once.

        They come in batches of about *memory* bytes, so that each can be used and freed. bfloat16
        and float8 tensors come as float32 of the same value.

        Raises:
            InputError: a feed is missing, unknown or of another type or shape.
            ExecutionError: the model does not run here.
        """
        ...

    def run_subgraphs(
        self,
        subgraphs: Iterable[RunnableSubgraph],
        values: SubgraphValues,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[SubgraphResult]:
        """Run each subgraph alone on the inputs *values* gives for it. One that fails has a
        ``failure`` in its result; the others still run."""
        ...

    def close(self) -> None:
        """Release the model; the executor must not be used afterwards."""
        ...


class AdditiveRun(Protocol):
    """A model that can be run repeatedly with values added to inner tensors."""

    tensors: tuple[str, ...]
    """The tensors values can be added to: those asked for that are floats."""

    def run(self, additions: Mapping[str, Array]) -> Mapping[str, Array]:
        """The outputs, by name, with *additions* added to the tensors of those names.

        Raises:
            ExecutionError: it does not run.
        """
        ...


@runtime_checkable
class Additive(Protocol):
    """An executor that can add values to inner tensors of the model."""

    def with_additions(
        self, feeds: Mapping[str, Array], tensors: Sequence[str], outputs: Sequence[str]
    ) -> AdditiveRun:
        """The model on *feeds*, *tensors* open for additions as far as they are floats.

        *feeds* may hold tensors inside of the model beside its inputs: these are not computed.

        Raises:
            InputError: a feed does not fit, or a tensor is none of the model.
            ExecutionError: the framework refuses it.
        """
        ...


@dataclass(frozen=True, slots=True)
class QuantisedRead:
    """The op whose first output is ``maker`` reads ``tensor`` in 8 bits: rounded to ``scale`` times
    an integer of -128..127 (``signed``) or 0..255, where ``zero`` is the integer that stands for 0.
    Several scales run along ``axis``."""

    maker: str
    tensor: str
    scale: Array
    zero: Array
    signed: bool = True
    axis: int = 1


@runtime_checkable
class QuantisedRun(AdditiveRun, Protocol):
    """An additive run in which chosen ops may also read their operands quantised."""

    makers: tuple[str, ...]
    """The ops with readings, by their first outputs."""

    def run_quantised(
        self, additions: Mapping[str, Array], exact: Collection[str]
    ) -> Mapping[str, Array]:
        """The outputs, by name, all readings quantised but those of ops *exact*.

        Raises:
            ExecutionError: it does not run.
        """
        ...


@runtime_checkable
class Quantising(Protocol):
    """An executor that can quantise the operands of ops of the model."""

    def with_readings(
        self,
        feeds: Mapping[str, Array],
        tensors: Sequence[str],
        outputs: Sequence[str],
        readings: Sequence[QuantisedRead],
    ) -> QuantisedRun:
        """As ``with_additions``, and open for *readings*.

        Raises:
            InputError: a feed does not fit, or a tensor is none of the model.
            ExecutionError: the model's types or its version do not take such readings.
        """
        ...


OP_TYPE = "op_type"
"""The attribute by which :class:`Alterable` makes an op one of another type, which takes the same
operands; attributes that this type lacks are dropped."""


@runtime_checkable
class Alterable(Protocol):
    """An executor that can run an op with other attributes than those of the file."""

    def run_altered(
        self,
        subgraph: RunnableSubgraph,
        values: Mapping[str, Array],
        tensor: str,
        attrs: Mapping[str, AttrValue],
    ) -> Mapping[str, Array] | None:
        """What *piece* makes of *values* if the op that makes *tensor* has *attrs*, too.

        None if it does not run so.
        """
        ...


@dataclass(frozen=True, slots=True)
class BodyChange:
    """What the op of a body that makes ``tensor`` gives in every run of the body.

    That is ``own`` times its output, and ``share`` times its input at ``position`` (None: of no
    input), and ``offset``. With a ``kind`` the output is that of an op of this type. With ``turns``
    it is so only in these turns of the loop, from the first to the last (None: to the end),
    counted from 0.
    """

    tensor: str
    own: float = 1.0
    share: float = 0.0
    position: int | None = None
    offset: float = 0.0
    kind: str = ""
    turns: tuple[int, int | None] | None = None


@runtime_checkable
class AlterableBodies(Protocol):
    """An executor that can run an op whose body has another op than that of the file."""

    def run_with_body(
        self, subgraph: RunnableSubgraph, values: Mapping[str, Array], change: BodyChange
    ) -> Mapping[str, Array] | None:
        """What *subgraph* makes of *values* with one op of a body changed.

        None if it does not run so, or several ops of its bodies make a tensor of that name.
        """
        ...


class ExecutorFactory(Protocol):
    """Opens models of one framework."""

    name: str
    """The entry point's name; ``extra`` is the extra to install if its packages are missing."""
    extra: str

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph*, as read from a file, is of the framework it runs."""
        ...

    def open(self, path: Path, graph: ModelGraph) -> Executor:
        """The model behind *path*, of which *graph* was read.

        Raises:
            ExecutionError: the framework refuses it.
        """
        ...


@runtime_checkable
class ConfinedFactory(ExecutorFactory, Protocol):
    """A factory whose models run in a process of their own, without network access. That process
    imports the factory's module and reads the model's folder. Models of other factories run in this
    process."""

    packages: tuple[str, ...]
    """The packages that must be installed for a model to run."""

    def load(self) -> None:
        """Import the framework, whose memory does not count as the model's.

        Factories whose ``load`` is one function share a process for models of the same folders.
        """
        ...


@runtime_checkable
class OptionFactory(ExecutorFactory, Protocol):
    """A factory that takes options beside the file."""

    options: Mapping[str, str]
    """What each option means, by name."""

    def open_with(self, path: Path, graph: ModelGraph, options: Mapping[str, str]) -> Executor:
        """As ``open``, with some of :attr:`options`.

        Raises:
            InputError: an option has no such value.
        """
        ...


@runtime_checkable
class PartialFactory(ExecutorFactory, Protocol):
    """A factory that gives some models whole and others only in part: for these another one comes
    first, if its packages are installed."""

    def covers(self, graph: ModelGraph, options: Mapping[str, str] | None) -> bool:
        """Whether all of *graph* that counts can be run with *options*; None if values of inputs
        and variables will come with each question, as they do from dumps."""
        ...


def chosen_tensors(tensors: Sequence[str], wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The tensors a run is to give: *wanted*, or all *tensors*.

    Raises:
        InputError: a name that is not among them.
    """
    if wanted is None:
        return tuple(tensors)
    can_be_given = set(tensors)
    for name in wanted:
        if name not in can_be_given:
            raise InputError(f"the model makes no tensor {name!r} that can be kept")
    return tuple(wanted)


def checked_feeds(inputs: Sequence[Tensor], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """*feeds* as *inputs* take them.

    Raises:
        InputError: one is missing, unknown or does not fit.
    """
    tensors = {tensor.name: tensor for tensor in inputs}
    missing = [name for name in tensors if name not in feeds]
    unknown = [name for name in feeds if name not in tensors]
    if missing or unknown:
        what = f"no value for input {missing[0]!r}" if missing else f"no input {unknown[0]!r}"
        listed = ", ".join(tensors) or "none"
        raise InputError(what, hint=f"the model's inputs: {listed}")
    return {name: checked_feed(tensors[name], value) for name, value in feeds.items()}


def checked_feed(tensor: Tensor, value: Array) -> Array:
    """*value* converted for the input *tensor*: floats are cast to its float type.

    Raises:
        InputError: another kind of element, rank or dimension.
    """
    wanted = None if tensor.dtype is None else tensor.dtype.numpy
    if wanted is not None and value.dtype != wanted:
        if value.dtype.kind != np.dtype(wanted).kind:
            raise InputError(
                f"input {tensor.name!r} takes {wanted}, not {value.dtype}",
                hint="give a file of that element type",
            )
        value = value.astype(wanted)
    if tensor.shape is not None and not _fits(tensor.shape, value.shape):
        shape = "x".join("?" if size is None else str(size) for size in tensor.shape)
        shape_text = "x".join(map(str, value.shape)) or "a single value"
        raise InputError(
            f"input {tensor.name!r} has shape {shape or 'of one value'}, not {shape_text}"
        )
    return value


def _fits(declared: tuple[int | None, ...], actual: tuple[int, ...]) -> bool:
    return len(declared) == len(actual) and all(
        want is None or want == have for want, have in zip(declared, actual, strict=True)
    )
