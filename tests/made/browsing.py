"""The terminal app as a user sees and drives it: text on screen, keys, waiting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Self

from textual.pilot import Pilot

from tui.app import DivergraphApp
from tui.widgets.filter_bar import FilterInput
from tui.widgets.row_list import RowList

SIZE = (120, 40)


def text_of(app: DivergraphApp) -> str:
    """Everything on screen as text."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def said(app: DivergraphApp) -> str:
    """The messages shown as toasts."""
    return " | ".join(notification.message for notification in app._notifications)


def table(app: DivergraphApp) -> RowList:
    """The list of ops."""
    return app.screen.query_one("#ops", RowList)


def op_under_cursor(app: DivergraphApp) -> str:
    """The op the view on screen stands on."""
    return app.screen.address().op


def shown_ops(app: DivergraphApp) -> list[str]:
    """The ops listed, filtered and in order."""
    return [row.id for row in table(app).source.shown]


class Browser:
    """Drives *app* while it runs in ``async with``; *settle* waits until it is at rest."""

    def __init__(
        self,
        app: DivergraphApp,
        settle: Callable[[Pilot[None]], Awaitable[None]],
        size: tuple[int, int] = SIZE,
    ) -> None:
        self.app, self.settle, self.size = app, settle, size

    async def __aenter__(self) -> Self:
        self._test = self.app.run_test(size=self.size)
        self.pilot = await self._test.__aenter__()
        await self.settle(self.pilot)
        await self.settle(self.pilot)
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._test.__aexit__(*failure)

    async def press(self, *keys: str) -> None:
        """Press *keys*, and wait after each."""
        for key in keys:
            await self.pilot.press(key)
            await self.settle(self.pilot)

    async def filter(self, text: str) -> None:
        """Type *text* as the filter of the ops."""
        await self.press("slash")
        self.app.screen.query_one(FilterInput).value = text
        await self.settle(self.pilot)
