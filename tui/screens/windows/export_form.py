"""The form in which a part is exported: where to, and whether it is run once after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from divergraph.text.printable import printable
from tui.keys import KeyScope, bindings
from tui.screens.windows.overlays import Window
from tui.style import theme
from tui.style.glyphs import Glyphs
from tui.widgets.form_fields import PlainCheckbox
from tui.widgets.plain_input import PlainInput


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """Where the bundle's folder is made, and whether the part is run again there."""

    folder: Path
    check: bool


class FolderInput(PlainInput):
    """The folder; enter writes the part."""

    BINDINGS = bindings(KeyScope.FORM)

    class Accepted(Message):
        """The part is to be written."""

    def action_accept(self) -> None:
        """Write the part."""
        self.post_message(self.Accepted())


class ExportForm(ModalScreen[ExportRequest | None]):
    """Asks where to write; escape gives None."""

    BINDINGS = bindings(KeyScope.OVERLAY)

    def __init__(self, glyphs: Glyphs, folder: Path, form: str, notes: Sequence[str]) -> None:
        super().__init__(classes="-ascii" if glyphs.name == "ascii" else "")
        self._folder, self._form, self._notes = folder, form, notes

    def compose(self) -> ComposeResult:
        """Folder, format, check, what is to be known."""
        with Window(classes="window"), Vertical():
            yield Static("folder (the part gets a new one in it)", classes="label", markup=False)
            yield FolderInput(str(self._folder), compact=True, select_on_focus=False)
            yield Static(self._about(), markup=False, id="form-about")
            yield PlainCheckbox("run the part after the export", value=True, compact=True)

    def _about(self) -> Content:
        lines = [Content(f"format {self._form}, that of the golden model; dumps of both sides")]
        lines += [Content.styled(printable(note), theme.QUIET) for note in self._notes]
        return Content("\n").join(lines)

    def on_mount(self) -> None:
        """Name the window and stand in the folder."""
        window = self.query_one(Window)
        window.name_pane("Export the part")
        window.border_subtitle = Content("enter in the folder writes, tab to the box, esc closes")
        self.query_one(FolderInput).focus()

    @on(FolderInput.Accepted)
    def _accepted(self) -> None:
        text = self.query_one(FolderInput).value.strip()
        if not text:
            self.notify("say a folder to write to", severity="warning")
            return
        check = self.query_one(PlainCheckbox).value
        self.dismiss(ExportRequest(Path(text).expanduser(), check))
