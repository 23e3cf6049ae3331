"""The calls of two recorded runs side by side, with what was compared of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from divergraph.thresholds.recorded.statistics_only import DumpedStatistics
from graphstore.model import Comparison, LineageLink, ModelGraph, Op, Tensor, TensorIO, TensorRef
from importers.msprobe.calls import TAKES_GRADIENT, CallName
from importers.msprobe.job_names import OF_THE_DEVICE, RANK, bodies_of, split_rank

_CASTS_BACK = frozenset(
    f"{name}.backward" for name in ("to", "float", "double", "half", "bfloat16", "type", "type_as")
)
"""Ways back that only a run in 16 bits has: a tensor that is float32 already has none."""


class CallPairs:
    """*device* and *golden*, recorded runs, with the *links* between their calls, and what the
    *statistics* of their dumps say by themselves."""

    def __init__(
        self,
        device: ModelGraph,
        golden: ModelGraph,
        links: Iterable[LineageLink],
        comparisons: Sequence[Comparison],
        statistics: DumpedStatistics | None = None,
    ) -> None:
        self.device, self.golden = device, golden
        self.statistics = statistics or DumpedStatistics()
        self.comparisons = comparisons
        self.ops, self.golden_ops = device.op_index(), golden.op_index()
        self.twins: dict[str, str] = {link.device: link.original for link in links}
        self.device_twins = {golden: device for device, golden in self.twins.items()}
        self.inputs: dict[str, list[Comparison]] = {}
        self.outputs: dict[str, list[Comparison]] = {}
        for item in comparisons:
            items_by_op = self.inputs if item.io is TensorIO.INPUT else self.outputs
            items_by_op.setdefault(item.op, []).append(item)
        self._named = {op.name: op.id for op in device.ops}

    def twin(self, op: str) -> Op | None:
        """The golden call of device call *op*."""
        return self.golden_ops.get(self.twins.get(op, ""))

    def is_of_device(self, item: Comparison) -> bool:
        """Whether an output is held against what its call makes of the device's own inputs: that
        tells of this call, and nothing of what came before it."""
        twin = self.twin(item.op) if item.io is TensorIO.OUTPUT else None
        ports = () if twin is None else twin.attrs.get(OF_THE_DEVICE, ())
        return isinstance(ports, tuple) and item.port in ports

    def as_computed(self) -> list[Op]:
        """The device calls in their order, but for gradients of parameters: these stand behind the
        way back of their module, which reads what they follow from. A dump lists some before it."""
        places = {op.id: place for place, op in enumerate(self.device.ops)}

        def place(op: Op) -> tuple[int, bool]:
            if CallName.of(op.name).way != "parameters_grad":
                return places[op.id], False
            return max(map(places.__getitem__, self.before(op)), default=places[op.id]), True

        return sorted(self.device.ops, key=place)

    def before(self, op: Op) -> Iterator[str]:
        """The calls that left *op*, a way back, what it needs: its way there. The gradients of
        parameters are sums over all calls of a module so far, as of micro batches, and of all
        modules that share them."""
        for sharing in (*self._sharing.get(op.name, ()), op.name):
            names = CallName.of(sharing)
            for name in names.before:
                head, _, number = name.rpartition(".")
                sums = names.way == "parameters_grad" and number.isdecimal() and len(number) < 4
                every = (
                    [f"{head}.{position}" for position in range(int(number) + 1)]
                    if sums
                    else [name]
                )
                yield from (self._named[position] for position in every if position in self._named)

    @cached_property
    def _sharing(self) -> Mapping[str, Sequence[str]]:
        """By gradient of parameters those of its rank with the same values on both sides, as an
        embedding and a head with one weight have."""
        alike: dict[object, list[str]] = {}
        for op in self.device.ops:
            if CallName.of(op.name).way == "parameters_grad":
                for item in self.outputs.get(op.id, ()):
                    metrics = item.metrics
                    if metrics is not None and metrics.standard_deviation[1]:
                        # Ranks have all gradients alike, and each its own calls.
                        key = metrics.standard_deviation, metrics.elements, op.attrs.get(RANK)
                        alike.setdefault(key, []).append(op.name)
        return {name: names for names in alike.values() if names[1:] for name in names}

    @cached_property
    def missing(self) -> list[Op]:
        """The golden calls without a device call, in order."""
        return [
            op
            for op in self.golden.ops
            if op.id not in self.device_twins and op.type not in _CASTS_BACK
        ]

    @cached_property
    def extra(self) -> list[Op]:
        """The device calls without a golden call, in order. What is computed again in place of
        being kept is none."""
        return [
            op
            for op in self.device.ops
            if op.id not in self.twins
            and op.type not in _CASTS_BACK
            and op.attrs.get("is_recompute") is not True
        ]

    def lacks_way_back(self, op: str) -> bool:
        """Whether golden has the way back of call *op*, and the device does not."""
        twin = self.twin(op)
        return twin is not None and CallName.of(twin.name).backward in self.missing_names

    @cached_property
    def missing_names(self) -> frozenset[str]:
        """The names of golden's calls that the device does not make."""
        return frozenset(op.name for op in self.missing)

    @cached_property
    def says_gradients(self) -> bool:
        """Whether both dumps say which tensors take gradients, and some on each side do."""
        return all(
            any(TAKES_GRADIENT in op.attrs for op in graph.ops)
            for graph in (self.device, self.golden)
        )

    @cached_property
    def moved(self) -> list[Op]:
        """The device calls that golden calls in another order within the same module."""
        numbers = {op.id: number for number, op in enumerate(self.golden.ops)}
        latest: dict[str, int] = {}
        moved = []
        for op in self.device.ops:
            twin = self.twins.get(op.id)
            if twin is None or CallName.of(op.name).before:
                continue
            if numbers[twin] < latest.get(op.subgraph, -1):
                moved.append(op)
            latest[op.subgraph] = max(latest.get(op.subgraph, -1), numbers[twin])
        return moved

    @cached_property
    def readers(self) -> Mapping[TensorRef, tuple[str, ...]]:
        """The device calls that read each tensor that a call made."""
        found: dict[TensorRef, list[str]] = {}
        for op in self.device.ops:
            for ref in op.takes:
                found.setdefault(ref, []).append(op.id)
        return {ref: tuple(ops) for ref, ops in found.items()}

    @cached_property
    def on_ranks(self) -> Mapping[str, tuple[str, ...]]:
        """The device calls of all ranks of a job that have the same name but for the rank."""
        found: dict[str, list[str]] = {}
        for op in self.device.ops:
            if RANK in op.attrs:
                found.setdefault(split_rank(op.name)[1], []).append(op.id)
        return {name: tuple(ops) for name, ops in found.items()}

    @cached_property
    def given(self) -> Mapping[str, Tensor]:
        """What device calls read that none made, by the name of the first place."""
        return {tensor.name: tensor for tensor in self.device.inputs}

    @cached_property
    def golden_given(self) -> Mapping[str, Tensor]:
        """The same of golden."""
        return {tensor.name: tensor for tensor in self.golden.inputs}

    @cached_property
    def weights(self) -> frozenset[str]:
        """The names of parameters, as inputs of device calls have them."""
        return frozenset(constant.tensor.name for constant in self.device.constants)

    def is_weight(self, item: Comparison) -> bool:
        """Whether an input is a parameter of a module."""
        name = self.input_name(item)
        return name in self.weights

    def input_name(self, item: Comparison) -> str:
        """The name of the tensor an input reads."""
        op = self.ops[item.op]
        ref = op.inputs[item.port] if item.port < len(op.inputs) else None
        return "" if ref is None else ref.tensor

    @cached_property
    def owners(self) -> Mapping[str, tuple[str, ...]]:
        """The calls in whose bodies a call is, by id: one for each rank of a call between ranks."""
        bodies = {body.name: body.owner for body in self.device.subgraphs}
        return {
            op.id: tuple(bodies[body] for body in bodies_of(op) if bodies.get(body))
            for op in self.device.ops
        }

    @cached_property
    def outermost(self) -> list[Op]:
        """The device calls of modules that no call is around, on their way there: those of whole
        models."""
        return [
            op
            for op in self.device.ops
            if op.attrs.get("kind") in ("Module", "Cell")
            and op.attrs.get("direction") == "forward"
            and not self.owners[op.id]
        ]

    def around(self, op: str) -> Iterator[str]:
        """The calls that *op* is inside of, from within."""
        seen = {op}
        waiting = [*self.owners.get(op, ())]
        while waiting:
            owner = waiting.pop(0)
            if owner not in seen:
                seen.add(owner)
                yield owner
                waiting += self.owners.get(owner, ())
