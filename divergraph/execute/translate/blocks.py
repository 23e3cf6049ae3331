"""Ops that hold other ops: loops, branches and calls, unrolled while they are translated.

A loop becomes the ops of all its turns one after the other, so each of them is translated for the
shapes of its own turn. Whether there is one more turn has to be known for that: where it does
not follow from constants, what has been translated so far is run for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from divergraph.execute.translate.contract import NotTranslatedError
from graphstore.model import Op

if TYPE_CHECKING:
    from divergraph.execute.translate.translation import Translation

_MOST_TURNS = 20_000
"""Turns after which a loop counts as endless."""


class Block(Protocol):
    """What an op that holds others does."""

    def ops(self) -> Iterator[Op]:
        """The ops it holds, those of blocks inside of it left out."""
        ...

    def unroll(self, made: Translation, op: Op, scope: str) -> None:
        """Add what it computes for *op*, whose inputs are known, and hand on its outputs.

        It is called again from the start once a value is known that it asked for.

        Raises:
            NeedsValueError: a tensor inside has to be run for.
            NotTranslatedError: something inside is not covered.
        """
        ...


@dataclass(frozen=True, slots=True)
class Body:
    """Ops that compute ``results`` from ``arguments``, makers before users."""

    arguments: tuple[str, ...]
    inside: tuple[Op, ...]
    results: tuple[str, ...]

    def add(self, translation: Translation, sources: Sequence[str], scope: str) -> list[str]:
        """Add the ops under *scope*; the names of the results."""
        for name, source in zip(self.arguments, sources, strict=False):
            translation.alias(scope + name, source)
        for op in self.inside:
            translation.add_once(op, scope)
        return [translation.named(name, scope) for name in self.results]


@dataclass(frozen=True, slots=True)
class CalledBody:
    """A body that runs once."""

    body: Body

    def ops(self) -> Iterator[Op]:
        """The ops it holds."""
        yield from self.body.inside

    def unroll(self, made: Translation, op: Op, scope: str) -> None:
        """Add the ops of the body."""
        inputs = made.inputs_of(op, scope)
        made.hand_on(op, self.body.add(made, inputs, f"{scope}{op.id}\n"), scope)


@dataclass(frozen=True, slots=True)
class BranchBodies:
    """One of several bodies; the first input says which.

    With ``by_number`` it is their number, the last one where it is out of range. Else it is
    true for the first of two.
    """

    bodies: tuple[Body, ...]
    by_number: bool

    def ops(self) -> Iterator[Op]:
        """The ops it holds."""
        for body in self.bodies:
            yield from body.inside

    def unroll(self, made: Translation, op: Op, scope: str) -> None:
        """Add the ops of the branch that is taken."""
        decides, *inputs = made.inputs_of(op, scope)
        value = made.value(decides)
        if self.by_number:
            number = int(value.item())
            last = len(self.bodies) - 1
            branch = number if 0 <= number <= last else last
        else:
            branch = 0 if (value.item() if value.ndim == 0 else value.size) else 1
        made.hand_on(op, self.bodies[branch].add(made, inputs, f"{scope}{op.id}\n"), scope)


@dataclass(frozen=True, slots=True)
class While:
    """A body that runs on its own results as long as another one says so."""

    condition: Body
    body: Body

    def ops(self) -> Iterator[Op]:
        """The ops it holds."""
        yield from self.condition.inside
        yield from self.body.inside

    def unroll(self, made: Translation, op: Op, scope: str) -> None:
        """Add the ops of all turns."""
        carried = made.inputs_of(op, scope)
        for turn in _turns(op):
            inside = f"{scope}{op.id}\n{turn}\n"
            (again,) = self.condition.add(made, carried, f"{inside}again\n")
            if not made.value(again).item():
                break
            carried = self.body.add(made, carried, inside)
        made.hand_on(op, carried, scope)


@dataclass(frozen=True, slots=True)
class FrameLoop:
    """A loop of ops that TensorFlow runs in a frame: the form of its first version.

    ``entered`` are the tensors that stay the same in all turns, by their names inside, ``started``
    and ``carried`` what those that change are in the first turn and in the next one. ``asking``
    makes ``again``, which says whether a turn is made; ``leaving`` hands on what ``results``
    name.
    """

    entered: Mapping[str, str]
    started: Mapping[str, str]
    carried: Mapping[str, str]
    asking: tuple[Op, ...]
    again: str
    body: tuple[Op, ...]
    leaving: tuple[Op, ...]
    results: tuple[str, ...]

    def ops(self) -> Iterator[Op]:
        """The ops it holds."""
        yield from (*self.asking, *self.body, *self.leaving)

    def unroll(self, made: Translation, op: Op, scope: str) -> None:
        """Add the ops of all turns."""
        same = {name: made.named(source, scope) for name, source in self.entered.items()}
        now = {name: made.named(source, scope) for name, source in self.started.items()}
        inside = scope
        for turn in _turns(op):
            inside = f"{scope}{op.id}\n{turn}\n"
            for name, source in (same | now).items():
                made.alias(inside + name, source)
            for inner_op in self.asking:
                made.add_once(inner_op, inside)
            if not made.value(made.named(self.again, inside)).item():
                break
            for inner_op in self.body:
                made.add_once(inner_op, inside)
            now = {name: made.named(source, inside) for name, source in self.carried.items()}
        for inner_op in self.leaving:
            made.add_once(inner_op, inside)
        made.hand_on(op, [made.named(name, inside) for name in self.results], scope)


def _turns(op: Op) -> Iterator[int]:
    yield from range(_MOST_TURNS)
    raise NotTranslatedError(f"{op.name!r} makes more than {_MOST_TURNS} turns")
