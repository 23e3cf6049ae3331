"""What a search for the minimal failing part tried and found, as text.

A search is given as ``minimize --json`` prints it, which is how the run keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.content import Content

from divergraph.present.declared_answer import in_tree
from divergraph.text.printable import printable
from graphstore.model import OpState
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import cut_to

DEEPEST = 8
SHOWN_OPS = 20
_STYLES = {
    "fail": theme.STATE_STYLES[OpState.ORIGIN],
    "pass": theme.STATE_STYLES[OpState.CLEAN],
    "unknown": theme.QUIET,
}

Search = Mapping[str, Any]


def verdict(search: Search) -> str:
    """The outcome in one line."""
    parts = search["parts"]
    if not parts:
        return search["note"] or f"no failing part found: {search['stopped'] or 'nothing fails'}"
    sizes = ", ".join(str(len(part["ops"])) for part in parts)
    noun = "op" if sizes == "1" else "ops"
    minimal = all(part["minimal"] for part in parts)
    what = "minimal failing part" if minimal else "smallest failing part so far"
    calls = wording.count(search["calls"], "call")
    return (
        f"{what}: {sizes} {noun} of {wording.thousands(search['searched'])}, {calls} of the oracle"
    )


def tried(search: Search, glyphs: Glyphs, width: int) -> Content:
    """The parts that were found, why they are minimal, and all probes as a tree."""
    lines = [Content.styled(verdict(search), theme.HEADING)]
    if search["stopped"]:
        lines.append(Content.styled(f"stopped early: {printable(search['stopped'])}", theme.QUIET))
    for number, part in enumerate(search["parts"], start=1):
        lines += [Content(""), *_part(number, part, glyphs, width)]
    probes = search["probes"]
    cached = sum(not probe["calls"] for probe in probes)
    also = f", {cached} answers were known" if cached else ""
    oracle = printable(search["oracle"].partition(" ")[0])
    head = f"tried: {wording.count(len(probes), 'part')}{also}; oracle {oracle}"
    lines += [Content(""), Content.styled(head, theme.HEADING)]
    lines += [_probe(probe, depth, glyphs) for probe, depth in in_tree(probes)]
    return Content("\n").join(line.truncate(width) for line in lines)


def _part(number: int, part: Search, glyphs: Glyphs, width: int) -> list[Content]:
    what = "minimal" if part["minimal"] else "smallest so far"
    lines = [Content.styled(f"part {number}: {what}, fed {part['variant']} inputs", theme.HEADING)]
    ops = part["ops"]
    for op in ops[:SHOWN_OPS]:
        label = cut_to(printable(op), max(8, width - 4), glyphs.ellipsis, "left")
        lines.append(Content.styled(f"  {glyphs.inside} {label}", theme.LINKED))
    if len(ops) > SHOWN_OPS:
        lines.append(Content(f"    {len(ops) - SHOWN_OPS} more"))
    texts = [part["said"], part["why"]]
    if part["minimal"] and len(ops) > 1:
        texts.append("without any one op at its edge it passes")
    lines += [Content.styled(f"  {printable(text)}", theme.QUIET) for text in texts if text]
    return lines


def _probe(probe: Search, depth: int, glyphs: Glyphs) -> Content:
    result = probe["verdict"]
    mark = {"fail": glyphs.bad, "pass": glyphs.good}.get(result, glyphs.dash)
    indent = "  " * min(depth + 1, DEEPEST)
    cached_note = f" ({probe['known']})" if probe["known"] else ""
    return Content.assemble(
        f"{indent}",
        (f"{mark} {result:7}", _STYLES[result]),
        f"{wording.count(probe['ops'], 'op'):>10}  ",
        (printable(probe["why"] + cached_note), theme.QUIET),
    )
