"""One run of a TensorFlow model: the same step again and again, some tensors each time.

A step in TensorFlow starts from variables, random generators and iterators. Each part of
the run starts from the same state of all of them, so its tensors are those of one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from divergraph.execute.contract import Array
from divergraph.execute.tensorflow.chunks import chunks, dead_tensors, item_size, known_size
from divergraph.execute.tensorflow.files import first_line, new_session, tensorflow_errors
from divergraph.execute.tensorflow.model import Model
from divergraph.execute.tensorflow.step import in_order, needed
from divergraph.execute.tensorflow.values import as_typed, plain
from graphstore.errors import ExecutionError

_MOST_FAILURES = 20
"""Tensors that may fail in a row before the whole run counts as failed."""
_EMPTY = "its variable has no value"
_NO_VALUE = ("Could not find variable", "uninitialized value", "is uninitialized")
"""What TensorFlow says of variables nothing gave a value, of each kind."""


class TensorFlowRun:
    """The run of *names* (tensors of the model) on *feeds*."""

    def __init__(
        self, model: Model, feeds: Mapping[str, Array], names: Sequence[str], memory: int
    ) -> None:
        self._model = model
        self._tensors = [model.graph.get_tensor_by_name(name) for name in names]
        self._memory = memory
        self._session: Any = None
        self._failures = 0
        self._feeds = {
            name: as_typed(value, model.graph.get_tensor_by_name(name).dtype)
            for name, value in feeds.items()
        }

    def values(self) -> Iterator[tuple[str, Array | str]]:
        """Each tensor's value, or why it has none.

        Raises:
            ExecutionError: the model does not run on these feeds.
        """
        late = self._model.step.late
        try:
            early = [tensor for tensor in self._tensors if tensor.name not in late]
            dead = self._dead()
            empty = self._behind_empty()
            yield from ((t.name, _EMPTY) for t in self._tensors if t.op in empty)
            self._tensors = [tensor for tensor in self._tensors if tensor.op not in empty]
            early = [tensor for tensor in early if tensor.op not in empty]
            for tensor in self._tensors:
                if tensor.name in dead:
                    yield tensor.name, "its branch is not taken on these inputs"
            early = [tensor for tensor in early if tensor.name not in dead]
            for group in chunks(early, self._sizes(early), self._memory):
                yield from self._group(group, fresh=self._model.changes)
            # What changes variables comes last: each part of it in a session of its own.
            rest = [t for t in self._tensors if t.name in late and t.name not in dead]
            for group in chunks(rest, self._sizes(rest), self._memory):
                yield from self._group(group, fresh=True)
        finally:
            self._close()

    def _group(self, group: Sequence[Any], *, fresh: bool) -> Iterator[tuple[str, Array | str]]:
        try:
            values = self._fetch(group, fresh=fresh)
        except ExecutionError as error:
            if len(group) > 1:
                middle = len(group) // 2
                yield from self._group(group[:middle], fresh=fresh)
                yield from self._group(group[middle:], fresh=fresh)
                return
            if any(words in str(error) for words in _NO_VALUE):
                yield group[0].name, _EMPTY
                return
            self._failures += 1
            if self._failures > _MOST_FAILURES:
                raise
            yield group[0].name, str(error)
            return
        values.reverse()
        for tensor in group:
            self._failures = 0
            yield tensor.name, plain(values.pop())

    def _fetch(self, tensors: Sequence[Any], *, fresh: bool) -> list[Any]:
        if fresh or self._session is None:
            self._close()
            self._session = new_session(self._model.graph)
            self._model.preparation.prepare(self._session, self._feeds)
        try:
            return list(self._session.run(list(tensors), self._feeds))
        except tensorflow_errors() as error:
            raise ExecutionError(f"fails in TensorFlow: {first_line(error)}") from error

    def _dead(self) -> frozenset[str]:
        model = self._model
        asked = needed((tensor.op for tensor in self._tensors), model.fed)
        return dead_tensors(
            model.graph,
            model.in_loops,
            asked,
            model.fed | set(self._feeds),
            lambda tensors: self._fetch(tensors, fresh=model.changes),
        )

    def _behind_empty(self) -> set[Any]:
        """The ops that need a variable nothing gave a value."""
        self._fetch([], fresh=False)
        found = self._model.preparation.without_value(self._session)
        for op in in_order(self._model.graph) if found else ():
            if any(each.op in found and each.name not in self._feeds for each in op.inputs):
                found.add(op)
        return found

    def _sizes(self, tensors: Sequence[Any]) -> dict[str, int]:
        """Bytes of *tensors*, those of unknown shape counted in a run of their own."""
        found: dict[str, int] = {}
        unknown: list[Any] = []
        for tensor in tensors:
            size = known_size(tensor)
            if size is not None:
                found[tensor.name] = size
            elif tensor.name in self._model.sizes:
                unknown.append(tensor)
        if unknown:
            counters = [self._model.sizes[tensor.name] for tensor in unknown]
            try:
                counted = self._fetch(counters, fresh=self._model.changes)
            except ExecutionError:
                return found  # one of them fails; which one is found when they are fetched
            for tensor, count in zip(unknown, counted, strict=True):
                found[tensor.name] = int(count) * item_size(tensor)
        return found

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
