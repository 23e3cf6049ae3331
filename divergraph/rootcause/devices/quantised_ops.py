"""Ops between quantisers with known scales: the exact output of a healthy device.

The floor of such an op is the loss of quantising, a per cent or so, which hides smaller faults.
But that loss is not random: the same scales give the same integers. So a device that quantises as
its graph says is compared with the quantised op itself, with the floor of the float arithmetic
around it. Only values next to a tie between two integers may go either way.

A few of the device's ops must first show that it does exactly that, and does not truncate where
the graph rounds or correct its biases. The same holds for products a device computes in integers
where golden itself quantises: a QLinearConv equals golden's Conv between its quantisers to the last
step, since integers are summed without rounding, while a Softmax comes from a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.arithmetic import ratio_of
from divergraph.rootcause.devices.floors import floor_of
from divergraph.rootcause.devices.quantisers import quantises
from divergraph.rootcause.groups.group_runs import SHARE_OF_MEMORY, GroupSample
from divergraph.rootcause.groups.groups import FEW_GROUPS, Group, sampled_groups
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.values import is_numeric, relative, same_shape

_AT_ONCE = 4
"""Groups run side by side. Bounds memory."""
_PRODUCTS = ("Conv", "MatMul", "Gemm")
_DRAWS = 4
"""Emulations per group, of which one must fit: values next to a tie may make one floor too low."""


class QuantisedKind(StrEnum):
    """What a group quantises; devices may treat each kind in their own way."""

    HANDED_ON = "what is handed on"
    INSIDE = "values on the way"
    WEIGHTS = "weights only"
    DYNAMIC = "values with scales of their own"


@dataclass(frozen=True)
class Expected:
    """The output (``value``) of a device that quantises as its graph says; ``ratio`` is the
    device's error against it over what arithmetic and ties explain."""

    value: Array
    ratio: float


