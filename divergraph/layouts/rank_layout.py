"""How the tensors of one rank lie in golden's: what of each weight and of the data it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from divergraph.layouts.locating import located
from divergraph.layouts.placements import PlacedAs, Placement
from divergraph.layouts.rule import rules
from divergraph.layouts.shares import AxisShare, Runs
from divergraph.layouts.twins import Twins, parameter
from divergraph.text.words import counted
from divergraph.values.array_types import Array
from divergraph.values.one_tensor import read_tensor
from divergraph.values.unread import Unread
from graphstore.model import DType, DumpTensorRef, ModelGraph, TensorIO
from importers.dumps.index import DumpIndex, TensorKey

INTEGERS = frozenset({DType.INT32, DType.INT64})
"""The types of words."""
_FEW = 0.1
"""Share of the weights that may be other parts than most are, by mistake."""


@dataclass(frozen=True, slots=True)
class RankLayout:
    """``placements`` are those of the weights and of the data; ``weights`` the parts of axes that
    the rank has of weights, most of them first; ``data`` by micro batch those of the data, by axis,
    and ``data_shape`` the shape of the data in golden, () where that is not known. ``mapping`` says
    which layers are which of golden's that have other names."""

    placements: tuple[Placement, ...]
    weights: tuple[AxisShare, ...]
    data: Mapping[int, Mapping[int, AxisShare]]
    data_shape: tuple[int, ...]
    mapping: tuple[str, ...] = ()

    def sentences(self) -> Iterator[str]:
        """What the rank has of golden's weights and data, as lines for the user."""
        yield from self.mapping
        parts: dict[str, list[str]] = {}
        for placement in self.placements:
            parts.setdefault(_how(placement), []).append(placement.name)
        for how, names in parts.items():
            more = f" and {counted(len(names) - 1, 'more tensor')}" if len(names) > 1 else ""
            yield f"the rank has of golden's {names[0]}{more}: {how}"

    @property
    def is_proved(self) -> bool:
        """Whether most weights, or else the data, are value for value in golden's."""
        proved = [
            placement.proved
            for placement in self.placements
            if placement.kind is not PlacedAs.MICRO_BATCH
        ]
        return bool(proved) and 2 * sum(proved) > len(proved)


def rank_layout(
    golden: ModelGraph,
    golden_dump: DumpIndex,
    device: ModelGraph,
    device_dump: DumpIndex,
    twins: Twins,
    names: Mapping[str, str],
) -> RankLayout:
    """The layout of the rank with the graph *device*, found from its weights and data."""
    weights = list(weight_placements(golden, golden_dump, device, device_dump, names))
    times = Counter(share for placement in weights for share in shares_of(placement))
    few = {share for share, number in times.items() if number <= _FEW * sum(times.values())}
    usual = [share for share, _ in times.most_common() if share not in few]
    # One part of few weights that are split as the others is a mistake, and no part of the layout.
    odd = {share for share in few if any(share.length == common.length for common in usual)}
    weights = [
        replace(placement, runs=(), proved=False)
        if odd.intersection(shares_of(placement))
        else placement
        for placement in weights
    ]
    shares = tuple(share for share, _ in times.most_common() if share not in odd)
    data: dict[int, Mapping[int, AxisShare]] = {}
    inputs: list[Placement] = []
    for number, placement in _data(golden_dump, device, device_dump, twins):
        inputs.append(placement)
        axes = (axis for axis, _ in placement.runs)
        data.setdefault(number, dict(zip(axes, shares_of(placement), strict=True)))
    if twins.count > 1:
        for number in range(twins.count):
            by_place = AxisShare(PlacedAs.MICRO_BATCH, ((number, number + 1),), twins.count)
            # Integers that are golden's own, as places of a mask are, say nothing of the batch.
            if not data.get(number):
                inputs.append(_micro_batch(by_place))
                data[number] = {0: by_place}
    return RankLayout((*weights, *inputs), shares, data, _data_shape(golden, golden_dump))


def _how(placement: Placement) -> str:
    """What a rank has, by the rule that says so."""
    said = (rule.words(placement) for rule in rules())
    by_rule = next((words for words in said if words), "")
    if by_rule:
        return by_rule
    if not placement.proved:
        return "none of its values"
    of = [f"{placement.part(axis)} of axis {axis}" for axis, _ in placement.runs]
    return " and ".join(of) or "all of it"


def _micro_batch(share: AxisShare) -> Placement:
    name = f"micro batch {share.runs[0][0]}"
    return Placement(
        PlacedAs.MICRO_BATCH, name, name, ((0, share.runs),), (share.length,), "", False
    )


