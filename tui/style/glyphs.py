"""Every mark the screens draw, once in Unicode and once in ASCII.

Several of the Unicode marks are drawn two cells wide by terminals set up for East Asian
text; the ASCII set is for those, for serial lines and for plain text reports.
"""

from __future__ import annotations

from dataclasses import dataclass

from divergraph.text.words import STATE_MARKS
from graphstore.model import OpState

ENVIRONMENT_SWITCH = "DIVERGRAPH_GLYPHS"
"""Environment variable that picks the set by its name."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of marks; each is exactly one cell wide unless its name says otherwise."""

    name: str
    origin: str
    inherited: str
    drifting: str
    explained: str
    clean: str
    broken: str
    unknown: str
    undefined: str
    fused: str
    marked: str
    dot: str
    crumb: str
    running: str
    dash: str
    times: str
    delta: str
    at_least: str
    at_most: str
    ascending: str
    descending: str
    ellipsis: str
    feeds: str
    from_: str
    good: str
    bad: str
    separator: str
    enter: str
    axis: str
    corner: str
    tick: str
    level: str
    marker: str
    inside: str
    outside: str
    rung: str
    opening: str
    within: str
    closing: str
    lane: str
    lane_ends: str
    lane_crossed: str
    lane_to_right: str
    lane_to_left: str
    bars: str
    """Fill levels from empty (a blank) to a full cell."""
    shades: str
    """From hardly any to most."""
    dots: bool
    """Whether plots may be drawn in dots, two by four of them in a cell (Braille)."""

    def state(self, state: OpState | None) -> str:
        """The mark of an op's state; a blank outside a run."""
        return " " if state is None else str(getattr(self, _FIELD_OF_STATE[state]))

    def bar(self, fraction: float) -> str:
        """The bar of a fraction in 0..1, never empty for a fraction above 0."""
        steps = len(self.bars) - 1
        if fraction <= 0:
            return self.bars[0]
        return self.bars[min(steps, max(1, round(fraction * steps)))]

    def shade(self, fraction: float) -> str:
        """The shade of a fraction in 0..1; a blank for none at all."""
        if fraction <= 0:
            return " "
        return self.shades[min(len(self.shades) - 1, int(fraction * len(self.shades)))]


_FIELD_OF_STATE = {
    OpState.ORIGIN: "origin",
    OpState.INHERITED: "inherited",
    OpState.DRIFTING: "drifting",
    OpState.EXPLAINED: "explained",
    OpState.CLEAN: "clean",
    OpState.BROKEN: "broken",
    OpState.NOT_COMPARED: "unknown",
}

UNICODE = Glyphs(
    name="unicode",
    origin="◆",
    inherited="↓",
    drifting="▲",
    explained="≈",
    clean="·",
    broken="!",
    unknown="∅",
    undefined="○",
    fused="⊕",
    marked="▌",
    dot="●",
    crumb="▸",
    running="▶",
    dash="–",  # noqa: RUF001 - the mark itself
    times="×",  # noqa: RUF001 - the mark itself
    delta="Δ",
    at_least="≥",
    at_most="≤",
    ascending="↑",
    descending="↓",
    ellipsis="…",
    feeds="→",
    from_="←",
    good="✓",
    bad="✗",
    separator="·",
    enter="↵",
    axis="┤",
    corner="└",
    tick="┬",
    level="─",
    marker="▲",
    inside="●",
    outside="○",
    rung="━",
    opening="┏",
    within="┃",
    closing="┗",
    lane="│",
    lane_ends="╯",
    lane_crossed="┼",
    lane_to_right="├",
    lane_to_left="┤",
    bars=" ▁▂▃▄▅▆▇█",
    shades="·░▒▓█",
    dots=True,
)

ASCII = Glyphs(
    name="ascii",
    **{_FIELD_OF_STATE[state]: mark for state, mark in STATE_MARKS.items()},
    undefined="o",
    fused="+",
    marked="|",
    dot="*",
    crumb=">",
    running=">",
    dash="-",
    times="x",
    delta="d",
    at_least=">=",
    at_most="<=",
    ascending="^",
    descending="v",
    ellipsis="~",
    feeds=">",
    from_="<",
    good="+",
    bad="x",
    separator="|",
    enter="enter",
    axis="|",
    corner="+",
    tick="+",
    level="-",
    marker="^",
    inside="*",
    outside="o",
    rung="-",
    opening="/",
    within="|",
    closing="\\",
    lane="|",
    lane_ends="'",
    lane_crossed="+",
    lane_to_right="+",
    lane_to_left="+",
    bars=" .:-=+*%@",
    shades=".:o*#",
    dots=False,
)

SETS = {glyphs.name: glyphs for glyphs in (UNICODE, ASCII)}