@dataclass(frozen=True)
class QuantisedOps:
    """Compares groups that quantise with the quantised ops themselves, for the ``kinds`` that were
    found to be exact on this device."""

    golden: OpGraph
    floors: Emulation
    suspect: float
    kinds: frozenset[QuantisedKind] = field(default_factory=frozenset)
    hidden_bodies: bool = True
    """Whether ops with bodies may quantise inside of them."""

    def kind(self, group: Group) -> QuantisedKind | None:
        """The kind of a group that quantises with known scales; None for other groups."""
        quantisers = self.floors.quantisers
        if group.failure or group.integers or not quantisers.by_tensor:
            return None
        if group.output in quantisers.held:
            return None  # kernels in fixed point may be a step off, each in its own way
        if group.is_passthrough is not None:
            return QuantisedKind.HANDED_ON if group.output in quantisers.outputs else None
        ops = [self.golden.ops[op_id] for op_id in group.ops]
        if self.hidden_bodies and any(op.owns for op in ops):
            return None
        if any(quantises(op.type) for op in ops):
            return None  # golden quantises itself, so the reference has the same steps already
        if any(quantisers.met_by(op.id) is not None for op in ops):
            return QuantisedKind.DYNAMIC
        read = {ref.tensor for ref in self.golden.reads(group.ops)}
        read -= {feed.tensor for feed in group.feeds if not feed.quantised}
        through = quantisers.by_tensor.keys() & read
        if not (through or group.output in quantisers.outputs):
            return None
        if not all(tensor in quantisers.readers for tensor in through):
            return None
        names = {output.name for op in ops for output in op.outputs}
        names |= {feed.tensor for feed in group.feeds}
        inside = group.output in quantisers.outputs or not names.isdisjoint(through)
        return QuantisedKind.INSIDE if inside else QuantisedKind.WEIGHTS

    def expected(
        self, groups: Sequence[Group], feeds: Sequence[Mapping[str, Array]], device: Sequence[Array]
    ) -> list[Expected | None]:
        """The exact output of each group on its feeds, and how far *device* is from it; None where
        the group cannot be run or the shapes differ."""
        precision = self.floors.precision
        plain = _made(replace(self.floors, plain=True), groups, feeds)
        few = any(array.size < calibration.FEW_VALUES for array in device)
        draws = calibration.ROUNDED_DRAWS if few else 2  # a few roundings cancel by luck
        either = [
            _made(replace(self.floors, shift=sign * precision.value_units), groups, feeds)
            for sign in (1, -1) * (draws // 2)
        ]
        expectations: list[Expected | None] = []
        for group, right, actual, *shifted in zip(groups, plain, device, *either, strict=True):
            fitting = None if right is None else same_shape(actual, right.shape)
            if right is None or fitting is None or not (is_numeric(right) and is_numeric(fitting)):
                expectations.append(None)
                continue
            floor = max(floor_of(right, moved, precision, len(group.ops)) for moved in shifted)
            expectations.append(Expected(right, relative(fitting, right) / floor))
        return expectations

    def seen(
        self,
        groups: Iterable[Group],
        samples: Callable[[Sequence[Group]], Iterable[GroupSample]],
        device: Callable[[Group], GroupSample | None],
    ) -> QuantisedOps:
        """These ops, with ``kinds`` set to those that are exact on the device.

        *samples* runs groups on the device's inputs; *device* does so for groups that only hand a
        value on.
        """
        by_kind: dict[QuantisedKind, list[Group]] = {}
        for group in groups:
            kind = self.kind(group)
            if kind is not None:
                by_kind.setdefault(kind, []).append(group)
        ratios = {
            kind: list(self._ratios(sampled_groups(own, FEW_GROUPS), samples, device))
            for kind, own in by_kind.items()
        }
        kinds = {kind for kind, own in ratios.items() if are_exact(_enough(kind, ratios))}
        return replace(self, kinds=frozenset(kinds))

    def _ratios(
        self,
        groups: Sequence[Group],
        samples: Callable[[Sequence[Group]], Iterable[GroupSample]],
        device: Callable[[Group], GroupSample | None],
    ) -> Iterator[float]:
        handing = (device(group) for group in groups if group.is_passthrough is not None)
        run = samples([group for group in groups if group.is_passthrough is None])
        sampled = (sample for sample in chain(handing, run) if sample is not None)
        for batch in self._batches(sampled):
            expected = self.expected(
                [sample.group for sample in batch],
                [sample.given for sample in batch],
                [sample.device for sample in batch],
            )
            yield from (expectation.ratio for expectation in expected if expectation is not None)

    def _batches(self, samples: Iterable[GroupSample]) -> Iterator[list[GroupSample]]:
        """A few samples at once, as many as fit in memory with three emulations of each."""
        batch: list[GroupSample] = []
        batch_bytes = 0
        for sample in samples:
            batch.append(sample)
            batch_bytes += sample.nbytes
            if len(batch) == _AT_ONCE or batch_bytes > self.floors.memory // SHARE_OF_MEMORY:
                yield batch
                batch, batch_bytes = [], 0
        if batch:
            yield batch


def _made(
    floors: Emulation, groups: Sequence[Group], feeds: Sequence[Mapping[str, Array]]
) -> list[Array | None]:
    if all(group.is_passthrough is None for group in groups):
        return floors.emulated(groups, feeds)
    return [
        floors.passed_on(group, next(iter(feed.values())))
        for group, feed in zip(groups, feeds, strict=True)
    ]


def _enough(
    kind: QuantisedKind, ratios: Mapping[QuantisedKind, Sequence[float]]
) -> Sequence[float]:
    """The ratios that decide about *kind*. Where there are few, those of other kinds count, too.
    Weights are rounded by the converter, so they say nothing of whether the device rounds: they
    only count for other kinds once some value handed on was rounded as the graph says."""
    if len(ratios[kind]) >= calibration.ENOUGH_OPS:
        return ratios[kind]
    rounds = any(ratio <= healthy_ratio() for ratio in ratios.get(QuantisedKind.HANDED_ON, ()))
    kinds = (
        QuantisedKind
        if kind is QuantisedKind.WEIGHTS or rounds
        else (QuantisedKind.HANDED_ON, QuantisedKind.INSIDE)
    )
    return [ratio for other in kinds for ratio in ratios.get(other, ())]


def healthy_ratio() -> float:
    """Error over the floor of arithmetic and ties, up to which an op agrees with its scales."""
    return calibration.healthy_limit()


def are_exact(ratios: Sequence[float]) -> bool:
    """Whether all ops but a few (faults) agree with what was expected, by these ratios of error
    over floor."""
    good = int(np.count_nonzero(np.asarray(ratios) <= healthy_ratio()))
    return good > 1 and len(ratios) - good <= max(1.0, calibration.QUANTISED_MOST_OFF * len(ratios))


def without_exact_kernels(
    golden: OpGraph,
    groups: Sequence[Group],
    samples: Callable[[Sequence[Group]], Iterable[GroupSample]],
    floors: Emulation,
) -> Sequence[Group]:
    """*groups*, without their ``kernels`` where integer kernels are exact on this device.

    That needs half of the groups that are run (by *samples*) to agree with golden's own quantised
    ops; such groups are then judged without the wide floor of unknown scales.
    """
    products = [group for group in groups if _is_of_products(golden, group)]
    agreeing = [
        _agrees(sample, floors) for sample in samples(sampled_groups(products, FEW_GROUPS, 4))
    ]
    if not any(agreeing) or 2 * sum(agreeing) < len(agreeing):
        return groups
    exact = {group.output for group in products}
    return [
        replace(group, kernels=frozenset()) if group.output in exact else group for group in groups
    ]


def _is_of_products(golden: OpGraph, group: Group) -> bool:
    """Whether golden quantises in a group that the device computes by integer matrix kernels."""
    if not group.kernels or group.failure or group.is_passthrough is not None:
        return False
    if not all(any(name in kernel for name in _PRODUCTS) for kernel in group.kernels):
        return False
    return any(quantises(golden.ops[op_id].type) for op_id in group.ops)


def _agrees(sample: GroupSample, floors: Emulation) -> bool:
    """Whether the device equals the reference, except for values next to a tie."""
    ratios = (ratio_of(sample, floors) for _ in range(_DRAWS))
    return any(ratio is not None and ratio <= healthy_ratio() for ratio in ratios)
