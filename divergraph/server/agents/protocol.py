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
from divergraph.server.agents.bounded_answer import bounded_answer, bounded_sentence
from divergraph.server.agents.tool_table import all_tools
from divergraph.text.printable import printable
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
        left, others = group.split(BrokenPipeError)
        if left is None or others is not None:
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

    async def answer(self, name: str, given: Mapping[str, Any]) -> Any:
        """What the tool *name* answers, or the sentence that says why it cannot."""

        def work(cancellation: Cancellation) -> tuple[str, str]:
            tools = all_tools()
            if name not in tools:
                hint = f"there are {', '.join(tools)}"
                raise InputError(f"there is no tool {name!r}", hint=hint)
            stated = {field: value for field, value in given.items() if value is not None}
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
        found = asyncio.get_running_loop().run_in_executor(self._threads, work, cancellation)
        try:
            while not (await asyncio.wait({found}, timeout=_LOOK_SECONDS))[0]:
                if cancellation.stuck is not None:
                    return ("", ""), cancellation.stuck
        except asyncio.CancelledError:
            cancellation.cancel()
            raise
        error = found.exception()
        return (("", "") if error else found.result()), error


def _result(*texts: str, is_error: bool = False) -> Any:
    content: list[Any] = [types.TextContent(type="text", text=text) for text in texts]
    return types.CallToolResult(content=content, is_error=is_error)
