"""Pictures as SVG: inside of pages, whose style they take, or by themselves with a style of their
own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from divergraph.files.whole_files import whole_file
from divergraph.present.html.assets import page_asset, picture_style
from divergraph.present.pictures import scatter_plot as area
from divergraph.present.pictures.scatter_plot import PlotPoint, ScatterPlot, counted_values
from divergraph.present.pictures.state_map import StateCell, StateMap
from divergraph.present.pictures.tensor_pictures import Bar, CellPicture, TensorPictures
from divergraph.text.printable import printable
from divergraph.text.short_names import ShortNames, cut_in_middle
from divergraph.text.words import STATE_MARKS
from graphstore.errors import InputError
from graphstore.model import OpState

Link = Callable[[str], str]
"""From an op's id to its address."""
LinkToRun = Callable[[str, str], str]
"""From a run and one of its ops to its address."""
_BAR_HEIGHT, _BAR_WIDTH = 20, 190
_BAR_NAMES = 74
"""Pixels at the left of the bars."""
_MARGIN = 24
_RANKS_SHOWN = 100
_MAP_ROW, _MAP_NAMES, _MAP_WIDTH = 18, 230, 640
"""Pixels of a map of states: a row's height, the room of the rows' names and of the columns."""
_MAP_WIDEST, _MAP_NARROWEST = 44, 2
_LETTER = 6.6
"""About the width of a letter, in pixels."""


@dataclass(frozen=True, slots=True)
class SvgFragment:
    """Elements of SVG on an area of so many pixels; ``words`` say it to who cannot see it."""

    width: int
    height: int
    words: str
    elements: str
    data: Mapping[str, str] = field(default_factory=dict)
    """What scripts of a page need to know of it."""

    def inline(self) -> str:
        """An ``svg`` element for a page that has the style of pictures."""
        return _svg(self.elements, self.width, self.height, self.words, **self.data)


