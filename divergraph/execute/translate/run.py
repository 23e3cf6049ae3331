"""Run a program part after part: each op once, within a memory limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from divergraph.execute.contract import Array
from divergraph.execute.onnx.in_float64 import in_float64
from divergraph.execute.onnx.session import LiveValues, open_session, plain_options, run_session
from divergraph.execute.translate.contract import KnownTensor, NeedsValueError, NotTranslatedError
from divergraph.execute.translate.lists import TensorLists
from divergraph.execute.translate.program import Program
from divergraph.execute.translate.translation import Translation
from graphstore.errors import ExecutionError
from graphstore.model import Op

_TOLD = 1 << 12
"""Elements up to which integers that were run for are known to the rows behind."""
_UNKNOWN_SHARE = 8
"""A tensor of unknown size is taken for this part of the memory allowed."""
_NOT_TAKEN = "its branch is not taken on these inputs"


def run_translation(
    translation: Translation,
    names: Sequence[str],
    feeds: Mapping[str, Array],
    *,
    rounded: bool = True,
) -> list[Array]:
    """The values of tensors of a translation, which constants or nodes make: *rounded* to their
    own types, or as they were computed.

    Raises:
        ExecutionError: ONNX Runtime does not run it, or a tensor is of a branch not taken.
    """
    require_made(translation, names)
    fixed = {name: value for name in names if (value := translation.constant(name)) is not None}
    wanted = [name for name in dict.fromkeys(names) if name not in fixed]
    values: dict[str, Array] = {}
    if wanted:
        model, constants = translation.model(wanted)
        inputs = [value.name for value in model.graph.input]
        fed = {name: constants[name] if name in constants else feeds[name] for name in inputs}
        if translation.double:
            model, fed, _ = in_float64(model, fed)
        session = open_session(model, Path(), plain_options())
        given_out = [value.name for value in model.graph.output]
        values = dict(zip(wanted, run_session(session, given_out, fed), strict=True))
        if translation.double and rounded:
            values = {
                name: as_own(value, translation.known[name].dtype) for name, value in values.items()
            }
    return [fixed[name] if name in fixed else values[name] for name in names]


def require_made(translation: Translation, names: Sequence[str]) -> None:
    """Check that ops of a translation make these tensors.

    Raises:
        ExecutionError: of one they do not.
    """
    for name in names:
        if name in translation.dead:
            raise ExecutionError(f"{_tensor_text(name)!r}: {_NOT_TAKEN}")
        if translation.named(name) not in translation.known:
            raise ExecutionError(f"{_tensor_text(name)!r} is no tensor that an op fills")


def _tensor_text(name: str) -> str:
    """A tensor as its model calls it: what stands before is our number of the piece."""
    return name.rpartition("\n")[2]


def as_own(value: Array, dtype: np.dtype[Any]) -> Array:
    """A value that was computed in double precision, in its own type."""
    return value.astype(dtype) if value.dtype != dtype else value


def give_values(
    translation: Translation, values: Mapping[str, Array], scope: str = ""
) -> dict[str, Array]:
    """Give a translation what a piece is fed; the feeds by the names they have there."""
    for name, value in values.items():
        translation.give(name, known_of_run(value), scope)
    return {scope + name: value for name, value in values.items()}


def known_of_run(value: Array, dtype: np.dtype[Any] | None = None) -> KnownTensor:
    """What rows may know of a value that was run for: its shape, and the value of few integers,
    which may be sizes or axes. *dtype* is its own element type, if it was computed in another."""
    is_index = value.dtype.kind in "iub" and value.size <= _TOLD
    return KnownTensor(dtype or value.dtype, value.shape, value if is_index else None)


class ProgramRun:
    """The run of *names* on *feeds* in parts of about *memory* bytes.

    A part ends where it is large enough, and where an op needs to know a value before it can be
    translated. ``lost`` says what could not be given, and why.
    """

    def __init__(
        self, program: Program, feeds: Mapping[str, Array], names: Sequence[str], memory: int
    ) -> None:
        self._program = program
        self._asked = frozenset(names)
        self._memory = memory
        self._ops = program.needed(names, feeds)
        self._uses = Counter(ref.tensor for op in self._ops for ref in op.inputs if ref)
        self._live = LiveValues(memory, self._uses)
        self._known = {name: known_of_run(value) for name, value in feeds.items()}
        self._fixed: dict[str, Array] = {}
        self._lists = TensorLists()
        self._dead: set[str] = set()
        self.lost: dict[str, str] = {}
        for name, value in feeds.items():
            self._live.keep(name, np.asarray(value))  # a number of no axes is no array any more

    def values(self) -> Iterator[tuple[str, Array]]:
        """Each wanted tensor with its value; what does not run is lost, and what needs it."""
        yield from self._made_by(self._ops)

    def _made_by(self, ops: Sequence[Op]) -> Iterator[tuple[str, Array]]:
        part = self._new_part()
        for op in ops:
            if op.id in self._program.blocks and part.ops:
                # What its turns wait for is run for; so nothing else should be in the part.
                yield from self._finish(part)
                part = self._new_part()
            if not self._add(part, op):
                yield from self._finish(part)
                part = self._new_part()
                if not self._add(part, op):
                    self._lose(op, "its shape follows from no value that can be run for")
            if part.nbytes > self._memory:
                yield from self._finish(part)
                part = self._new_part()
        yield from self._finish(part)

    def close(self) -> None:
        """Remove the scratch files."""
        self._live.close()

    def _new_part(self) -> _Part:
        translation = self._program.translation()
        translation.dead.update(self._dead)
        translation.lists = self._lists.copy()
        for name in translation.lists.elements():
            if name in self._fixed:
                translation.fix(name, self._fixed[name])
            else:
                translation.give(name, self._known[name])
        return _Part(translation)

    def _add(self, part: _Part, op: Op) -> bool:
        """Translate *op* as the next one of *part*; False if a value has to be run for first."""
        for ref in op.inputs:
            if ref is None or ref.tensor in part.made.known:
                continue
            if ref.tensor in self._fixed:
                part.made.fix(ref.tensor, self._fixed[ref.tensor])
            elif ref.tensor in self._known:
                part.made.give(ref.tensor, self._known[ref.tensor])
                part.reads.add(ref.tensor)
        try:
            while True:
                try:
                    part.made.add(op)
                    break
                except NeedsValueError as error:
                    if not self._told(part, error.tensor) and not self._runs_for(part, op, error):
                        return False
        except (NotTranslatedError, ExecutionError) as error:
            self._lose(op, str(error))
        else:
            part.ops.append(op)
            outputs = (part.made.known.get(tensor.name) for tensor in op.outputs)
            sizes = (output.nbytes for output in outputs if output is not None)
            unknown = self._memory // _UNKNOWN_SHARE
            part.nbytes += sum(unknown if size is None else size for size in sizes)
        return True

    def _told(self, part: _Part, tensor: str) -> bool:
        """Let the rows of *part* know a value that was run for; False if it was not yet."""
        known_tensor = self._known.get(tensor)
        if known_tensor is None or known_tensor.value is not None:
            return False
        value = self._live.look(tensor)
        self._known[tensor] = part.made.known[tensor] = KnownTensor.of(value)
        return True

    def _runs_for(self, part: _Part, op: Op, error: NeedsValueError) -> bool:
        """Run for a value inside of a block; False if it is none of these."""
        known_tensor = part.made.known.get(error.tensor)
        if (
            op.id not in self._program.blocks
            or known_tensor is None
            or known_tensor.value is not None
        ):
            return False
        (value,) = run_translation(part.made, [error.tensor], _Feeds(self._live))
        part.made.known[error.tensor] = KnownTensor.of(value)
        return True

    def _finish(self, part: _Part) -> Iterator[tuple[str, Array]]:
        """Run *part* and give what was asked for of it."""
        names = [tensor.name for op in part.ops for tensor in op.outputs]
        self._dead.update(name for name in names if name in part.made.dead)
        for name in names:
            if name in self._dead and name in self._asked:
                self.lost.setdefault(name, _NOT_TAKEN)
        reads = Counter(ref.tensor for op in part.ops for ref in op.inputs if ref)
        later = self._uses - reads
        wanted = [
            name
            for name in names
            if name in part.made.known and (name in self._asked or later[name] > 0)
        ]
        elements = dict.fromkeys(part.made.lists.elements())
        new = elements.keys() - self._known.keys() - self._fixed.keys() - set(wanted)
        wanted += [name for name in elements if name in new]
        try:
            values = run_translation(part.made, wanted, _Feeds(self._live), rounded=False)
        except ExecutionError as error:
            if len(part.ops) == 1:
                self._lose(part.ops[0], str(error))
                return
            middle = len(part.ops) // 2
            yield from self._made_by(part.ops[:middle])
            yield from self._made_by(part.ops[middle:])
            return
        for name in part.reads:
            if name in elements:
                self._live.never_let_go(name)
            self._live.take(name, reads[name])
        self._uses = later
        self._lists = part.made.lists
        values.reverse()
        for name in wanted:
            value = np.asarray(values.pop())
            if part.made.constant(name) is not None:
                self._fixed[name] = value
            elif name in elements or later[name] > 0:
                if name in elements:
                    self._live.never_let_go(name)
                self._known[name] = known_of_run(value, part.made.known[name].dtype)
                self._live.keep(name, value)
            if name in self._asked:
                yield name, as_own(value, part.made.known[name].dtype)

    def _lose(self, op: Op, reason: str) -> None:
        reasons = (self.lost[ref.tensor] for ref in op.inputs if ref and ref.tensor in self.lost)
        reason = next(reasons, reason)
        for tensor in op.outputs:
            self.lost.setdefault(tensor.name, reason)


class _Feeds(Mapping[str, Array]):
    """Kept values, looked up when one is fed."""

    def __init__(self, live: LiveValues) -> None:
        self._live = live

    def __getitem__(self, name: str) -> Array:
        return self._live.look(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass(slots=True)
class _Part:
    """Ops that run in one session: what they read from before, about how large they make."""

    made: Translation
    ops: list[Op] = field(default_factory=list)
    reads: set[str] = field(default_factory=set)
    nbytes: int = 0
