"""The state of a group that is run op by op: the values so far, and the op to run next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from divergraph.execute.contract import Array, RunnableSubgraph
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.loop_state import TURNS
from divergraph.rootcause.groups.op_graph import OpGraph
from graphstore.model import Op, TensorRef

_EXACT_CONSTANTS = frozenset(
    {
        *("Resize", "Upsample", "Range", "Pad", "OneHot", "NonMaxSuppression"),
        *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"),
        *("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "RoiAlign"),
        *("Pow", "Mod", "FloorMod"),
    }
)
"""Ops whose constants are sizes, scales, coordinates or exponents, which devices do not round."""


@dataclass
class GroupState:
    """One group's run: ``values`` by tensor name, and the ``place`` of the next op in the group."""

    group: Group
    golden: OpGraph
    values: dict[str, Array]
    place: int = 0
    failed: bool = False
    joined: set[str] = field(default_factory=set)
    """Ops whose outputs are not arrays (sequences): they run together with their readers."""
    _last: dict[str, int] = field(default_factory=dict)
    """By tensor the place of the last op that reads it, after which it is freed."""
    _turns: bool = field(init=False)

    def __post_init__(self) -> None:
        for place, op_id in enumerate(self.group.ops):
            names = (ref.tensor for ref in self.golden.inputs(self.golden.ops[op_id]))
            self._last.update(dict.fromkeys(names, place))
        self._last[self.golden.name(self.group.golden)] = len(self.group.ops)
        self._turns = self._holds_turns()

    @property
    def quantised(self) -> set[str]:
        """Names of values to quantise before they are read: those the device had not quantised
        already when they were dumped."""
        return self.values.keys() - {feed.tensor for feed in self.group.feeds if not feed.quantised}

    def next_op(self) -> Op | None:
        """The op to run next; None at the end, or if one failed."""
        if self.failed or self.place >= len(self.group.ops):
            return None
        return self.golden.ops[self.group.ops[self.place]]

    def constants(self) -> Iterator[str]:
        """The names of constants its ops read that the device rounds."""
        inside = set(self.group.ops)
        for op in (self.golden.ops[op_id] for op_id in self.group.ops):
            if op.type in _EXACT_CONSTANTS:
                continue
            for ref in self.golden.inputs(op):
                maker = "" if ref.producer is None else ref.producer.op
                # A value made in each iteration of a loop cannot be fed from outside of it.
                inner = maker in inside or maker in self.golden.looped
                if not inner and ref.tensor not in self.values:
                    yield ref.tensor

    def piece(self, key: str, weights: Mapping[str, Array]) -> RunnableSubgraph:
        """The next op as a subgraph to run; *weights* are constants as the device holds them."""
        op = self.next_op()
        assert op is not None
        if self.turns():
            return self._whole(key, weights)
        names = dict.fromkeys(self._read(op))
        exact = op.type in _EXACT_CONSTANTS
        fed_names = [n for n in names if n in self.values or (n in weights and not exact)]
        return RunnableSubgraph(key, tuple(fed_names), tuple(self._needed(op)))

    def inputs(self, piece: RunnableSubgraph, weights: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays to feed *piece*, by tensor name."""
        return {
            name: self.values[name] if name in self.values else weights[name]
            for name in piece.inputs
        }

    def read(self, weights: Mapping[str, Array]) -> list[Array]:
        """The arrays the next op reads, as far as they are known before it has run."""
        op = self.next_op()
        names = () if op is None else dict.fromkeys(self._read(op))
        arrays = (self.values.get(name, weights.get(name)) for name in names)
        return [array for array in arrays if array is not None]

    def turns(self) -> bool:
        """Whether the group holds part of a loop, whose ops cannot be run one by one."""
        return self._turns

    def _holds_turns(self) -> bool:
        return any(self.golden.ops[op_id].type in TURNS for op_id in self.group.ops)

    def _whole(self, key: str, weights: Mapping[str, Array]) -> RunnableSubgraph:
        names = dict.fromkeys(ref.tensor for ref in self.golden.reads(self.group.ops))
        fed_names = [n for n in names if n in self.values or n in weights]
        return RunnableSubgraph(key, tuple(fed_names), (self.golden.name(self.group.golden),))

    def _read(self, op: Op) -> Iterator[str]:
        """The tensors *op* reads, or the ops joined to it read in its place; each op once, because
        loops lead back and diamonds of joined ops have too many ways."""
        ops, seen = [op], {op.id}
        while ops:
            for ref in self.golden.inputs(ops.pop()):
                maker = None if ref.producer is None else ref.producer.op
                if maker not in self.joined:
                    yield ref.tensor
                elif maker not in seen:
                    seen.add(maker)
                    ops.append(self.golden.ops[maker])

    def take(self, results: Mapping[str, Array], *, failed: bool) -> None:
        """Take *results*, the next op's outputs by tensor name, and go on to the op after it."""
        self.values.update(results)
        last = len(self.group.ops)
        self.place = last if self.turns() else self.place + 1
        self.failed = failed and self.place == last
        if failed and not self.failed:
            self._join(self.golden.ops[self.group.ops[self.place - 1]])
        for name in [name for name in self.values if self._last.get(name, -1) < self.place]:
            del self.values[name]

    def _join(self, op: Op) -> None:
        """Let *op* run together with its readers, and keep its inputs until they have run."""
        until = max((self._last.get(output.name, -1) for output in op.outputs), default=-1)
        for name in self._read(op):
            self._last[name] = max(self._last.get(name, -1), until)
        self.joined.add(op.id)

    def result(self) -> Array | None:
        """The output of the group; None before its last op has run, or if one failed."""
        return None if self.failed else self.values.get(self.golden.name(self.group.golden))

    def _needed(self, op: Op) -> Iterator[str]:
        """The outputs of *op* that the rest of the group, or its result, needs."""
        used = self._last
        for port, tensor in enumerate(op.outputs):
            if TensorRef(op.id, port) == self.group.golden or tensor.name in used:
                yield tensor.name
