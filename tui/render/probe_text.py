"""What a search for the minimal failing part tried and found, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from divergraph.text.printable import printable
from graphstore.model import OpState
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import cut_to

if TYPE_CHECKING:
    from divergraph.api.answers import MinimalPart, Minimized, Probe

DEEPEST = 8
SHOWN_OPS = 20
_STYLES = {
    "fail": theme.STATE_STYLES[OpState.ORIGIN],
    "pass": theme.STATE_STYLES[OpState.CLEAN],
    "unknown": theme.QUIET,
}


def verdict(result: Minimized) -> str:
    """The outcome in one line."""
    if not result.parts:
        return result.note or f"no failing part found: {result.stopped or 'nothing fails'}"
    sizes = ", ".join(str(len(part.ops)) for part in result.parts)
    noun = "op" if sizes == "1" else "ops"
    minimal = all(part.found.minimal for part in result.parts)
    what = "minimal failing part" if minimal else "smallest failing part so far"
    calls = wording.count(result.calls, "call")
    return f"{what}: {sizes} {noun} of {wording.thousands(result.ops)}, {calls} of the oracle"


def tried(result: Minimized, glyphs: Glyphs, width: int) -> Content:
    """The parts that were found, why they are minimal, and all probes as a tree."""
    lines = [Content.styled(verdict(result), theme.HEADING)]
    if result.stopped:
        lines.append(Content.styled(f"stopped early: {printable(result.stopped)}", theme.QUIET))
    for number, part in enumerate(result.parts, start=1):
        lines += [Content(""), *_part(number, part, glyphs, width)]
    known = sum(not probe.calls for probe in result.probes)
    also = f", {known} answers were known" if known else ""
    oracle = result.oracle.partition(" ")[0]
    head = f"tried: {wording.count(len(result.probes), 'part')}{also}; oracle {oracle}"
    lines += [Content(""), Content.styled(head, theme.HEADING)]
    lines += [_probe(probe, depth, glyphs) for probe, depth in in_tree(result.probes)]
    return Content("\n").join(line.truncate(width) for line in lines)


def _part(number: int, part: MinimalPart, glyphs: Glyphs, width: int) -> list[Content]:
    what = "minimal" if part.found.minimal else "smallest so far"
    lines = [
        Content.styled(f"part {number}: {what}, fed {part.found.variant} inputs", theme.HEADING)
    ]
    for op in part.ops[:SHOWN_OPS]:
        shown = cut_to(printable(op), max(8, width - 4), glyphs.ellipsis, "left")
        lines.append(Content.styled(f"  {glyphs.inside} {shown}", theme.LINKED))
    if len(part.ops) > SHOWN_OPS:
        lines.append(Content(f"    {len(part.ops) - SHOWN_OPS} more"))
    said = [part.judgement.detail, part.found.why]
    if part.found.minimal and len(part.ops) > 1:
        said.append("without any one op at its edge it passes")
    lines += [Content.styled(f"  {printable(text)}", theme.QUIET) for text in said if text]
    return lines


def _probe(probe: Probe, depth: int, glyphs: Glyphs) -> Content:
    mark = {"fail": glyphs.bad, "pass": glyphs.good}.get(probe.verdict.value, glyphs.dash)
    indent = "  " * min(depth, DEEPEST)
    known = f" ({probe.known})" if probe.known else ""
    return Content.assemble(
        f"{indent}",
        (f"{mark} {probe.verdict.value:7}", _STYLES[probe.verdict.value]),
        f"{wording.count(probe.ops, 'op'):>10}  ",
        (printable(probe.why + known), theme.QUIET),
    )


def in_tree(probes: tuple[Probe, ...]) -> list[tuple[Probe, int]]:
    """Each probe after the one that led to it, with its depth."""
    children: dict[int | None, list[Probe]] = {}
    for probe in probes:
        children.setdefault(probe.parent, []).append(probe)
    found = []
    waiting = [(probe, 1) for probe in reversed(children.get(None, []))]
    while waiting:
        probe, depth = waiting.pop()
        found.append((probe, depth))
        waiting += [(each, depth + 1) for each in reversed(children.get(probe.number, []))]
    return found
