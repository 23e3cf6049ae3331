"""What the process that runs models answers: it opens executors and does what they are asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from divergraph.execute.child.confine import Gap
from divergraph.execute.child.limits import (
    BrokenExecutorError,
    ModelLimits,
    hold,
    hold_time,
    is_full,
    is_out_of_memory,
)
from divergraph.execute.child.wire import read_command, send_answer
from divergraph.execute.contract import (
    Additive,
    AdditiveRun,
    Alterable,
    AlterableBodies,
    Array,
    ConfinedFactory,
    Executor,
    QuantisedRun,
    Quantising,
    RunnableSubgraph,
    SubgraphResult,
    Unavailable,
)
from divergraph.execute.installed import open_here
from graphstore.errors import DivergraphError
from graphstore.model import ModelGraph

Answer = dict[str, Any]
_TOGETHER, _TOGETHER_BYTES = 64, 1 << 18
"""So many results, or so many bytes of them, in one answer."""


class Server:
    """Answers what stands in *questions* (a file descriptor) into *answers*."""

    def __init__(
        self, questions: int, answers: int, limits: ModelLimits, gaps: Sequence[Gap]
    ) -> None:
        self._questions = questions
        self._answers = answers
        self._limits = limits
        self._gaps = gaps
        self._held = False
        self._objects: dict[int, Any] = {}
        self._late: dict[int, Exception] = {}
        self._last_told: dict[int, tuple[Unavailable, ...]] = {}

    def serve(self) -> None:
        """Until there are no more questions."""
        while True:
            try:
                dropped, command = read_command(self._fill)
            except EOFError:
                return
            self._answer(dropped, command)

    def asked(self, number: int, **what: object) -> Any:
        """What the parent answers to a question of ours; its questions meanwhile are answered."""
        self._say({"asks": number, **what})
        while True:
            dropped, command = read_command(self._fill)
            if command[0] == "answer":
                return command[1]
            if command[0] == "raised":
                raise _RaisedThereError
            self._answer(dropped, command)

    def _answer(self, dropped: Sequence[int], command: tuple[Any, ...]) -> None:
        for number in dropped:
            self._let_go(number)
        hold_time(self._limits)
        try:
            answer = getattr(self, f"_do_{command[0]}")(*command[1:])
            self._say(answer)
        except EOFError:
            raise
        except Exception as error:  # noqa: BLE001 - told to the parent, who raises it
            self._say({"failed": self._told(error)})

    def _told(self, error: Exception) -> Answer:
        unexplained = not isinstance(error, DivergraphError) and is_full()
        if isinstance(error, MemoryError) or is_out_of_memory(str(error)) or unexplained:
            error = self._limits.out_of_memory()
        if isinstance(error, DivergraphError):
            kind, what = type(error).__name__, error.what
            return {"kind": kind, "what": what, "where": error.where, "hint": error.hint}
        what = f"the executor failed: {type(error).__name__}: {' '.join(str(error).split())[:400]}"
        return {"kind": BrokenExecutorError.__name__, "what": what, "where": "", "hint": ""}

    def _do_gaps(self) -> Answer:
        return {"gaps": [[gap.part, gap.reason] for gap in self._gaps]}

    def _do_load(self, load: Callable[[], object]) -> Answer:
        """Import a framework, then set the limits: what it takes by itself does not count."""
        with suppress(ImportError):  # told when the model is opened, with what to install
            load()
        if not self._held:
            hold(self._limits)
            self._held = True
        return {}

    def _do_open(
        self,
        number: int,
        factory: ConfinedFactory,
        path: Path,
        graph: ModelGraph,
        options: Mapping[str, str] | None,
    ) -> Answer:
        executor = open_here(factory, path, graph, options)
        self._objects[number] = executor
        return {
            **self._news(executor),
            "name": executor.name,
            "inputs": [tensor.name for tensor in executor.inputs],
            "tensors": executor.tensors,
            "can": [kind.__name__ for kind in _CAPABILITIES if isinstance(executor, kind)],
        }

    def _do_run(
        self,
        number: int,
        executor: int,
        feeds: Mapping[str, Array],
        wanted: Sequence[str] | None,
        memory: int,
    ) -> Answer:
        self._objects[number] = _Running(
            self._objects[executor],
            self._objects[executor].run(feeds, wanted, memory=memory),
        )
        return {}

    def _do_subgraphs(self, number: int, executor: int, memory: int) -> Answer:
        pieces = _Pieces(self, number)
        results = self._objects[executor].run_subgraphs(pieces, pieces.values, memory=memory)
        self._objects[number] = _Running(self._objects[executor], results)
        return {}

    def _do_next(self, number: int) -> Answer:
        if number in self._late:
            raise self._late.pop(number)
        running: _Running = self._objects[number]
        items: list[object] = []
        size = 0
        while len(items) < _TOGETHER and size < _TOGETHER_BYTES:
            try:
                item = next(running.items)
            except StopIteration:
                self._let_go(number)
                return {"items": items, "ended": True, **self._news(running.executor)}
            except Exception as error:
                if not items or isinstance(error, EOFError):
                    raise
                self._late[number] = error  # what was made before it counts
                break
            arrays, description = self._shown(item)
            size += sum(array.nbytes for array in arrays)
            items.append(description)
        return {"items": items}

    def _shown(self, item: Any) -> tuple[list[Array], object]:
        """The arrays of a result, and the result as it is told."""
        if not isinstance(item, SubgraphResult):
            name, value = item
            array = np.asarray(value)
            return [array], [name, array]
        values, failure = _arrays(item.values), item.failure
        if is_out_of_memory(failure):
            failure = str(self._limits.out_of_memory())
        return list(values.values()), [item.key, values, failure]

    def _do_adding(self, number: int, executor: int, method: str, *arguments: Any) -> Answer:
        run: AdditiveRun = getattr(self._objects[executor], method)(*arguments)
        self._objects[number] = run
        makers = list(run.makers) if isinstance(run, QuantisedRun) else None
        return {"tensors": list(run.tensors), "makers": makers}

    def _do_values(self, target: int, method: str, *arguments: Any) -> Answer:
        """What a method that gives values by name gives, or None."""
        values = getattr(self._objects[target], method)(*arguments)
        return {"values": None if values is None else _arrays(values)}

    def _do_call(self, function: Callable[..., Any], *arguments: Any) -> Answer:
        """What a function of ours gives that runs a model."""
        result = function(*arguments)
        return {"value": _arrays(result) if isinstance(result, Mapping) else result}

    def _news(self, executor: Executor) -> Answer:
        """The tensors that cannot be had, if they are others than were told last: of a large model
        they would be most of what is said."""
        now = tuple(executor.unavailable)
        if self._last_told.get(id(executor)) == now:
            return {}
        self._last_told[id(executor)] = now
        return {"unavailable": [[unavailable.tensor, unavailable.reason] for unavailable in now]}

    def _let_go(self, number: int) -> None:
        removed = self._objects.pop(number, None)
        self._last_told.pop(id(removed), None)
        self._late.pop(number, None)
        close = getattr(removed.items if isinstance(removed, _Running) else removed, "close", None)
        if close is not None:
            close()

    def _say(self, answer: Answer) -> None:
        send_answer(self._write, answer)

    def _write(self, data: bytes | memoryview) -> None:
        unsent = memoryview(data)
        while unsent.nbytes:
            unsent = unsent[os.write(self._answers, unsent) :]

    def _fill(self, buffer: memoryview) -> None:
        unfilled = buffer
        while unfilled.nbytes:
            got = os.readv(self._questions, [unfilled])
            if not got:
                raise EOFError
            unfilled = unfilled[got:]


_CAPABILITIES = (Additive, Quantising, Alterable, AlterableBodies)


class _RaisedThereError(Exception):
    """What the parent was asked raised: it knows what."""


class _Running:
    """Results still to come, and the executor they come from."""

    def __init__(self, executor: Executor, items: Iterator[Any]) -> None:
        self.executor = executor
        self.items = items


class _Pieces:
    """The subgraphs the parent has for us, asked for some at a time; and their inputs."""

    def __init__(self, server: Server, number: int) -> None:
        self._server = server
        self._number = number
        self._numbers: dict[int, int] = {}
        self._known: dict[int, RunnableSubgraph] = {}
        self._values: dict[int, Mapping[str, Array]] = {}

    def __iter__(self) -> Iterator[RunnableSubgraph]:
        while True:
            answer = self._server.asked(self._number, what="pieces")
            if not answer:
                return
            for number, piece in answer:
                self._numbers[id(piece)] = number
                self._known[number] = piece  # else its id would soon be another's
            for _, piece in answer:
                yield piece

    def values(self, piece: RunnableSubgraph) -> Mapping[str, Array]:
        number = self._numbers[id(piece)]
        if number not in self._values:
            self._values.update(self._server.asked(self._number, what="values", of=number))
        return self._values.pop(number)


def _arrays(values: Mapping[str, Any]) -> dict[str, Array]:
    return {name: np.asarray(value) for name, value in values.items()}
