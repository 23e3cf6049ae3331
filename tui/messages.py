"""Messages from views and widgets to the app, and answers from threads to those who asked. Messages
carry names; widgets never refer to each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from textual.app import App
from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from graphstore.errors import DivergraphError

Answer = TypeVar("Answer")


class OpenOp(Message):
    """The user wants to see one op in the list of ops."""

    def __init__(self, op: str) -> None:
        super().__init__()
        self.op = op


class OpenFilter(Message):
    """The user wants the list of ops with this filter."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where


class OpenTarget(Message):
    """The user chose a run or an imported graph."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__()
        self.name = name
        self.kind = kind


class Failed(Message):
    """A question could not be answered."""

    def __init__(self, error: DivergraphError) -> None:
        super().__init__()
        self.error = error


def ask(
    asker: App[Any] | Widget,
    group: str,
    question: Callable[[], Answer],
    then: Callable[[Answer], object],
    failed: Callable[[DivergraphError], object] | None = None,
    *,
    exclusive: bool = True,
) -> None:
    """Answer *question* in a thread and give the answer to *then*, in the thread of *asker*.

    Trouble the user can meet goes to *failed*, or is told in a notice. An *exclusive* question is
    forgotten when another one of its *group* is asked.
    """

    def tell(error: DivergraphError) -> None:
        asker.notify(str(error), severity="error")

    def work() -> None:
        outcome: Callable[[], object]
        try:
            outcome = partial(then, question())
        except DivergraphError as error:
            outcome = partial(failed or tell, error)
        if not get_current_worker().is_cancelled:
            asker.call_later(outcome)

    # Without a description one is made of all that is asked about, 100,000 ops long.
    asker.run_worker(
        work, thread=True, exclusive=exclusive, group=group, exit_on_error=False, description=group
    )
