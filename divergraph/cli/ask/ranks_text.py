"""The map of a job's ranks and layers as plain text."""

from __future__ import annotations

from collections import defaultdict

from divergraph.ask.questions.ranks import RankLayer, RankMap
from divergraph.cli.say import say
from graphstore.model import OpState
from importers.msprobe.collectives import ranks_words

_ABSENT = "-"


def show_ranks(answer: RankMap) -> None:
    """A row for each layer, a column for ranks that are alike in all of them; the origins below."""
    cells = {(row.layer, row.way, row.rank): _cell(row) for row in answer.layers}
    layers = list(dict.fromkeys((row.layer, row.way) for row in answer.layers))
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for rank in answer.ranks:
        alike[tuple(cells.get((*layer, rank), _ABSENT) for layer in layers)].append(rank)
    columns = [
        ["layer", *(layer or "(no module)" for layer, _ in layers)],
        ["", *(way for _, way in layers)],
        *([ranks_words(ranks), *states] for states, ranks in alike.items()),
    ]
    widths = [max(map(len, column)) for column in columns]
    for number, texts in enumerate(zip(*columns, strict=True)):
        line = "  ".join(f"{text:{width}}" for text, width in zip(texts, widths, strict=True))
        say(line.rstrip(), bold=number == 0)
    for row in answer.layers:
        if row.state is OpState.ORIGIN:
            say(f"the error starts in {row.layer or 'no module'} of rank {row.rank}: {row.worst}")


def _cell(row: RankLayer) -> str:
    over = f" {row.over}/{row.ops}" if row.over else ""
    return f"{row.state.value}{over}"
