"""The prompt of the shell: history, and completion of commands, runs, ops and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import platformdirs
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.history import FileHistory, InMemoryHistory

from divergraph.cli.options import opened_to_read, store_url
from divergraph.cli.precision_tool.place import ToolPlace
from graphstore.errors import DivergraphError

_HISTORY = "shell_history"
_MOST = 200


class Prompt:
    """Asks for lines at a terminal; *commands* are what a line may begin with."""

    def __init__(self, place: Callable[[], ToolPlace], commands: Sequence[str]) -> None:
        self._session: Any = PromptSession(
            history=_history(), completer=_Words(place, commands), complete_while_typing=False
        )

    def lines(self, prompt: str) -> Iterator[str]:
        """The lines, until Ctrl-D; Ctrl-C drops the one being written."""
        while True:
            try:
                yield self._session.prompt(prompt)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return


def _history() -> Any:
    folder = Path(platformdirs.user_state_dir("divergraph"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _HISTORY).open("a").close()
    except OSError:
        return InMemoryHistory()  # nothing may be kept here; this session's lines still are
    return FileHistory(str(folder / _HISTORY))


class _Words(Completer):  # type: ignore[misc, unused-ignore]
    """What fits the word before the cursor: first a command, then names of the store and files."""

    def __init__(self, place: Callable[[], ToolPlace], commands: Sequence[str]) -> None:
        self._place = place
        self._commands = sorted(set(commands))
        self._ops: dict[str, Sequence[str]] = {}

    def get_completions(self, document: Any, complete_event: Any) -> Iterable[Any]:
        """Names that begin with the word, else those that have it inside."""
        before = document.text_before_cursor
        word = before.rpartition(" ")[2]
        candidates = self._names() if " " in before.lstrip() else self._commands
        begin = [name for name in candidates if name.startswith(word)]
        matches = begin or [name for name in candidates if word.lower() in name.lower()]
        for name in [*matches, *_files(word)][:_MOST]:
            yield Completion(name, start_position=-len(word))

    def _names(self) -> list[str]:
        place = self._place()
        try:
            with opened_to_read(place.store) as store:
                entries = [run.name for run in store.runs()]
                entries += [info.name for info in store.graphs()]
                target = place.run or (entries[-1] if entries else "")
                key = f"{store_url(place.store)} {target}"
                if target and key not in self._ops:
                    self._ops[key] = store.arrays(target).ids
            return [*entries, *self._ops.get(key, ())]
        except DivergraphError:
            return []  # a store that is not there yet has no names


def _files(word: str) -> list[str]:
    folder, _, start = word.rpartition("/")
    try:
        names = sorted(
            path.name for path in Path(folder or ("/" if "/" in word else ".")).iterdir()
        )
    except OSError:
        return []  # no such folder: nothing to offer
    prefix = word[: len(word) - len(start)]
    return [prefix + name for name in names if name.startswith(start)] if word else []
