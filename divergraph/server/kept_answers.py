"""Answers as they were sent, kept by their tags: a run is written once, and so is its answer.

Pages of ops are many, and hold the same ops again and again: of those each op is kept.
"""

from __future__ import annotations

import tempfile
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Generic, TypeVar

from anyio import to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from divergraph.api.answers import TensorValues
from divergraph.ask.facts import resolve_op
from divergraph.ask.tensor_values import RunTensors
from divergraph.jobs.progress import NO_PROGRESS
from divergraph.present.declared_answer import ListedOp
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.recent import Recent
from graphstore.schema import codec

_Key = TypeVar("_Key", bound=Hashable)
_Kept = TypeVar("_Kept")
_EACH = 250
"""About what Python takes for a kept text, beside its characters."""


@dataclass(frozen=True, slots=True)
class EncodedAnswer:
    """An answer: its body, and a link to what follows it ("" if nothing does)."""

    body: bytes
    link: str = ""


class LastKept(Generic[_Key, _Kept]):
    """What was asked for last, *most* bytes of it; those asked for longest ago go."""

    def __init__(self, most: int, size: Callable[[_Kept], int]) -> None:
        self._most, self._size, self._held = most, size, 0
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, keys: Iterable[_Key]) -> list[_Kept | None]:
        """What is here under each of *keys*."""
        with self._lock:
            values_by_key = [(key, self._kept.get(key)) for key in keys]
            for key, value in values_by_key:
                if value is not None:
                    self._kept.move_to_end(key)
        return [value for _, value in values_by_key]

    def keep(self, values: Iterable[tuple[_Key, _Kept]]) -> None:
        """Keep each under its key, unless something is there."""
        with self._lock:
            for key, value in values:
                if key not in self._kept:
                    self._kept[key] = value
                    self._held += self._size(value)
            while self._held > self._most:
                self._held -= self._size(self._kept.popitem(last=False)[1])


class EncodedAnswers:
    """The answers sent last, *most* bytes of them; none that is larger than an eighth of that."""

    def __init__(self, most: int) -> None:
        self._largest = most // 8
        self._kept: LastKept[str, EncodedAnswer] = LastKept(most, lambda encoded: len(encoded.body))

    def get(self, tag: str) -> EncodedAnswer | None:
        """The answer of this tag, if it is here."""
        return self._kept.get([tag])[0]

    def keep(self, tag: str, answer: EncodedAnswer) -> None:
        """Keep an answer."""
        if len(answer.body) <= self._largest:
            self._kept.keep([(tag, answer)])


class EncodedOps:
    """The ops listed last as they stand in a document, about *most* bytes of them."""

    def __init__(self, most: int) -> None:
        self._kept: LastKept[tuple[str, int], ListedOp] = LastKept(
            most, lambda op: len(op.text) + 8 * len(op.origins) + _EACH
        )

    def listed(
        self, owner: str, numbers: Sequence[int], make: Callable[[list[int]], list[ListedOp]]
    ) -> list[ListedOp]:
        """Ops as they are listed, by its number in the graph *owner*; what is not here is made."""
        keys = [(owner, number) for number in numbers]
        ops_by_number = dict(zip(numbers, self._kept.get(keys), strict=True))
        missing = [number for number, op in ops_by_number.items() if op is None]
        new_ops = dict(zip(missing, make(missing), strict=True)) if missing else {}
        self._kept.keep(((owner, number), op) for number, op in new_ops.items())
        return [ops_by_number[number] or new_ops[number] for number in numbers]


class OpenedRuns:
    """Tensors of the runs in *store*; what is known of them, which is no values, takes about *most*
    bytes, or those of one run."""

    def __init__(self, store: GraphStore, most: int) -> None:
        self._store = store
        self._opened: Recent[RunTensors] = Recent(1, most, lambda opened: opened.about_bytes)

    def values(self, run: str, op: str, output: int | None, input_: int | None) -> TensorValues:
        """The values of an output or input of a device op; output 0 if neither is named.

        Raises:
            InputError: both are named, or the dumps are gone.
            UnknownNameError: no such run or op.
        """
        if output is not None and input_ is not None:
            raise InputError("give an output or an input, not both")
        store = self._store
        written = codec.text_of(store.run(run))  # another run that takes the name is opened anew
        op_id = resolve_op(store, run, op)
        opened = self._opened.get(
            written, lambda: RunTensors.stored(lambda ask: ask(store), run, NO_PROGRESS)
        )
        return opened.values(op_id, output or 0 if input_ is None else input_, input_ is None)


_IN_MEMORY = 1 << 20
"""Larger files are written to the disk before they are sent."""
_BLOCK = 1 << 16


class WrittenFile(StreamingResponse):
    """What *write* writes, all of it before any is sent; its file is closed when it is sent or the
    client has gone."""

    def __init__(
        self, write: Callable[[IO[bytes]], None], headers: Mapping[str, str], media_type: str
    ) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - see __call__
        try:
            write(self._file)
            length = str(self._file.tell())
            self._file.seek(0)
        except BaseException:
            self._file.close()
            raise
        sized = {**headers, "Content-Length": length}
        super().__init__(self._blocks(), headers=sized, media_type=media_type)

    async def _blocks(self) -> AsyncIterator[bytes]:
        while block := await to_thread.run_sync(self._file.read, _BLOCK):
            yield block

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()
