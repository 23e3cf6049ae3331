"""The outputs computed from an input that the device did not dump, and how to run them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from divergraph.execute.contract import Array, RunnableSubgraph
from divergraph.rootcause.devices.floors import least_floor
from divergraph.rootcause.devices.mixed_precision import Arithmetics
from divergraph.rootcause.devices.quantised_ops import QuantisedOps, healthy_ratio
from divergraph.rootcause.groups.groups import Feed, Group
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.values import relative, same_shape
from graphstore.model import ErrorSplit, Guilt, TensorRef

_CUTS = frozenset({"Relu", "Relu6", "Clip", "Minimum", "Maximum"})
"""Ops behind which a value is known only where it was not cut off."""

_MANY = 1 << 20
"""Elements of an output whose chance errors average out: the least floor of a large tensor."""
_NO_WEIGHTS: Mapping[str, Array] = {}


@dataclass(frozen=True)
class Reader:
    """A ``group`` that reads the input ``name``. ``device`` is its output, in the shape of its
    ``reference`` on golden's input; ``given`` are its feeds, golden's input among them. ``noise``
    is the relative error that the device's arithmetic explains. ``steps`` is the arithmetic of
    quantisers whose scales the device's graph gives, None without them: what they make of an
    input follows exactly, down to the values beyond their ranges, so the reader is run with them.
    ``weights`` are its constants as such a device holds them, by name, and ``solved_noise`` is what
    its arithmetic explains beside them.
    """

    run: PreparedRun
    name: str
    group: Group
    split: ErrorSplit
    given: Mapping[str, Array]
    device: Array
    reference: Array
    noise: float
    arithmetics: Arithmetics
    steps: Emulation | None = None
    weights: Mapping[str, Array] = field(default_factory=dict)
    solved_noise: float = 0.0

    @property
    def output(self) -> TensorRef:
        """The device's output."""
        return self.group.output

    @property
    def golden(self) -> Array:
        """The input as golden was fed it."""
        return self.given[self.name]

    @property
    def is_wrong(self) -> bool:
        """Whether the output is not what golden's input gives."""
        return self.split.guilt is not Guilt.NONE

    def outputs(self, inputs: Sequence[Array]) -> list[Array | None]:
        """The group's output for each of *inputs*; None where it does not run."""
        if self.steps is None:
            return self._run(inputs, self.run.golden.name(self.group.golden))
        fed = [self._fed(each) for each in inputs]
        made = self.steps.emulated([self.group] * len(fed), fed)
        return [None if x is None else same_shape(x, self.reference.shape) for x in made]

    def before_cut(self, inputs: Sequence[Array]) -> list[Array | None]:
        """As :meth:`outputs`, before a last op or a quantiser cuts values off."""
        return self._run(inputs, self._uncut, self.weights)

    def arithmetic_error(self, values: Array) -> Array:
        """How far the device's arithmetic, its rounded weights among it, is off on this input: of
        the group's output, 0 where it cannot be emulated.

        A bias rounded to 16 bits is an error of one sign in all of a channel, which a fit without
        it would take for a property of the input.
        """
        (exact,) = self._run([values], self.run.golden.name(self.group.golden))
        (emulated,) = self.arithmetics.emulated([self.group], [self._fed(values)])
        if exact is None or emulated is None or emulated.shape != exact.shape:
            return np.zeros(self.reference.shape)
        error = np.subtract(emulated, exact, dtype=np.float64)
        return np.where(np.isfinite(error), error, 0.0)

    def gives(self, values: Array) -> bool:
        """Whether the device's output is that of an input up to the order of sums."""
        (output,) = self.outputs([values])
        least = least_floor(self.arithmetics.of(self.group).precision, self.device.size)
        return output is not None and relative(self.device, output) <= healthy_ratio() * least

    def suspicion(self, output: Array | None) -> float:
        """How far the device's output is from *output*, in its noise."""
        return np.inf if output is None else relative(self.device, output) / self.noise

    @cached_property
    def _uncut(self) -> str:
        op = self.run.golden.ops[self.group.golden.op]
        if op.type in _CUTS and op.inputs and op.inputs[0] is not None and len(self.group.ops) > 1:
            return op.inputs[0].tensor
        return self.run.golden.name(self.group.golden)

    @cached_property
    def known(self) -> Array:
        """Where the device's output is what was there before it was cut off, by an op such as Relu
        or by the range of a quantiser: an extreme value that several elements share is a limit."""
        known = np.isfinite(self.device)
        values = np.unique(self.device[known])
        if values.size > 2:  # else the limits would be all there is
            for limit in (values[0], values[-1]):
                at_limit = self.device == limit
                if np.count_nonzero(at_limit) > 1:
                    known &= ~at_limit
        return known

    def _run(
        self, inputs: Sequence[Array], name: str, weights: Mapping[str, Array] = _NO_WEIGHTS
    ) -> list[Array | None]:
        feeds = (*(feed.tensor for feed in self.group.feeds), *weights)
        subgraphs = [RunnableSubgraph(str(number), feeds, (name,)) for number in range(len(inputs))]
        found: list[Array | None] = [None] * len(inputs)

        def values(subgraph: RunnableSubgraph) -> Mapping[str, Array]:
            return {**self._fed(inputs[int(subgraph.key)]), **weights}

        memory = self.run.options.memory // 2
        for result in self.run.executor.run_subgraphs(subgraphs, values, memory=memory):
            made = result.values.get(name)
            if made is not None:
                found[int(result.key)] = same_shape(made, self.reference.shape)
        return found

    def _fed(self, values: Array) -> dict[str, Array]:
        return {**self.given, self.name: values.astype(self.golden.dtype)}


