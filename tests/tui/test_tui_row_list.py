"""The virtual list: cursor, pages, clicks, and that only visible rows are built."""

from textual.app import App

from tui.widgets.columns import ListColumn
from tui.widgets.row_list import RowList
from tui.widgets.rows import Cell


class Counted:
    """100 000 rows that count how often one is asked for."""

    columns = (
        ListColumn("mark", "", 1, sticky=True, sortable=False),
        ListColumn("name", "name", 12, 20, sticky=True),
        ListColumn("value", "value", 8, align="right"),
        ListColumn("long", "long", 10, 200, priority=1),
    )

    def __init__(self, rows=100_000):
        self.rows = rows
        self.asked = 0

    def __len__(self):
        return self.rows

    def row(self, index):
        self.asked += 1
        name = Cell(f"[b]row[{index}]", tail=" +3", tail_style="fused")
        return (Cell("#", "origin"), name, Cell(str(index)), Cell("x" * 200))


class ListApp(App):
    CSS = "RowList { width: 60; height: 20; }"

    def __init__(self, source):
        super().__init__()
        self.source = source
        self.heard = []

    def compose(self):
        yield RowList(self.source, empty="nothing here")

    def on_row_list_opened(self, event):
        self.heard.append(("open", event.index))

    def on_row_list_sort_asked(self, event):
        self.heard.append((event.column, event.reverse))


def lines(app):
    listed = app.query_one(RowList)
    return ["".join(segment.text for segment in listed.render_line(y)) for y in range(20)]


async def test_only_the_visible_rows_are_built():
    app = ListApp(Counted())
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.press("G")
        assert app.query_one(RowList).cursor == 99_999
        assert "row[99999]" in lines(app)[-1]
        assert app.source.asked < 200


async def test_the_keys_move_the_cursor_and_stop_at_the_ends():
    app = ListApp(Counted(50))
    async with app.run_test(size=(60, 20)) as pilot:
        listed = app.query_one(RowList)
        seen = []
        for key in ("k", "j", "down", "ctrl+d", "pagedown", "up", "G", "j", "ctrl+u", "home"):
            await pilot.press(key)
            seen.append(listed.cursor)
        assert seen == [0, 1, 2, 21, 40, 39, 49, 49, 30, 0]


async def test_the_row_under_the_cursor_is_always_in_view():
    app = ListApp(Counted(500))
    async with app.run_test(size=(60, 20)) as pilot:
        listed = app.query_one(RowList)
        for key in ("G", "k", "ctrl+u", "ctrl+u", "j", "g", "ctrl+d"):
            await pilot.press(key)
            assert any(f"row[{listed.cursor}]" in line for line in lines(app))


async def test_a_click_selects_and_a_double_click_opens():
    app = ListApp(Counted(50))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.click(RowList, offset=(5, 4))
        assert app.query_one(RowList).cursor == 3
        assert app.heard == []
        await pilot.click(RowList, offset=(5, 8), times=2)
        assert app.heard == [("open", 7)]


async def test_a_click_on_the_heading_sorts_and_another_turns_it_around():
    app = ListApp(Counted(50))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.click(RowList, offset=(3, 0))
        app.query_one(RowList).sort_shown("name", descending=False)
        await pilot.click(RowList, offset=(3, 0))
        assert app.heard == [("name", False), ("name", True)]


async def test_an_empty_list_says_why_and_opens_nothing():
    app = ListApp(Counted(0))
    async with app.run_test(size=(60, 20)) as pilot:
        assert lines(app)[1].strip() == "nothing here"
        await pilot.press("enter", "j", "G")
        assert app.heard == []


async def test_wide_scrolls_sideways_and_keeps_the_name_in_place():
    app = ListApp(Counted(50))
    async with app.run_test(size=(60, 20)) as pilot:
        listed = app.query_one(RowList)
        listed.wide = True
        await pilot.press("right", "right", "right")
        await pilot.pause()
        assert listed.scroll_offset.x > 0
        assert all("row[" in line for line in lines(app)[1:18])
        assert "value" not in lines(app)[0]


async def test_names_are_shown_as_they_are_with_their_tail_whole():
    app = ListApp(Counted(3))
    async with app.run_test(size=(60, 20)):
        assert "[b]row[2] +3" in lines(app)[3]


async def test_other_rows_are_shown_with_the_cursor_on_one_of_them_in_view():
    app = ListApp(Counted(0))
    async with app.run_test(size=(60, 20)) as pilot:
        listed = app.query_one(RowList)
        for rows, cursor in ((500, 250), (5, 4), (300, 299), (300, 0)):
            listed.show(Counted(rows), cursor=cursor)
            await pilot.pause()
            assert listed.cursor == cursor
            assert any(f"row[{cursor}]" in line for line in lines(app))


async def test_where_a_row_stands_does_not_tell_when_its_pane_got_its_size():
    tops = []
    for heights in ((40, 10), (10, 40, 10), (10,)):
        app = ListApp(Counted(200))
        async with app.run_test(size=(60, 60)) as pilot:
            listed = app.query_one(RowList)
            listed.styles.height = heights[0]
            await pilot.pause()
            listed.show(Counted(200), cursor=25)
            for height in heights[1:]:
                listed.styles.height = height
                await pilot.pause()
            tops.append(listed.scroll_offset.y)
            await pilot.press("j")
            listed.styles.height = 30
            await pilot.pause()
            assert listed.scroll_offset.y == tops[-1], "after a move the rows stay where they are"
    assert tops == [21, 21, 21]