@dataclass(frozen=True, slots=True)
class SvgPicture:
    """An SVG picture that stands by itself: notebooks show it, :meth:`save` writes it."""

    svg: str
    words: str

    def __repr__(self) -> str:
        return f"<SvgPicture: {self.words}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Write it as ``.svg``; the path.

        Raises:
            InputError: the path has another ending, or cannot be written.
        """
        place = Path(path)
        if place.suffix.lower() != ".svg":
            hint = "a browser, Inkscape or rsvg-convert makes others of it"
            raise InputError("pictures are written as .svg", where=str(place), hint=hint)
        with whole_file(place, "picture") as part:
            part.write_text(self.svg, encoding="utf-8")
        return place


def standing_alone(drawings: Iterable[SvgFragment], title: str) -> SvgPicture:
    """Drawings beside each other, with a style for light and dark surroundings."""
    kept = list(drawings)
    x, parts = 0, []
    for drawing in kept:
        parts.append(element("g", drawing.elements, transform=f"translate({x} {_MARGIN})"))
        x += drawing.width + _MARGIN
    width = max(1, x - _MARGIN)
    height = max((drawing.height for drawing in kept), default=0) + _MARGIN
    body = "".join(
        (
            element("style", _style()),
            element("rect", class_="paper", width=width, height=height),
            text(title, 4, 15, "title"),
            *parts,
        )
    )
    words = "; ".join([title, *(drawing.words for drawing in kept if drawing.words not in title)])
    svg = _svg(body, width, height, words)
    return SvgPicture(svg, printable(words))


def scatter(plot: ScatterPlot, link: Link | None = None) -> SvgFragment:
    """The ops of a run by one of its metrics; each leads to the address *link* gives, if any."""
    drawn = []
    for point in plot.points:
        mark = _point(point)
        # The table below leads there by keyboard: a thousand stops of Tab help nobody.
        drawn.append(element("a", mark, href=link(point.op), tabindex=-1) if link else mark)
    axes = scatter_axes(plot)
    values = {
        "data_values": ",".join(counted_values(plot.curve.values)),
        "data_lower": str(int(plot.curve.is_cosine)),
    }
    return replace(axes, elements=axes.elements + "".join(drawn), data={**axes.data, **values})


def scatter_axes(plot: ScatterPlot) -> SvgFragment:
    """The axes, limits and lanes of it without the ops."""
    parts = []
    for tick in plot.ticks:
        parts += [_line("tick", tick.at), text(tick.text, area.LEFT - 8, tick.at + 4, "label end")]
    for lane in plot.lanes:
        parts.append(text(lane.text, area.LEFT - 8, lane.at + 4, "label end"))
    for tick in plot.along:
        parts.append(text(tick.text, tick.at, area.HEIGHT - 8, "label middle along"))
    parts.append(_line("axis", area.BOTTOM))
    for level, y in plot.limits.items():
        parts += [_line(f"limit {level}", y), text(level, area.RIGHT, y - 4, f"label end {level}")]
    words = f"{plot.curve.label} of {len(plot.curve)} ops in execution order"
    data = {"data_scale": json.dumps(plot.measure())}
    return SvgFragment(area.WIDTH, area.HEIGHT, words, "".join(parts), data)


def _point(point: PlotPoint) -> str:
    title = element("title", point.text, is_markup=False)
    circle = element(
        "circle",
        title,
        class_="point",
        data_state=point.state.value,
        cx=point.x,
        cy=point.y,
        r=6 if point.rank else 3,
    )
    if not 0 < point.rank < _RANKS_SHOWN:
        return circle
    return circle + text(str(point.rank), point.x + 9, point.y + 4, "label rank-mark")


def tensor_drawings(pictures: TensorPictures) -> list[tuple[str, SvgFragment]]:
    """All pictures of a tensor, each with its title."""
    maps = [(picture.title, cells(picture)) for picture in pictures.maps]
    return [("elements by |device - golden|", bars(pictures.bars)), *maps]


def state_map(picture: StateMap, link: LinkToRun | None = None) -> SvgFragment:
    """States in rows and columns with a legend; each leads to the address *link* gives, if any."""
    room, short_names = int(_MAP_NAMES / _LETTER) - 1, ShortNames(picture.rows)
    rows = [short_names.short(name, room) for name in picture.rows]
    left = round(min(_MAP_NAMES, max(40, (max(map(len, rows), default=0) + 2) * _LETTER)))
    wide = min(_MAP_WIDEST, max(_MAP_NARROWEST, _MAP_WIDTH // max(1, len(picture.columns))))
    longest = max(map(len, picture.columns), default=0)
    upright = longest * _LETTER > wide and not picture.columns[0].isdecimal()
    top = 20 + (round(min(longest, 24) * _LETTER * 0.7) if upright else 0)
    parts = [text(picture.across, left - 8, top - 6, "label end")]
    every = 1 if upright else -(-30 // wide)  # room for a number
    for number, name in list(enumerate(picture.columns))[:: -(-12 // wide) if upright else every]:
        x = left + number * wide + wide / 2
        turned = f"translate({x} {top - 6}) rotate(-45)"
        label = ("label", turned) if upright else ("label middle",)
        parts.append(_named(cut_in_middle(name, 24), name, x, top - 6, *label))
    for number, (short, name) in enumerate(zip(rows, picture.rows, strict=True)):
        y = top + number * _MAP_ROW + 13
        parts.append(_named(short, name, left - 8, y, "label end"))
    for cell in picture.cells:
        place = left + cell.column * wide, top + cell.row * _MAP_ROW
        drawn = _map_cell(cell, *place, wide)
        # The table below leads there by keyboard.
        address = link(cell.run, cell.op) if link else ""
        parts.append(element("a", drawn, href=address, tabindex=-1) if address else drawn)
    bottom = top + len(picture.rows) * _MAP_ROW
    x = left
    for state in picture.legend:
        parts.append(_state_field(state, STATE_MARKS[state], x, bottom + 12, 14))
        parts.append(text(state.value, x + 20, bottom + 25, "label"))
        x += 34 + round(len(state.value) * _LETTER)
    right = max(x, left + wide * len(picture.columns) + 8 + (top - 20))
    return SvgFragment(right, bottom + _MAP_ROW + 18, picture.words, "".join(parts))


def _map_cell(cell: StateCell, x: float, y: float, wide: float) -> str:
    title = element("title", cell.text, is_markup=False)
    mark = STATE_MARKS[cell.state] if wide >= 10 else ""  # colour alone says nothing to many
    return _state_field(cell.state, mark, x, y, wide, title)


def _state_field(
    state: OpState, mark: str, x: float, y: float, wide: float, title: str = ""
) -> str:
    field = element(
        *("rect", title),
        class_="point field",
        data_state=state.value,
        x=x,
        y=y,
        width=wide,
        height=_MAP_ROW,
    )
    return field + (text(mark, x + wide / 2, y + 13, "mark middle") if mark else "")


def _named(short: str, name: str, x: float, y: float, kind: str, transform: str = "") -> str:
    """A label that says the whole *name* where it shows a part of it."""
    label = text(short, x, y, kind, transform)
    return label if short == name else element("g", element("title", name, is_markup=False) + label)


def bars(rows: Iterable[Bar]) -> SvgFragment:
    """How many elements have errors of which size."""
    parts, words = [], []
    for number, bar in enumerate(rows):
        top, length = number * _BAR_HEIGHT, round(bar.share * _BAR_WIDTH, 1)
        parts += [
            text(bar.label, _BAR_NAMES - 8, top + 15, "label end"),
            element("rect", class_="amount", x=_BAR_NAMES, y=top + 4, width=length, height=14),
            text(f"{bar.count:,}", _BAR_NAMES + length + 6, top + 15, "label"),
        ]
        words.append(f"{bar.label}: {bar.count}")
    return SvgFragment(340, len(words) * _BAR_HEIGHT + 4, "; ".join(words), "".join(parts))


def cells(picture: CellPicture) -> SvgFragment:
    """Shades by place."""
    size = picture.size
    parts = [element("rect", class_="ground", width=size, height=size)]
    for cell in picture.cells:
        title = element("title", cell.text, is_markup=False)
        parts.append(
            element(
                "rect",
                title,
                class_=f"heat-{cell.shade}",
                x=cell.x,
                y=cell.y,
                width=cell.width,
                height=cell.height,
            )
        )
    parts.append(text(picture.across, size / 2, size + 16, "label middle"))
    if picture.down:
        turned = f"translate(-9 {size / 2}) rotate(-90)"
        parts.append(text(picture.down, 0, 0, "label middle", turned))
    ends = f"from {picture.low} to {picture.high}"
    parts.append(text(ends, 0, size + 31, "label"))
    axes = f"{picture.across} and {picture.down}" if picture.down else picture.across
    inner = element("g", "".join(parts), transform=f"translate({_MARGIN} 6)")
    return SvgFragment(size + 30, size + 40, f"{picture.title}, {axes}, {ends}", inner)


def _svg(elements: str, width: int, height: int, words: str, **data: str) -> str:
    """The outermost element of a picture; pages do not need its name space, files do."""
    # Of an image nothing inside is read, so one with links is a group of them.
    attributes: dict[str, Any] = {
        "role": "group" if "<a " in elements else "img",
        "aria_label": words,
        **data,
    }
    return element(
        "svg",
        elements,
        xmlns="http://www.w3.org/2000/svg",
        class_="picture",
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        **attributes,
    )


def _line(kind: str, y: float) -> str:
    return element("line", class_=kind, x1=area.LEFT, x2=area.RIGHT, y1=y, y2=y)


def text(words: str, x: float, y: float, kind: str, transform: str = "") -> str:
    """*words* at a place, or where *transform* puts them; ``kind`` are classes of the style."""
    if transform:
        return element("text", words, is_markup=False, class_=kind, transform=transform)
    return element("text", words, is_markup=False, class_=kind, x=x, y=y)


def element(tag: str, content: str = "", *, is_markup: bool = True, **attributes: object) -> str:
    """An element; *content* is markup already, or else a text."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(printable(str(value)))}"'
        for name, value in attributes.items()
    )
    inner = content if is_markup else escape(printable(content))
    return f"<{tag}{named}>{inner}</{tag}>" if inner else f"<{tag}{named}/>"


@cache
def _style() -> str:
    """The style with the colours put in, which programs other than browsers need."""
    light, dark = re.findall(r":root \{(.*?)\}", page_asset("look.css"), re.DOTALL)[:2]

    def coloured(theme: str) -> str:
        values = dict(re.findall(r"(--[a-z-]+): ([^;]+);", theme))
        return re.sub(r"var\((--[a-z-]+)\)", lambda name: values[name[1]], picture_style())

    return f"{coloured(light)}@media (prefers-color-scheme: dark) {{ {coloured(dark)} }}"