def shares_of(placement: Placement) -> Iterator[AxisShare]:
    """Which part of each axis that is cut a placed tensor is."""
    for axis, runs in placement.runs:
        length = placement.shape[axis]
        (start, stop), *more = runs
        size = stop - start
        if not more and length % size == 0 and start % size == 0:
            yield AxisShare(placement.kind, ((start // size, start // size + 1),), length // size)
        else:
            yield AxisShare(placement.kind, runs, length)


def weight_placements(
    golden: ModelGraph,
    golden_dump: DumpIndex,
    device: ModelGraph,
    device_dump: DumpIndex,
    names: Mapping[str, str],
) -> Iterator[Placement]:
    """Where the weights of the rank with the graph *device* lie in golden's."""
    readers = {op.id: op.type for op in device.ops}
    originals = {parameter(name, {}): key for name, key in parameter_places(golden).items()}
    rows: dict[str, tuple[AxisShare, ...]] = {}
    # a bias has the rows its weight has: its own values are few, and often alike
    places = sorted(parameter_places(device).items(), key=lambda item: -_axes(device_dump, item[1]))
    for name, key in places:
        own = device_dump.tensors.get(key)
        title = parameter(name, names)
        other = golden_dump.tensors.get(originals.get(title, key)) if title in originals else None
        if own is None or other is None or own.shape is None or other.shape is None:
            continue
        layer = parameter(name, {}).partition(" ")[0]
        runs = _located(own, other, rows.get(layer, ()))
        parts = () if runs is None else tuple(runs.items())
        if runs and 0 in runs:
            rows.setdefault(layer, (AxisShare("", runs[0], other.shape[0]),))
        reader, here, is_there = readers[key[0]], parameter(name, {}), runs is not None
        yield Placement(PlacedAs.WEIGHT, here, title, parts, other.shape, reader, is_there)


def parameter_places(graph: ModelGraph) -> dict[str, TensorKey]:
    """Where a dump has each parameter of *graph*: as an input of the first call that reads it."""
    constants = {constant.tensor.name for constant in graph.constants}
    places: dict[str, TensorKey] = {}
    for op in graph.ops:
        for port, ref in enumerate(op.inputs):
            if ref is not None and ref.tensor in constants:
                places.setdefault(ref.tensor, (op.id, TensorIO.INPUT, port))
    return places


def _data(
    golden_dump: DumpIndex, device: ModelGraph, device_dump: DumpIndex, twins: Twins
) -> Iterator[tuple[int, Placement]]:
    """Integers of more than one axis that no call made, as words are, by micro batch."""
    for op in device.ops:
        twin = twins.calls.get(op.id)
        for port, ref in enumerate(op.inputs):
            if twin is None or ref is None or ref.producer is not None:
                continue
            own = device_dump.tensors.get((op.id, TensorIO.INPUT, port))
            other = golden_dump.tensors.get((twin.id, TensorIO.INPUT, port))
            if own is None or other is None or own.dtype not in INTEGERS:
                continue
            if not own.shape or not other.shape or len(own.shape) < 2:
                continue
            runs = _located(own, other)
            if runs is not None:
                parts = tuple(runs.items())
                placement = Placement(
                    PlacedAs.DATA, ref.tensor, twin.name, parts, other.shape, op.type, True
                )
                yield twins.micro_batches[op.id], placement


def _data_shape(golden: ModelGraph, dump: DumpIndex) -> tuple[int, ...]:
    """The shape of golden's data: of the first integers of more than one axis that no call made."""
    for op in golden.ops:
        for port, ref in enumerate(op.inputs):
            data = dump.tensors.get((op.id, TensorIO.INPUT, port))
            if ref is None or ref.producer is not None or data is None:
                continue
            if data.dtype in INTEGERS and data.shape is not None and len(data.shape) > 1:
                return data.shape
    return ()


def _axes(dump: DumpIndex, key: TensorKey) -> int:
    ref = dump.tensors.get(key)
    return 0 if ref is None or ref.shape is None else len(ref.shape)


def _located(
    own: DumpTensorRef, golden: DumpTensorRef, shares: tuple[AxisShare, ...] = ()
) -> dict[int, Runs] | None:
    ours, theirs = values_of(own), values_of(golden)
    return None if ours is None or theirs is None else located(ours, theirs, shares)


def values_of(ref: DumpTensorRef) -> Array | None:
    """The values of a tensor; None where the dump has none that can be read."""
    if ref.statistics is not None:
        return None
    values = read_tensor(ref)
    return None if isinstance(values, Unread) else values
