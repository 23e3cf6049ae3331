"""What of a model a run computes: the same for models of all frameworks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from divergraph.execute.contract import RunnableSubgraph
from divergraph.execute.side_by_side import Slice
from divergraph.execute.translate.blocks import Block
from divergraph.execute.translate.contract import OpRows
from divergraph.execute.translate.translation import Constants, Translation
from graphstore.errors import ExecutionError
from graphstore.model import Op, Tensor


@dataclass(frozen=True, slots=True)
class Program:
    """The ops of one run in the order they run, with all they need.

    ``inputs`` must be fed; ``constants`` hold weights, variables before the step and other tensors
    that are as they are. ``left_out`` says of tensors that no run gives why.
    """

    name: str
    rows: OpRows
    ops: tuple[Op, ...]
    inputs: tuple[Tensor, ...]
    constants: Constants
    left_out: Mapping[str, str]
    outside: frozenset[str] = frozenset()
    """Tensors whose values come with each question: variables, random numbers, batches."""
    blocks: Mapping[str, Block] = field(default_factory=dict)
    """What ops that hold others do, by op: loops, branches, calls."""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Tensors that others are made of, but that no run gives or is given, and why."""
    after: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By op, those that must run before it though no tensor goes from them to it."""
    double: bool = False
    """Whether it is computed in double precision."""
    makers: Mapping[str, Op] = field(init=False)
    rank: Mapping[str, int] = field(init=False)
    lost: Mapping[str, str] = field(init=False)
    """What is left out, and what no run gives for want of a row, with all behind it; and why."""

    def __post_init__(self) -> None:
        makers = {tensor.name: op for op in self.ops for tensor in op.outputs}
        object.__setattr__(self, "makers", makers)
        object.__setattr__(self, "rank", {op.id: at for at, op in enumerate(self.ops)})
        object.__setattr__(self, "lost", self._without_values())

    def tensors(self) -> tuple[str, ...]:
        """The tensors a run can give, in the order they are made."""
        fed = {tensor.name for tensor in self.inputs}
        names = (tensor.name for op in self.ops for tensor in op.outputs)
        gone = {*fed, *self.lost, *self.hidden}
        return tuple(name for name in names if name not in gone)

    def unavailable(self) -> Mapping[str, str]:
        """The tensors that no run gives, and why."""
        reasons = {**self.hidden, **self.lost}
        return {
            name: reason for name, reason in reasons.items() if "\n" not in name
        }  # none of ours

    def translation(self) -> Translation:
        """A translation of ops of this program, as yet of none."""
        return Translation(self.rows, self.constants, self.blocks, double=self.double)

    def used_inputs(self, tensors: Iterable[str]) -> tuple[Tensor, ...]:
        """The inputs *tensors* are made from, and those given in place of what an op makes."""
        fed = {tensor.name for tensor in self.inputs} | self.outside
        read = {
            ref.tensor for op in self.needed(tensors, fed) for ref in op.inputs if ref is not None
        }
        return tuple(
            tensor for tensor in self.inputs if tensor.name in read or tensor.name in self.makers
        )

    def without_row(self) -> dict[str, int]:
        """The op types that have no row though a run would need them, and how many ops they are."""
        counts: Counter[str] = Counter()
        read: set[str] = set()
        for op in reversed(self.ops):
            names = {output.name for output in op.outputs}.difference(self.left_out, self.outside)
            if names.difference(self.hidden) or names & read:  # data sets are neither
                counts.update(self._types_without_row(op))
                read.update(ref.tensor for ref in op.inputs if ref is not None)
        return counts

    def _no_row(self, op: Op) -> str:
        kind = next(self._types_without_row(op), "")
        return f"no translation of ops of type {kind}" if kind else ""

    def _types_without_row(self, op: Op) -> Iterator[str]:
        block = self.blocks.get(op.id)
        if block is not None:
            for inner_op in block.ops():
                yield from self._types_without_row(inner_op)
        elif op.type not in self.rows and not any(
            output.name in self.outside for output in op.outputs
        ):
            yield op.type

    def _without_values(self) -> dict[str, str]:
        lost = dict(self.left_out)
        fed = {tensor.name for tensor in self.inputs}
        for op in self.ops:
            gone = (lost[ref.tensor] for ref in op.inputs if ref and ref.tensor in lost)
            entry = self.rows.entries.get(op.type)
            reason = self._no_row(op)
            if not reason and entry is not None and not entry.joins:
                reason = next(gone, "")
            for output in op.outputs if reason else ():
                if output.name not in fed:
                    lost.setdefault(output.name, reason)
        return lost

    def needed(self, outputs: Iterable[str], available: Collection[str]) -> tuple[Op, ...]:
        """The ops that make *outputs* from *available*, in the order they run.

        Raises:
            ExecutionError: they need a tensor that is nowhere.
        """
        ops: dict[str, Op] = {}
        available = set(available).difference(self.hidden)
        waiting = [name for name in outputs if name not in available]
        while waiting:
            name = waiting.pop()
            if name in self.constants:
                continue
            op = None if name in self.outside else self.makers.get(name)
            if op is None:
                why = self.lost.get(name)
                raise ExecutionError(
                    f"{name!r} is not among what is given" + (f": {why}" if why else "")
                )
            pending = [op]
            while pending:
                current = pending.pop()
                if current.id not in ops:
                    ops[current.id] = current
                    tensors = (ref.tensor for ref in current.inputs if ref)
                    waiting += [tensor for tensor in tensors if tensor not in available]
                    pending += [
                        self.ops[self.rank[name]] for name in self.after.get(current.id, ())
                    ]
        return tuple(sorted(ops.values(), key=lambda op: self.rank[op.id]))


@dataclass(frozen=True, slots=True)
class TranslatedSlice(Slice):
    """The ops a piece consists of, and the constants it takes."""

    ops: tuple[Op, ...]
    constants: tuple[str, ...]


def slice_of(program: Program, piece: RunnableSubgraph) -> TranslatedSlice:
    """What *piece* consists of.

    Raises:
        ExecutionError: its outputs need more than its inputs, or are no tensors of the model.
    """
    inputs = set(piece.inputs)
    ops = program.needed(piece.outputs, inputs)
    tensors_read = {ref.tensor for op in ops for ref in op.inputs if ref} | set(piece.outputs)
    constants = sorted(name for name in tensors_read - inputs if name in program.constants)
    return TranslatedSlice(piece, ops, tuple(constants))
