"""Groups: the golden ops between a measured device output and the measured outputs before it."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from divergraph.rootcause.devices.quantisers import DEQUANTISING, computes_in_integers
from divergraph.rootcause.groups.op_graph import OpGraph, Source, source_of
from graphstore.model import InputRef, Op, TensorRef

_MOST_OPS = 5000
"""A group of more ops, of a device that dumped hardly anything, would narrow nothing down."""
_ASKING, _ASKED = frozenset(("Equal", "NotEqual")), 2
_UNSEEN = "quantised with an unknown scale"
DYNAMIC = "quantised with scales of the values"


@dataclass(frozen=True, slots=True)
class Feed:
    """One input of a group, by the name of its golden tensor.

    Its value is that of the device output ``device``; else of ``golden`` in the golden dump; else,
    for a graph input, what the device was fed, or golden if that was not dumped. ``quantised``: the
    device quantises it on the way to the op.
    """

    tensor: str
    device: TensorRef | None = None
    golden: TensorRef | None = None
    quantised: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """The golden ops that compute the tensor ``golden``, which device output ``output`` stands for.

    ``ops`` are golden op ids in topological order; none if the device only hands on a value, that
    of the device output ``is_passthrough``. ``failure`` says why it cannot be run; ``source`` is
    set if no op computes the tensor (it is fed, drawn at random, ...). ``kernels`` are the types
    of device ops that compute it in integers and are not golden's own; their scales may be unknown.
    ``DYNAMIC`` stands for those that take their scales from the values. ``golden_error`` is the
    relative error of golden's output against its own ops, where these were run on golden's inputs.
    """

    output: TensorRef
    golden: TensorRef
    ops: tuple[str, ...] = ()
    feeds: tuple[Feed, ...] = ()
    is_passthrough: TensorRef | None = None
    failure: str = ""
    source: Source | None = None
    kernels: frozenset[str] = frozenset()
    golden_error: float = 0.0

    @property
    def integers(self) -> bool:
        """Whether the device computes the group in integers."""
        return bool(self.kernels)

    @property
    def measured(self) -> tuple[TensorRef, ...]:
        """The device outputs the group is fed."""
        return tuple(feed.device for feed in self.feeds if feed.device is not None)

    def is_alike(self, other: Group) -> bool:
        """Whether *other* runs the same ops on the same values."""
        own, others = (
            (group.ops, group.feeds, group.is_passthrough, group.failure) for group in (self, other)
        )
        return own == others


class GroupCutter:
    """Cuts groups out of *golden* for the measured outputs of *device*.

    *measured* gives the golden tensor each usable device output stands for, in device order;
    *golden_dumped* are the golden tensors whose values are known. Constants are golden's, except
    the golden tensors *changed*, which are fed as the device has them. *unseen* are device ops that
    quantise with an unknown scale, *dynamic* those that do with scales of the values.
    """

    def __init__(
        self,
        golden: OpGraph,
        device: OpGraph,
        measured: Mapping[TensorRef, TensorRef],
        golden_dumped: frozenset[TensorRef],
        changed: frozenset[TensorRef] = frozenset(),
        unseen: frozenset[str] = frozenset(),
        dynamic: frozenset[str] = frozenset(),
    ) -> None:
        self._golden = golden
        self._unseen = unseen
        self._dynamic = dynamic
        self._device = device
        self._measured = measured
        self._golden_dumped = golden_dumped
        self._unknown = golden.behind_unknown(golden_dumped)
        self._changed = changed
        self._quantised: set[TensorRef | str] = set()
        self._kernels: set[str] = set()
        self._first: dict[TensorRef, TensorRef] = {}
        self._stops = {
            out: original for out, original in measured.items() if original not in golden.flows
        }
        for output, original in self._stops.items():
            self._first.setdefault(original, output)

    def group(self, output: TensorRef) -> Group:
        """The group of a measured device output; its ``failure`` says why it cannot be run."""
        golden = self._measured[output]
        cut, from_outside = self._cut(output.op)
        if golden in cut:
            return Group(output, golden, is_passthrough=cut[golden])
        op = self._golden.ops[golden.op]
        source = source_of(op)
        lost = Source.LATE if self._golden.is_lost(op.id) else None
        blocked = source if source in (Source.ENTRY, Source.RANDOM) else lost
        if blocked is not None:
            reason = _not_again(op, blocked)
            return Group(output, golden, (op.id,), failure=reason, source=blocked)
        if golden in self._golden.flows:
            reason = f"{op.name} ({op.type}) {Source.FLOW.value} and has no value of its own"
            return Group(output, golden, (op.id,), failure=reason, source=Source.FLOW)
        if self._from_golden(golden) and source is Source.VARIABLE:
            return Group(output, golden, feeds=(Feed(self._golden.name(golden), golden=golden),))
        if op.subgraph:
            return Group(output, golden, failure="inside a body: its owner is run as one op")
        # First the cut along the device's own edges: it feeds what the device's op really read.
        group = self._with_kernels(self._between(output, golden, cut))
        if not group.failure and (from_outside or all(feed.device for feed in group.feeds)):
            return group
        # Where that leaves inputs open, golden's edges may stop at further measured tensors.
        stops = {original: device for original, device in self._first.items() if device != output}
        stops.pop(golden, None)
        wider = self._with_kernels(self._between(output, golden, {**stops, **cut}))
        return group if wider.failure and not group.failure else wider

    def _with_kernels(self, group: Group) -> Group:
        """*group* with the integer kernels that are the device's alone."""
        own = {self._golden.ops[op_id].type for op_id in group.ops}
        return replace(group, kernels=frozenset(self._kernels - own))

    def _cut(self, op_id: str) -> tuple[dict[TensorRef, TensorRef], bool]:
        """The measured device outputs a device op's value comes from, by golden tensor, and
        whether some path leads to an input of the model.

        Where several device outputs stand for one golden tensor (before and after an inserted
        Cast), it is the one the op really reads.
        """
        originals: dict[TensorRef, TensorRef] = {}
        self._quantised, self._kernels = set(), set()
        open_end = False
        seen: set[tuple[TensorRef, bool]] = set()
        waiting = {op_id: False}
        while waiting:
            following: dict[str, bool] = {}
            for device_op, was_quantised in waiting.items():
                op = self._device.ops[device_op]
                quantised = was_quantised or (op.type in DEQUANTISING and device_op != op_id)
                self._kernels.update(self._integers(op))
                refs = list(self._device.inputs(op))
                outer = [ref.tensor for ref in refs if self._device.is_entry(ref)]
                open_end |= bool(outer) or self._device.is_source(device_op)
                self._quantised.update(outer if quantised else ())
                for producer in (ref.producer for ref in refs):
                    if producer is None or (producer, quantised) in seen:
                        continue
                    seen.add((producer, quantised))
                    original = self._stops.get(producer)
                    if original is not None:
                        before = originals.setdefault(original, producer)
                        self._quantised |= {producer} if quantised else set()
                        if self._is_of(before, producer):
                            # Read both quantised and not: the quantised one is fed, as its missing
                            # digits cannot be had back, and the other would hide the loss.
                            originals[original] = producer
                            self._quantised.add(producer)
                        elif self._is_of(producer, before):
                            self._quantised.add(before)
                    elif producer.op in self._device.ops:
                        following[producer.op] = following.get(producer.op, False) or quantised
            waiting = following
        return originals, open_end

    def _integers(self, op: Op) -> Iterator[str]:
        """How *op* computes in integers, if it does."""
        if op.id in self._dynamic:
            yield DYNAMIC
        elif op.id in self._unseen:
            yield _UNSEEN
        elif computes_in_integers(op.type):
            yield op.type

    def _is_of(self, one: TensorRef, other: TensorRef) -> bool:
        """Whether *one* is *other* after quantising."""
        types = [self._device.ops[ref.op].type for ref in (one, other)]
        return types[0] in DEQUANTISING and types[1] not in DEQUANTISING

    def _between(
        self, output: TensorRef, golden: TensorRef, stops: Mapping[TensorRef, TensorRef]
    ) -> Group:
        """The group of the ops from *stops* (device outputs by golden tensor) to *golden*."""
        graph = self._golden
        ops: dict[str, None] = {}
        feeds: dict[str, Feed] = {}
        waiting = [golden.op]
        while waiting:
            op_id = waiting.pop()
            if op_id in ops:
                continue
            op = graph.ops[op_id]
            blocked = self._blocked(op)
            if blocked is not None:
                source = Source.LATE if graph.is_lost(op_id) else None
                return Group(output, golden, tuple(ops) or (op_id,), failure=blocked, source=source)
            ops[op_id] = None
            if len(ops) > _MOST_OPS:
                return Group(output, golden, failure=f"a group of more than {_MOST_OPS} ops")
            for ref in graph.inputs(op):
                producer = ref.producer
                if producer is None:
                    if graph.is_entry(ref):
                        quantised = ref.tensor in self._quantised
                        feeds[ref.tensor] = Feed(ref.tensor, quantised=quantised)
                elif self._golden.is_constant(producer.op) and producer not in self._changed:
                    continue
                elif producer in stops:
                    device = stops[producer]
                    quantised = device in self._quantised
                    feeds[ref.tensor] = Feed(ref.tensor, device, producer, quantised)
                elif self._from_golden(producer):
                    feeds[ref.tensor] = Feed(ref.tensor, golden=producer)
                elif not self._golden.is_constant(producer.op):
                    waiting.append(producer.op)
        order = tuple(sorted(ops, key=graph.rank.__getitem__))
        asking = next((op for op in order if self._is_luck(op, ops, feeds)), None)
        if asking is not None:
            reason = _not_again(graph.ops[asking], Source.EQUAL)
            return Group(output, golden, order, failure=reason, source=Source.EQUAL)
        return Group(output, golden, order, tuple(feeds.values()))

    def _is_luck(
        self, op_id: str, computed_names: Container[str], feeds: Mapping[str, Feed]
    ) -> bool:
        """Whether an op tests a float of the device for equality with a recomputed one: they may be
        equal there and not here, by one rounding."""
        op = self._golden.ops[op_id]
        if op.type not in _ASKING or len(op.inputs) != _ASKED:
            return False
        kinds = [self._floats(ref, computed_names, feeds) for ref in op.inputs if ref is not None]
        return sorted(kinds) == ["fed", "made"]

    def _floats(
        self, ref: InputRef, computed_names: Container[str], feeds: Mapping[str, Feed]
    ) -> str:
        """Where a float comes from: "fed" by the device, "made" here; "" for anything else."""
        if ref.producer is None:
            return ""
        kind = self._golden.ops[ref.producer.op].outputs[ref.producer.port].dtype
        if kind is None or "float" not in kind.value:
            return ""
        feed = feeds.get(ref.tensor)
        if feed is not None:
            return "fed" if feed.device is not None else ""
        return "made" if ref.producer.op in computed_names else ""

    def _from_golden(self, ref: TensorRef) -> bool:
        """Whether the golden dump's value may be used: it is drawn, fed or stored, not computed."""
        if ref not in self._golden_dumped or ref in self._golden.flows:
            return False
        if ref.op in self._golden.late:
            return False
        if source_of(self._golden.ops[ref.op]) is not None:
            return True
        return ref.op in self._unknown and ref.op not in self._golden.fed

    def _blocked(self, op: Op) -> str | None:
        source = Source.LATE if self._golden.is_lost(op.id) else source_of(op)
        if source is None or source is Source.VARIABLE:
            return None  # an executor may know the variable's value
        return _not_again(op, source)


def _not_again(op: Op, source: Source) -> str:
    return f"{op.name} ({op.type}) {source.value}, so it is not run again"


MANY_GROUPS, FEW_GROUPS = 16, 8
"""Groups of a kind that are run to see how the device computes them: of so many a median is stable;
few where each is run several times. Bounds cost."""
SEVERAL = 2
"""Groups of a kind that no single fault is the reason for."""


def sampled_groups(
    groups: Sequence[Group], limit: int = MANY_GROUPS, longer: int | None = None
) -> Sequence[Group]:
    """Up to *limit* of *groups*, evenly spread over the model; only those with at most *longer* ops
    more than the shortest, or of any length for None."""
    if longer is not None:
        fewest = min((len(group.ops) for group in groups), default=0)
        groups = [group for group in groups if len(group.ops) <= fewest + longer]
    return groups[:: -(-len(groups) // limit) or 1]