def undumped_entries(run: PreparedRun, group: Group) -> Iterator[Feed]:
    """The feeds of *group* that are inputs of the model and that the device did not dump."""
    for feed in group.feeds:
        fed = feed.device is None and is_entry(run.golden, feed)
        if fed and run.values.device_input(feed.tensor) is None:
            yield feed


def is_entry(golden: OpGraph, feed: Feed) -> bool:
    """Whether *feed* brings in an input of the model, as such or as golden's op for it."""
    return feed.golden is None or golden.is_source(feed.golden.op)


def readers_of(
    run: PreparedRun,
    groups: Sequence[Group],
    splits: Mapping[TensorRef, ErrorSplit],
    arithmetics: Arithmetics,
    quantised: QuantisedOps,
) -> dict[str, list[Reader]]:
    """By input that the device did not dump: the judged outputs computed from it, if one of them is
    guilty or suspect. *arithmetics* are the device's, *quantised* its quantised ops."""
    found: dict[str, list[tuple[Group, ErrorSplit]]] = {}
    for group in groups:
        split = splits[group.output]
        if not split.failure and group.ops:
            for feed in undumped_entries(run, group):
                found.setdefault(feed.tensor, []).append((group, split))
    return {
        name: [
            reader
            for group, split in each
            if (reader := _reader(run, name, group, split, arithmetics, quantised))
        ]
        for name, each in found.items()
        if any(split.guilt is not Guilt.NONE for _, split in each)
    }


def _reader(
    run: PreparedRun,
    name: str,
    group: Group,
    split: ErrorSplit,
    arithmetics: Arithmetics,
    quantised: QuantisedOps,
) -> Reader | None:
    given, missing = run.runs.feeds(group)
    device = None if missing else run.values.device(group.output)
    (reference,) = run.runs.references([group], [given]) if device is not None else ("",)
    if device is None or isinstance(reference, str):
        return None
    fitting = same_shape(device, reference.shape)
    if fitting is None or not split.floor:
        return None
    (emulated,) = arithmetics.emulated([group], [given])
    if emulated is None or emulated.shape != reference.shape:
        emulated = reference
    least = least_floor(arithmetics.of(group).precision, _MANY)
    kind = quantised.kind(group)
    if kind is None:
        # The floor may be that of a part of the output.
        noise = max(split.floor, relative(emulated, reference), least)
        reader = Reader(run, name, group, split, given, fitting, reference, noise, arithmetics)
        return replace(reader, solved_noise=noise)
    # What a quantiser's range cuts off is no noise: it follows from the input.
    inside = (emulated != emulated.max()) & (emulated != emulated.min())
    noise = max(relative(emulated[inside], reference[inside]), least) if inside.any() else least
    steps = replace(quantised.floors, plain=True)
    reader = Reader(
        run, name, group, split, given, fitting, reference, noise, arithmetics, steps, {}, noise
    )
    if kind in quantised.kinds:
        reader = _with_weights(reader, steps, least)
    (made,) = reader.outputs([reader.golden])
    return None if made is None else replace(reader, reference=made)


def _with_weights(reader: Reader, steps: Emulation, least: float) -> Reader:
    """*reader* with the weights of a device that keeps to its scales: what it puts out is then off
    by no more than the quantisers behind its input make it, and never less than *least*."""
    exact = replace(reader, weights=steps.held_constants(reader.group, reader.given))
    grid, fed = steps.quantisers.by_tensor.get(reader.name), reader.golden
    if grid is not None and fed.dtype.kind == "f":
        fed = grid(fed)  # what is solved for is the quantised input
    made, uncut = *exact.outputs([fed]), *exact.before_cut([fed])
    if made is None or uncut is None:
        return reader
    inside = (made != made.max()) & (made != made.min())
    off = relative(made[inside], uncut[inside]) if inside.any() else 0.0
    return replace(exact, solved_noise=max(off, least))
