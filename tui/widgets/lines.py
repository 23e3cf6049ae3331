"""The lines around a view: where we are, which views there are, which keys work.

Other words on a line of one row move nothing else: the screen need not be laid out again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widgets import Static

from divergraph.text.printable import printable
from tui.keys import Key
from tui.style import theme
from tui.style.glyphs import Glyphs
from tui.widgets.cells import cut_to, width_of
from tui.widgets.text_pane import Build


def does(action: str) -> Style:
    """A style of what a click does *action* on."""
    return Style.from_meta({"@click": action})


_LEADING = ("screen.view('runs')", "screen.view('overview')")
"""What a click on the first names of the title does: to all runs, and to the overview of one."""


class TitleLine(Static):
    """``divergraph ▸ run ▸ view`` on the left, the running job and the store on the right."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(markup=False)
        self.set_reactive(Static.auto_links, False)  # what can be clicked keeps its colours
        self.glyphs = glyphs
        self._crumbs: Sequence[str] = ()
        self._store = ""
        self._job = ""

    def show_job(self, stage: str) -> None:
        """Show what runs in the background; nothing if *stage* is empty."""
        self._job = stage
        self._draw()

    def show(self, crumbs: Sequence[str], store: str) -> None:
        """Show where we are."""
        self._crumbs, self._store = crumbs, store
        self._draw()

    def on_resize(self) -> None:
        """Put the right part at the new right end."""
        self._draw()

    def _draw(self) -> None:
        g, width = self.glyphs, self.size.width
        names = [printable(crumb) for crumb in self._crumbs]
        crumbs = cut_to(f" {f' {g.crumb} '.join(names)}", width, g.ellipsis)
        if self._job:
            crumbs = cut_to(crumbs, width // 2, g.ellipsis)
        heading, start = Content.styled(crumbs, theme.HEADING), 1
        for name, action in zip(names[:-1], _LEADING, strict=False):
            heading = heading.stylize(does(action), start, start + len(name))
            start += len(name) + len(g.crumb) + 2
        room = width - width_of(crumbs) - 4
        job = cut_to(f"{g.running} {printable(self._job)}", room, g.ellipsis) if self._job else ""
        room -= width_of(job) + 3 if job else 0
        right = cut_to(printable(self._store), room, g.ellipsis, "left") if room > 8 else ""
        text = f"{job}   {right}" if job and right else job or right
        gap = " " * max(0, width - width_of(crumbs) - width_of(text) - 1)
        parts = ((job, theme.LINKED), text[len(job) :])
        self.update(Content.assemble(heading, gap, parts[0], (parts[1], theme.QUIET)), layout=False)


class Tab(Static):
    """One view's name; a click goes there."""

    class Chosen(Message):
        """The user clicked a view's name."""

        def __init__(self, view: str) -> None:
            super().__init__()
            self.view = view

    def __init__(self, view: str, text: str, *, active: bool) -> None:
        super().__init__(markup=False, classes="active" if active else "")
        self.view, self._text, self._active = view, text, active
        self.show(whole=True)

    def show(self, *, whole: bool) -> None:
        """Show the name, or only its key where there is no room for all names."""
        text = self._text if whole or self._active else self._text.partition(" ")[0]
        name = f"[{text}]" if self._active else f" {text} "
        if name != self.content:
            self.update(name)

    def on_click(self) -> None:
        """Go to the view."""
        self.post_message(self.Chosen(self.view))


class TabLine(Horizontal):
    """The names of the views, the present one in brackets."""

    def __init__(self, views: Sequence[tuple[str, str]], active: str) -> None:
        super().__init__()
        self._views, self._active = views, active

    def compose(self) -> ComposeResult:
        """One tab a view."""
        for view, text in self._views:
            yield Tab(view, text, active=view == self._active)

    def on_resize(self) -> None:
        """Show names in full if all of them fit."""
        room = sum(width_of(text) + 3 for _, text in self._views)
        for tab in self.query(Tab):
            tab.show(whole=room <= self.size.width)


class StatusLine(Static):
    """One line of text, built for the width there is."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - the framework's name
        super().__init__(id=id, markup=False)
        self._build: Build = lambda _: Content("")

    def show(self, build: Build) -> None:
        """Show what *build* makes of the width."""
        self._build = build
        self.update(build(self.size.width), layout=False)

    def on_resize(self) -> None:
        """Build it for the new width."""
        self.update(self._build(self.size.width), layout=False)


class KeyLine(Static):
    """The keys that matter here; those that do not apply are dimmed."""

    def __init__(self, keys: Sequence[Key], why_not: Callable[[str], str | None]) -> None:
        super().__init__(markup=False)
        self.set_reactive(Static.auto_links, False)  # what can be clicked keeps its colours
        self._keys, self._why_not = keys, why_not

    def on_resize(self) -> None:
        """Show as many keys as fit."""
        self.draw()

    def draw(self) -> None:
        """Draw anew: what applies may have changed."""
        parts: list[Content | str] = []
        for key in self._fitting():
            key_text = key.shown.split(", ")[0]
            if self._why_not(key.id) is not None:
                words = Content.styled(f"{key_text} {key.short}", theme.FAINT)
            else:
                words = Content.assemble((key_text, theme.LINKED), (f" {key.short}", theme.QUIET))
            press = f"app.simulate_key({key.keys.split(',')[0]!r})"
            parts += [words.stylize(does(press)), "  "]
        self.update(Content.assemble(" ", *parts), layout=False)

    def _fitting(self) -> list[Key]:
        """The keys that fit, in order; the last (help) goes before all others."""
        room, fitting = self.size.width - 1, set()
        for key in (*self._keys[-1:], *self._keys[:-1]):
            width = width_of(key.shown.split(", ")[0]) + width_of(key.short) + 3
            if width > room:
                break
            room -= width
            fitting.add(key.id)
        return [key for key in self._keys if key.id in fitting]
