"""The layers of a job on its ranks, each coloured as its worst op."""

from __future__ import annotations

from divergraph.ask.questions.ranks import RankLayer, RankMap
from divergraph.present.pictures.svg import SvgFragment, element, text
from divergraph.text.words import counted

_ROW, _TOP = 18, 20
_NAMES = 190
"""Pixels at the left for the layers' names."""
_WIDTH = 640
_WIDEST, _NARROWEST = 44, 2
"""Pixels of a rank."""


def rank_map(answer: RankMap) -> SvgFragment:
    """A row for each layer and way, a column for each rank."""
    rows: dict[tuple[str, str], int] = {}
    for cell in answer.layers:
        rows.setdefault((cell.layer, cell.way), len(rows))
    wide = min(_WIDEST, max(_NARROWEST, _WIDTH // len(answer.ranks)))
    column = {rank: _NAMES + number * wide for number, rank in enumerate(answer.ranks)}
    every = -(-30 // wide)  # room for a number
    parts = [
        text(str(rank), column[rank] + wide / 2, _TOP - 6, "label middle")
        for rank in answer.ranks[::every]
    ]
    parts.append(text("rank", _NAMES - 8, _TOP - 6, "label end"))
    for (layer, way), row in rows.items():
        name = ", ".join(filter(None, (layer or "no module", way)))
        parts.append(text(name, _NAMES - 8, _TOP + row * _ROW + 13, "label end"))
    for cell in answer.layers:
        place = column[cell.rank], _TOP + rows[cell.layer, cell.way] * _ROW
        parts.append(_cell(cell, *place, wide))
    layers = len({layer for layer, _ in rows})
    words = f"{counted(layers, 'layer')} on {counted(len(answer.ranks), 'rank')}, by state"
    width = _NAMES + wide * len(answer.ranks) + 8
    return SvgFragment(width, _TOP + len(rows) * _ROW + 4, words, "".join(parts))


def _cell(cell: RankLayer, x: int, y: int, wide: int) -> str:
    error = "" if cell.relative is None else f", relative error {cell.relative:.3g}"
    said = (
        f"{cell.layer or 'no module'} {cell.way}, rank {cell.rank}: {cell.state.value}, "
        f"{cell.over} of {counted(cell.ops, 'op')} over a limit; {cell.worst}{error}"
    )
    return element(
        "rect",
        element("title", said, is_markup=False),
        class_="point",
        data_state=cell.state.value,
        x=x,
        y=y,
        width=wide,
        height=_ROW,
    )
