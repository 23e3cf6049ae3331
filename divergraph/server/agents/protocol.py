"""The server of the Model Context Protocol, on standard input and output."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from divergraph.cli.error_text import error_text
from divergraph.cli.say import say_error
from divergraph.present.declared_answer import json_of
from divergraph.present.json_text import Json, json_text
from divergraph.server.agents.tool_table import all_tools
from divergraph.text.printable import printable, printable_json
from divergraph.version import __version__
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import InputError

_STOPPED = 130
_AT_ONCE = 4
_LOOK_SECONDS = 0.25
"""So often is looked whether an engine does not end a query; most answers take less."""


def serve(store: GraphStore, instructions: str) -> None:
    """Answer questions about *store* until the client ends; it is told the *instructions*.

    Raises:
        BrokenPipeError: the client does not read any more.
    """
    signal.signal(signal.SIGINT, _stop)
    try:
        anyio.run(_serve, ToolAnswering(store), instructions)
    except ExceptionGroup as group:
        broken, others = group.split(BrokenPipeError)
        if broken is None or others is not None:
            raise
        raise BrokenPipeError from group


def _stop(_number: int, _frame: object) -> None:
    """End at Ctrl-C; else the thread that reads would wait for one more line."""
    say_error("stopped")
    os._exit(_STOPPED)


async def _serve(answering: ToolAnswering, instructions: str) -> None:
    async def listed(_context: Any, _params: Any) -> Any:
        return types.ListToolsResult(tools=described_tools())

    async def called(_context: Any, params: Any) -> Any:
        return await answering.answer(params.name, params.arguments or {})

    server = Server(
        "divergraph",
        version=__version__,
        instructions=instructions,
        on_list_tools=listed,
        on_call_tool=called,
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def described_tools() -> list[Any]:
    """The tools, as the protocol describes them."""
    about = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return [
        types.Tool(
            name=name, description=tool.says(), input_schema=tool.schema(), annotations=about
        )
        for name, tool in all_tools().items()
    ]


class ToolAnswering:
    """Answers calls about *store*, a few at once, beside the event loop."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="answers")

    async def answer(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What the tool *name* answers, or the sentence that says why it cannot."""

        def work(cancellation: Cancellation) -> tuple[str, str]:
            tools = all_tools()
            if name not in tools:
                hint = f"there are {', '.join(tools)}"
                raise InputError(f"there is no tool {name!r}", hint=hint)
            stated = {field: value for field, value in arguments.items() if value is not None}
            question = tools[name].question(stated)
            return bounded_answer(json_of(question, question.ask(self._store, cancellation)))

        answer, error = await self._waited(work)
        if error is not None:
            return _result(bounded_sentence(printable(error_text(error))), is_error=True)
        return _result(*filter(None, answer))

    async def _waited(
        self, work: Callable[[Cancellation], tuple[str, str]]
    ) -> tuple[tuple[str, str], BaseException | None]:
        """What *work* returns or raises; who does not wait any more stops its query."""
        cancellation = Cancellation()
        future = asyncio.get_running_loop().run_in_executor(self._threads, work, cancellation)
        try:
            while not (await asyncio.wait({future}, timeout=_LOOK_SECONDS))[0]:
                if cancellation.stuck is not None:
                    return ("", ""), cancellation.stuck
        except asyncio.CancelledError:
            cancellation.cancel()
            raise
        error = future.exception()
        return (("", "") if error else future.result()), error


def _result(*texts: str, is_error: bool = False) -> Any:
    content: list[Any] = [types.TextContent(type="text", text=text) for text in texts]
    return types.CallToolResult(content=content, is_error=is_error)


MOST_CHARACTERS = 40_000
"""Some 12 thousand tokens; clients refuse, or ask about, answers twice as long."""
_MOST_ENTRIES = 512
_MOST_OF_SENTENCE = 2000
_NAMED = 6
_LINE = 10
"""Roughly the characters around an entry: line end, indentation, quotes, comma."""


def bounded_answer(shape: Mapping[str, Json], limit: int = MOST_CHARACTERS) -> tuple[str, str]:
    """*shape* as the command line prints it and "", or with the first entries of its longest
    lists only, and what was cut.

    Raises:
        InputError: it is too long with one entry in each list.
    """
    text, cut = _document(shape), _Cut()
    shortened: Any = shape
    while len(text) > limit:
        shortened = cut.shortened(shortened)
        text = _document(shortened)
        if len(text) > limit and not cut.allow_less(shortened):
            raise InputError("the answer is too long to be read", hint="ask for less")
    return text, cut.said()


def bounded_sentence(text: str) -> str:
    """*text*, of an error, without its middle if that is as long as what an agent gave."""
    half = _MOST_OF_SENTENCE // 2
    return text if len(text) <= _MOST_OF_SENTENCE else f"{text[:half]} ... {text[-half:]}"


def _document(shape: Mapping[str, Any]) -> str:
    return f"{printable_json(json_text(shape), ascii_only=False)}\n"


class _Cut:
    """How many entries the lists at a place (the names that lead there) have, and may have."""

    def __init__(self) -> None:
        self._had: dict[str, int] = {}
        self._allowed: dict[str, int] = {}

    def shortened(self, value: Any, place: str = "") -> Any:
        """*value* with lists as long as is allowed."""
        if isinstance(value, Mapping):
            return {
                name: self.shortened(part, f"{place}.{name}".lstrip("."))
                for name, part in value.items()
            }
        if not isinstance(value, list | tuple):
            return value
        allowed = self._allowed.setdefault(place, _MOST_ENTRIES)
        self._had[place] = max(len(value), self._had.get(place, 0))
        return [self.shortened(element, f"{place}[]") for element in value[:allowed]]

    def allow_less(self, value: Any) -> bool:
        """Allow a quarter less at the place where most is written; False if nothing can be less.

        What holds other lists is cut before these: a path stays whole as long as it can.
        """
        weights: dict[str, int] = {}
        longest: dict[str, int] = {}
        _weigh(value, "", weights, longest)
        places = [place for place, length in longest.items() if length > 1]
        if not places:
            return False
        heaviest = max(places, key=lambda place: weights[place])
        self._allowed[heaviest] = longest[heaviest] * 3 // 4
        return True

    def said(self) -> str:
        """It, in a sentence; "" if nothing was cut."""
        cut = [
            f"{place.replace('[]', '')} (up to {had}) show {self._allowed[place]}"
            for place, had in self._had.items()
            if had > self._allowed[place]
        ]
        if not cut:
            return ""
        rest = f", and {len(cut) - _NAMED} other lists" if len(cut) > _NAMED else ""
        return f"cut: {', '.join(cut[:_NAMED])}{rest}; ask for less to see the rest"


def _weigh(value: Any, place: str, weights: dict[str, int], longest: dict[str, int]) -> int:
    """Roughly the characters of *value*; fills in those of the lists at each place, and how many
    entries the longest has."""
    if isinstance(value, dict):
        return sum(
            _LINE + len(name) + _weigh(part, f"{place}.{name}".lstrip("."), weights, longest)
            for name, part in value.items()
        )
    if not isinstance(value, list):
        return len(str(value))
    weight = sum(_LINE + _weigh(element, f"{place}[]", weights, longest) for element in value)
    weights[place] = weights.get(place, 0) + weight
    longest[place] = max(len(value), longest.get(place, 0))
    return weight
