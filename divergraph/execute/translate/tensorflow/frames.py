"""Loops of the old kind: the ops of each frame as one op.

Source: "Implementation of Control Flow in TensorFlow" (2017): ``Enter`` takes a tensor into a
frame, ``Merge`` joins what a variable is in the first turn with what ``NextIteration`` hands on,
``Switch`` sends it by ``LoopCond`` to the body or to ``Exit``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from divergraph.execute.tensorflow.branches import MERGES
from divergraph.execute.translate.blocks import FrameLoop
from graphstore.model import InputRef, Op, Tensor
from graphstore.traverse.topological_order import lowest_first

_ENTER = frozenset(("Enter", "RefEnter"))
_EXIT = frozenset(("Exit", "RefExit"))
_NEXT = frozenset(("NextIteration", "RefNextIteration"))
_PUSHES, _POPS = frozenset(("StackPush", "StackPushV2")), frozenset(("StackPop", "StackPopV2"))
_STACKS = _PUSHES | _POPS
_HANDS_ON = frozenset((*_ENTER, "Switch", "RefSwitch", "Merge", "RefMerge", "Identity"))


@dataclass(frozen=True, slots=True)
class Folded:
    """Ops, makers before users, with one op for each loop; what the loops do; which ops others
    must wait for because they fill the stacks these take from."""

    ops: tuple[Op, ...]
    loops: Mapping[str, FrameLoop]
    after: Mapping[str, frozenset[str]]


def fold_loops(ops: Sequence[Op]) -> Folded:
    """*ops* with each outermost loop as one op.

    A loop whose parts are not as TensorFlow makes them is left as it is.
    """
    if not any("frame" in op.attrs for op in ops):
        return Folded(tuple(in_order(ops)), {}, {})
    folding = _Folding(ops)
    return Folded(tuple(folding.level("")), folding.loops, folding.waits())


def in_order(ops: Sequence[Op], homes: Mapping[str, str] | None = None) -> list[Op]:
    """*ops* with makers before users; ops of loops, which wait for each other, come last.

    *homes* says for ops that are not among them in which of them they are.
    """
    places = {op.id: at for at, op in enumerate(ops)}
    inside = homes or {}
    edges = {
        (places[maker], places[op.id])
        for op in ops
        for neighbour in (*(ref.op for ref in op.takes), *op.control_inputs)
        if (maker := inside.get(neighbour, neighbour)) in places and maker != op.id
        if ops[places[maker]].type not in _NEXT  # the turn before
    }
    order = lowest_first(len(ops), [edge[0] for edge in edges], [edge[1] for edge in edges])
    rest = sorted(set(range(len(ops))).difference(order))
    return [ops[at] for at in (*order, *rest)]


_FLOWS: Mapping[str, int] = {
    **dict.fromkeys(("TensorArrayV3", "TensorArrayGradV3"), 1),
    **dict.fromkeys(("TensorArrayWriteV3", "TensorArrayScatterV3", "TensorArraySplitV3"), 0),
}
"""The output that orders the ops of a TensorArray."""
_PASS_FLOWS = frozenset((*_HANDS_ON, *_EXIT, *_NEXT, "Add", "AddV2", "AddN"))


def flows_of_arrays(ops: Iterable[Op]) -> set[str]:
    """The tensors that only order the ops of TensorArrays: whoever takes one takes the array."""
    users: dict[str, list[Op]] = {}
    flows: set[str] = set()
    waiting: list[str] = []
    for op in ops:
        for ref in op.inputs:
            if ref is not None and op.type in _PASS_FLOWS:
                users.setdefault(ref.tensor, []).append(op)
        if op.type in _FLOWS:
            waiting.append(op.outputs[_FLOWS[op.type]].name)
    while waiting:
        name = waiting.pop()
        if name not in flows:
            flows.add(name)
            waiting += [tensor.name for op in users.get(name, ()) for tensor in op.outputs]
    return flows


class _Folding:
    def __init__(self, ops: Sequence[Op]) -> None:
        self._ops = {op.id: op for op in ops}
        self._members: dict[str, list[Op]] = {"": []}
        for op in ops:
            self._members.setdefault(_frame(op), []).append(op)
        self._around = {frame: self._outer(frame) for frame in self._members if frame}
        self.loops: dict[str, FrameLoop] = {}

    def level(self, frame: str) -> list[Op]:
        """The ops right in *frame*, loops in it as one op each."""
        ops = list(self._members[frame])
        homes: dict[str, str] = {}
        for inner, around in self._around.items():
            if around == frame:
                loop_op, *deciding = self._loop(inner)
                ops += [loop_op, *deciding]
                homes.update((op.id, loop_op.id) for op in self._all(inner))
                for loop in deciding:
                    leaving = {tensor.name for tensor in loop.outputs}
                    exits = (op for op in self._members[inner] if op.type in _EXIT)
                    homes.update((op.id, loop.id) for op in exits if op.outputs[0].name in leaving)
        return in_order(ops, homes)

    def waits(self) -> dict[str, frozenset[str]]:
        """By op, those that push what it pops."""
        pushed: dict[str, set[str]] = {}
        for op in self._ops.values():
            if op.type in _PUSHES:
                pushed.setdefault(self._stack(op), set()).add(self._top(op))
        waits_of: dict[str, set[str]] = {}
        for op in self._ops.values():
            if op.type in _POPS:
                waits_of.setdefault(self._top(op), set()).update(pushed.get(self._stack(op), ()))
        return {op: frozenset(by - {op}) for op, by in waits_of.items()}

    def _outer(self, frame: str) -> str:
        """The frame around *frame*: the innermost one that something enters it from."""
        entered = (op for op in self._members[frame] if op.type in _ENTER)
        makers = (self._ops[ref.op] for op in entered for ref in op.takes if ref.op in self._ops)
        around = {self._outer(_frame(op)) if op.type in _EXIT else _frame(op) for op in makers}
        return max(around, key=len, default="")

    def _all(self, frame: str) -> Iterator[Op]:
        yield from self._members[frame]
        for inner, around in self._around.items():
            if around == frame:
                yield from self._all(inner)

    def _top(self, op: Op) -> str:
        """The id of *op*, or of the outermost loop it is in."""
        frame = _frame(op)
        while frame and self._around[frame]:
            frame = self._around[frame]
        return _loop_id(frame) if frame else op.id

    def _stack(self, op: Op) -> str:
        """The op that makes the stack *op* takes."""
        ref = op.source()
        while ref is not None and ref.op in self._ops and self._ops[ref.op].type in _HANDS_ON:
            ref = self._ops[ref.op].source()
        return "" if ref is None else ref.op

    def _loop(self, frame: str) -> list[Op]:
        """The loop *frame* as one op, which gives what leaves it; and what only counts its turns
        as another one, which needs no more than that."""
        ops = self.level(frame)
        kinds = {op.id: op.type for op in ops}
        enters = [op for op in ops if op.type in _ENTER]
        exits = [op for op in ops if op.type in _EXIT]
        started: dict[str, str] = {}
        carried: dict[str, str] = {}
        joined: set[str] = set()
        for op in ops:
            nexts = [at for at, ref in enumerate(op.takes) if kinds.get(ref.op) in _NEXT]
            if op.type in MERGES and nexts:
                first, later = op.inputs[1 - nexts[0]], self._ops[op.takes[nexts[0]].op].inputs[0]
                if first is None or later is None:
                    continue
                started[op.outputs[0].name] = _entering(self._ops, first)
                carried[op.outputs[0].name] = later.tensor
                joined.add(op.id)
        entered = {op.outputs[0].name: _tensor(op) for op in enters}
        decides = next((_tensor(op) for op in ops if op.type == "LoopCond"), "")
        around = {*joined, *(op.id for op in (*enters, *exits))}
        inside = [op for op in ops if op.id not in around and op.type not in _NEXT]
        parts = _LoopParts(entered, started, carried, decides, tuple(inside))
        asks = [op.outputs[0].name for op in ops if op.type == "LoopCond"]
        real = {output.name for op in ops for output in op.outputs if not _is_whole(output)}
        needed_by_exit = {op.id: parts.reached([*asks, _tensor(op)]) for op in exits}
        counts = [op for op in exits if needed_by_exit[op.id].isdisjoint(real)]
        others = [op for op in exits if op not in counts]
        needed = frozenset(name for op in counts for name in needed_by_exit[op.id])
        if not counts or not others or any(kinds.get(name) in _STACKS for name in needed):
            self.loops[_loop_id(frame)] = parts.loop(exits)
            return [self._as_op(_loop_id(frame), frame, ops, enters, exits)]
        self.loops[_loop_id(frame)] = parts.loop(others)
        number = f"{_loop_id(frame)} turns"
        self.loops[number] = parts.only(needed).loop(counts)
        entering = [op for op in enters if op.outputs[0].name in needed]
        return [
            self._as_op(_loop_id(frame), frame, ops, enters, others),
            self._as_op(number, frame, (), entering, counts),
        ]

    def _as_op(
        self, name: str, frame: str, ops: Sequence[Op], enters: Sequence[Op], exits: Sequence[Op]
    ) -> Op:
        inside = {op.id for op in self._all(frame)}
        refs: dict[str, InputRef] = {ref.tensor: ref for op in enters for ref in op.inputs if ref}
        waits = {
            control_input
            for op in ops
            for control_input in op.control_inputs
            if control_input not in inside
        }
        return Op(
            name,
            frame,
            "Loop",
            tuple(refs.values()),
            tuple(sorted(waits)),
            tuple(tensor for op in exits for tensor in op.outputs),
            sequence=min(op.sequence for op in self._members[frame]),
        )


@dataclass(frozen=True, slots=True)
class _LoopParts:
    """What enters a loop, what its variables are in the first turn and what they become, which
    tensor decides whether there is one more turn, and the ops of a turn."""

    entered: Mapping[str, str]
    started: Mapping[str, str]
    carried: Mapping[str, str]
    decides: str
    inside: tuple[Op, ...]

    def reached(self, tensors: Iterable[str]) -> frozenset[str]:
        """The tensors and the ops that *tensors* are made by, in this turn or in those before."""
        makers = {tensor.name: op for op in self.inside for tensor in op.outputs}
        names_reached: set[str] = set()
        waiting = list(tensors)
        while waiting:
            name = waiting.pop()
            if name in names_reached:
                continue
            names_reached.add(name)
            if name in self.carried:
                # The first value comes by the tensor that enters, and the next by what is carried.
                own = self.started[name]
                names_reached.update(name for name, source in self.entered.items() if source == own)
                waiting.append(self.carried[name])
            elif name in makers:
                maker = makers[name]
                names_reached.update((maker.id, *(tensor.name for tensor in maker.outputs)))
                waiting += [ref.tensor for ref in maker.inputs if ref is not None]
        return frozenset(names_reached)

    def only(self, names_reached: Collection[str]) -> _LoopParts:
        """Those of them among *names_reached*, and the ops that hand such on."""
        return _LoopParts(
            {name: source for name, source in self.entered.items() if name in names_reached},
            {name: source for name, source in self.started.items() if name in names_reached},
            {name: source for name, source in self.carried.items() if name in names_reached},
            self.decides,
            tuple(op for op in self.inside if op.id in names_reached),
        )

    def loop(self, exits: Sequence[Op]) -> FrameLoop:
        """The loop that *exits* leave."""
        asking = _makers_of([self.decides], self.inside)
        first = {op.id for op in asking}
        leaving = _makers_of([_tensor(op) for op in exits], self.inside)
        return FrameLoop(
            self.entered,
            self.started,
            self.carried,
            tuple(asking),
            self.decides,
            tuple(op for op in self.inside if op.id not in first),
            tuple(op for op in leaving if op.id not in first),
            tuple(_tensor(op) for op in exits),
        )


def _is_whole(tensor: Tensor) -> bool:
    """Whether it is of whole numbers or truth values."""
    kind = tensor.dtype.numpy if tensor.dtype is not None else None
    return kind is not None and kind.kind in "iub"


def _frame(op: Op) -> str:
    return str(op.attrs.get("frame", ""))


def _loop_id(frame: str) -> str:
    return f"loop {frame}"


def _tensor(op: Op) -> str:
    ref = op.inputs[0]
    return "" if ref is None else ref.tensor


def _entering(ops: Mapping[str, Op], ref: InputRef) -> str:
    """What *ref* is outside of the frame that it enters."""
    maker = ops.get(ref.producer.op) if ref.producer is not None else None
    return _tensor(maker) if maker is not None and maker.type in _ENTER else ref.tensor


def _makers_of(tensors: Iterable[str], ops: Sequence[Op]) -> list[Op]:
    """Those of *ops* that *tensors* are made by, makers before users."""
    wanted = set(tensors)
    ops_after: list[Op] = []
    for op in reversed(ops):
        if any(tensor.name in wanted for tensor in op.outputs):
            ops_after.append(op)
            wanted.update(ref.tensor for ref in op.inputs if ref is not None)
    ops_after.reverse()
    return ops_after
