"""Pairs of models and dumps found nearby, as rows and as text."""

from __future__ import annotations

from textual.content import Content

from divergraph.text.printable import printable
from tui.jobs.nearby import NearbyPair
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import cut_to
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell

PAIR_COLUMNS = (
    ListColumn("golden", "golden model", 16, sortable=False, cut="name"),
    ListColumn("device", "device graph", 16, sortable=False, cut="name"),
    ListColumn("fits", "ops that fit", 12, align="right", sortable=False),
)


def pair_row(pair: NearbyPair) -> tuple[Cell, ...]:
    """The cells of one pair."""
    fits = f"{wording.thousands(pair.shared)} of {wording.thousands(pair.ops)}"
    return Cell(pair.golden.graph), Cell(pair.device.graph), Cell(fits, "clean")


def pair_text(pair: NearbyPair | None, glyphs: Glyphs, width: int) -> Content:
    """Both sides in full."""
    if pair is None:
        return Content("")
    lines = []
    for name, side in (("golden", pair.golden), ("device", pair.device)):
        tensors = wording.count(side.tensors, "tensor")
        for what, path, more in (("graph", side.graph, ""), ("dump", side.dump, f"  {tensors}")):
            head = f"{name if what == 'graph' else '':8}{what:7}"
            label = cut_to(
                printable(path), max(8, width - len(head) - len(more)), glyphs.ellipsis, "left"
            )
            lines.append(Content.assemble((head, theme.QUIET), label, (more, theme.QUIET)))
    lines.append(Content.styled(f"{glyphs.enter} fills the form of a comparison in", theme.LINKED))
    return Content("\n").join(lines)
