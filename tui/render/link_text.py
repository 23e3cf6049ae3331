"""The text of the pane that says what links an op to the other graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from divergraph.text.printable import printable
from divergraph.text.words import RULE_WORDS
from graphstore.model import LineageLink, Side
from tui.ladder import Ladders
from tui.render import detail_text
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import cut_to

if TYPE_CHECKING:
    from divergraph.ask.answers import OpDetail

_PASSES = ("pass_name", "pass_name_ub")
"""Attributes in which GE keeps the fusion passes that made an op."""
_LEAST = 12


def link_text(
    ladders: Ladders,
    side: Side,
    op: str,
    detail: OpDetail | None,
    glyphs: Glyphs,
    width: int,
) -> Content:
    """The ops of the other graph that *op* stands for or that stand for it, each with evidence;
    then the tensors of the op where *detail* is known."""
    others = ladders.linked(side, op)
    lines = [Content.styled(_summary(ladders, side, op, glyphs), theme.HEADING)]
    links = ladders.links_of(side, op)
    lines += [_other(side, other, links, glyphs, width) for other in others]
    unknown = {_end(link, side) for link in links} - set(others)
    for other in sorted(unknown):
        text = cut_to(printable(other), max(_LEAST, width - 26), glyphs.ellipsis, "left")
        lines.append(Content.assemble(f"  {text}", ("  not in the other graph", theme.QUIET)))
    if detail is not None and detail.row.id == op:
        for name in _PASSES:
            if name in detail.attrs:
                note = f"fusion pass  {printable(str(detail.attrs[name]))}"
                lines.append(Content(cut_to(note, width, glyphs.ellipsis)))
        lines.append(detail_text.tensors(detail, glyphs, width))
    return Content("\n").join(line for line in lines if line.plain)


def _summary(ladders: Ladders, side: Side, op: str, glyphs: Glyphs) -> str:
    linked = ladders.linked(side, op)
    if side is Side.GOLDEN:
        if not linked:
            return "no device op stands for it"
        if len(linked) > 1:
            return f"computed by {wording.count(len(linked), 'device op')}"
        others = len(ladders.linked(Side.DEVICE, linked[0])) - 1
        more = f" together with {wording.count(others, 'other')}" if others else ""
        return f"computed by one device op{more}"
    if not ladders.links_of(side, op):
        return "no original: the compiler inserted it, or its name says nothing"
    if len(linked) > 1:
        return f"{wording.count(len(linked), 'original')} {glyphs.fused} one op"
    return "one original"


def _end(link: LineageLink, side: Side) -> str:
    return link.original if side is Side.DEVICE else link.device


def _evidence(link: LineageLink) -> str:
    words = RULE_WORDS[link.rule]
    if link.original_port is not None:
        words += f" :{link.device_port} as :{link.original_port}"
    return words if link.confidence >= 1 else f"{words} ({link.confidence:.0%} sure)"


def _other(
    side: Side, other: str, links: Sequence[LineageLink], glyphs: Glyphs, width: int
) -> Content:
    evidences = dict.fromkeys(_evidence(link) for link in links if _end(link, side) == other)
    evidence = cut_to("; ".join(evidences), max(_LEAST, width // 2), glyphs.ellipsis)
    mark = glyphs.from_ if side is Side.DEVICE else glyphs.feeds
    room = max(_LEAST, width - len(evidence) - 6)
    name = cut_to(printable(other), room, glyphs.ellipsis, "left")
    return Content.assemble(f"  {mark} ", (name, theme.FUSED), (f"  {evidence}", theme.QUIET))
