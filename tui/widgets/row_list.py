"""The one virtual list: any number of rows, only the visible ones are ever built."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from textual import events
from textual.actions import SkipAction
from textual.cache import LRUCache
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.keys import KeyScope, bindings
from tui.style.glyphs import UNICODE, Glyphs
from tui.widgets.columns import Placed, place
from tui.widgets.row_lines import RowLines
from tui.widgets.rows import STYLES, RowSource
from tui.widgets.titled import Titled

HEADER_LINES = 1


class RowList(Titled, ScrollView, can_focus=True):
    """A table with a cursor over a :class:`RowSource`."""

    BINDINGS = bindings(KeyScope.LIST)
    # A bar that comes and goes would change the width of the columns with the rows.
    DEFAULT_CSS = """
    RowList { overflow-y: scroll; overflow-x: auto; scrollbar-size: 1 1; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "row-list--header",
        "row-list--chosen",
        "row-list--cursor",
        "row-list--empty",
        *(f"row-list--{name}" for name in STYLES),
    }

    cursor: reactive[int] = reactive(0, repaint=False)
    column: reactive[int] = reactive(0)
    wide: reactive[bool] = reactive(False)

    class Moved(Message):
        """The cursor is on another row; only the newest of these matters."""

        def __init__(self, rows: RowList, index: int) -> None:
            super().__init__()
            self.rows = rows
            self.index = index

        @property
        def control(self) -> RowList:
            """The list."""
            return self.rows

        def can_replace(self, message: Message) -> bool:
            """True for an older message of the same list."""
            return isinstance(message, RowList.Moved) and message.rows is self.rows

    class Opened(Message):
        """A row was opened with enter or a double click."""

        def __init__(self, rows: RowList, index: int) -> None:
            super().__init__()
            self.rows = rows
            self.index = index

        @property
        def control(self) -> RowList:
            """The list."""
            return self.rows

    class SortAsked(Message):
        """Sort by this column; ``reverse`` turns the order around."""

        def __init__(self, rows: RowList, column: str, *, reverse: bool) -> None:
            super().__init__()
            self.rows = rows
            self.column = column
            self.reverse = reverse

        @property
        def control(self) -> RowList:
            """The list."""
            return self.rows

    def __init__(
        self,
        source: RowSource,
        glyphs: Glyphs = UNICODE,
        *,
        empty: str = "",
        id: str | None = None,  # noqa: A002 - the framework's name for it
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.glyphs = glyphs
        self.empty = empty
        self.sorted_by = ""
        self.descending = False
        self._placed: tuple[Placed, ...] = ()
        self._top_before: int | None = None
        self._strips: LRUCache[tuple[int, bool], Strip] = LRUCache(1024)
        self.source = source

    @property
    def source(self) -> RowSource:
        """The rows."""
        return self._source

    @source.setter
    def source(self, source: RowSource) -> None:
        self._source = source
        self._lines = self._drawn()

    def show(self, source: RowSource, *, cursor: int = 0, empty: str | None = None) -> None:
        """Show other rows, with the cursor on row *cursor*."""
        self.source = source
        if empty is not None:
            self.empty = empty
        self.column = min(self.column, max(0, len(source.columns) - 1))
        self._lay_out()
        self.set_reactive(RowList.cursor, self.validate_cursor(cursor))
        self._top_before = self.scroll_offset.y
        self._bring_into_middle(self._top_before)
        self._post_moved()

    def renew(self) -> None:
        """Draw all rows anew: what the source says of them has changed."""
        self._strips.clear()
        self.refresh()

    def sort_shown(self, column: str, *, descending: bool) -> None:
        """Mark in the heading that the rows are sorted so, and choose that column."""
        if column != self.sorted_by:
            ids = [column_info.id for column_info in self.source.columns]
            self.column = ids.index(column) if column in ids else self.column
        self.sorted_by, self.descending = column, descending
        self.renew()

    def on_resize(self) -> None:
        """Share the new width among the columns."""
        self.fit_title()
        self._lay_out()
        if self._top_before is None:
            self._keep_in_view()
        else:  # rows may be shown before their pane has its size; where they stand must not tell
            self._bring_into_middle(self._top_before)

    def on_focus(self) -> None:
        """Show the cursor in its full colour."""
        self.renew()

    def on_blur(self) -> None:
        """Show the cursor as that of a list without focus."""
        self.renew()

    def notify_style_update(self) -> None:
        """Forget the drawn rows when the theme or a pseudo class changes."""
        super().notify_style_update()
        self._strips.clear()

    def validate_cursor(self, cursor: int) -> int:
        """Keep the cursor on a row."""
        return max(0, min(cursor, len(self.source) - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        """Repaint the two rows and bring the new one into view."""
        self._top_before = None
        self.refresh_line(old + HEADER_LINES)
        self.refresh_line(new + HEADER_LINES)
        self._keep_in_view()
        self._post_moved()

    def watch_column(self) -> None:
        """Repaint the heading; scroll sideways to the column if it is out of view."""
        chosen = next((p for p in self._placed if p.index == self.column), None)
        if self.wide and chosen is not None and not chosen.column.sticky:
            sticky, room = self._sticky_width(), self._room()
            if chosen.x - self.scroll_offset.x < sticky:
                self.scroll_to(x=chosen.x - sticky, animate=False)
            elif chosen.x + chosen.width - self.scroll_offset.x > room:
                self.scroll_to(x=chosen.x + chosen.width - room, animate=False)

    def watch_wide(self) -> None:
        """Show all columns in full, or those that fit."""
        if self.is_attached:
            self.scroll_to(x=0, animate=False)
            self._lay_out()

    def action_move(self, rows: int) -> None:
        """Move the cursor by *rows*."""
        self.cursor += rows

    def action_page(self, direction: int) -> None:
        """Move the cursor by a page."""
        self.cursor += direction * self.page_rows

    def action_edge(self, direction: int) -> None:
        """Move the cursor to the first (-1) or last (1) row."""
        self.cursor = 0 if direction < 0 else len(self.source) - 1

    def action_column(self, direction: int) -> None:
        """Choose another of the shown columns; without one the key is left to the window around."""
        sortable = [placed.index for placed in self._placed if placed.column.sortable]
        if not sortable:
            raise SkipAction
        at = sortable.index(self.column) if self.column in sortable else -1
        self.column = sortable[max(0, min(at + direction, len(sortable) - 1))]

    def action_open(self) -> None:
        """Open the row under the cursor."""
        if len(self.source):
            self.post_message(self.Opened(self, self.cursor))

    def action_sort(self) -> None:
        """Ask for the rows in the order of the chosen column."""
        columns = self.source.columns  # none while the list is empty or still loading
        if self.column < len(columns) and columns[self.column].sortable:
            self.post_message(self.SortAsked(self, columns[self.column].id, reverse=False))

    def action_reverse(self) -> None:
        """Ask for the rows in the opposite order."""
        if any(column.id == self.sorted_by for column in self.source.columns):
            self.post_message(self.SortAsked(self, self.sorted_by, reverse=True))

    def on_mouse_scroll_down(self) -> None:
        """Stay where the user scrolled to."""
        self._top_before = None

    def on_mouse_scroll_up(self) -> None:
        """Stay where the user scrolled to."""
        self._top_before = None

    def on_click(self, event: events.Click) -> None:
        """Select, open with a double click, sort with a click on the heading."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y < HEADER_LINES:
            self._click_heading(offset.x)
            return
        index = self.scroll_offset.y + offset.y - HEADER_LINES
        if 0 <= index < len(self.source):
            self.cursor = index
            if event.chain == 2:
                self.action_open()

    def render_line(self, y: int) -> Strip:
        """One line of the visible part: the heading or a row."""
        width, x = self.size.width, self.scroll_offset.x
        if y < HEADER_LINES:
            style = self.get_component_rich_style("row-list--header")
            chosen = self.column if self.has_focus else -1
            heading = self._lines.heading(style, chosen, self.sorted_by, descending=self.descending)
            return self._window(heading, x, width, style)
        index = self.scroll_offset.y + y - HEADER_LINES
        if index >= len(self.source):
            style = self.get_component_rich_style("row-list--empty")
            return self._lines.blank(y - HEADER_LINES, self.empty, width, style)
        under_cursor = index == self.cursor
        strip = self._strips.get((index, under_cursor))
        if strip is None:
            strip = self._lines.row(index, self._row_style(under_cursor=under_cursor))
            self._strips[(index, under_cursor)] = strip
        return self._window(strip, x, width, self._row_style(under_cursor=under_cursor))

    @property
    def page_rows(self) -> int:
        """Rows that fit on a page."""
        return max(1, self.scrollable_content_region.height - HEADER_LINES)

    def _room(self) -> int:
        return max(1, self.scrollable_content_region.width)

    def _lay_out(self) -> None:
        self._strips.clear()
        if not self.size:
            return
        rows = len(self.source) + HEADER_LINES
        room = max(1, self.container_size.width - self.styles.scrollbar_size_vertical)
        self._placed = place(self.source.columns, room, wide=self.wide)
        self._lines = self._drawn()
        last = self._placed[-1] if self._placed else None
        width = last.x + last.width if last is not None and self.wide else room
        self.virtual_size = Size(width, rows)
        # Without this the scrollbars, and with them scrolling, wait for the next layout.
        self._scroll_update(self.virtual_size)
        self.refresh()

    def _drawn(self) -> RowLines:
        def style_of(name: str) -> Style:
            return self.get_component_rich_style(f"row-list--{name}", partial=True)

        return RowLines(self._source, self._placed, self.glyphs, style_of)

    def _bring_into_middle(self, top: int) -> None:
        """After a jump from where *top* was the first row, show what is around the row too."""
        page = self.page_rows
        if not top <= self.cursor < top + page:
            top = max(0, self.cursor - page // 2)
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False, immediate=True)

    def _keep_in_view(self) -> None:
        top, page = self.scroll_offset.y, self.page_rows
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True)
        elif self.cursor >= top + page:
            self.scroll_to(y=self.cursor - page + 1, animate=False, immediate=True)

    def _post_moved(self) -> None:
        self.post_message(self.Moved(self, self.cursor if len(self.source) else -1))

    def _sticky_width(self) -> int:
        moving = [placed.x for placed in self._placed if not placed.column.sticky]
        return moving[0] if moving else 0

    def _window(self, strip: Strip, x: int, width: int, style: Style) -> Strip:
        if self.wide and x:
            sticky = self._sticky_width()
            strip = Strip.join([strip.crop(0, sticky), strip.crop(sticky + x, x + width)])
        return strip.crop(0, width).adjust_cell_length(width, style)

    def _row_style(self, *, under_cursor: bool) -> Style:
        if under_cursor and self.has_focus:
            return self.get_component_rich_style("row-list--cursor")
        if under_cursor:
            return self.get_component_rich_style("row-list--chosen")
        return self.rich_style

    def _click_heading(self, x: int) -> None:
        if x >= self._sticky_width():
            x += self.scroll_offset.x
        for placed in self._placed:
            if placed.x <= x <= placed.x + placed.width and placed.column.sortable:
                self.column = placed.index
                same = placed.column.id == self.sorted_by
                self.post_message(self.SortAsked(self, placed.column.id, reverse=same))
                return
