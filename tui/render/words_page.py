"""The page behind ``F1``: what the columns and the judging words of the screens mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.content import Content

from graphstore.filter import FIELDS
from graphstore.model import Guilt, Level
from tui.render.hanging import hung
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import fit
from tui.widgets.columns import ListColumn

_FIELD_OF: Mapping[str, str] = {
    "max": "max_absolute_error",
    "rel": "relative_euclidean_distance",
    "cos": "cosine_similarity",
    "susp": "suspicion",
    "intro": "introduced",
    "op": "id",
}
"""Columns whose field in filters has another name."""
_OWN = {
    "topo": "the op's place in execution order",
    "err": "the relative errors of the ops around it in execution order, its own in the middle",
    "from": "where its error starts: topo of the origins, or why nothing was compared",
    "gain": "the relative error coming out over the worst one going in",
    "#": "its rank, and the mark of its state",
    "mark": "whether the row is marked",
    "part": "S where the part starts that is being chosen, E where it ends",
    "place": "its place on the path, and the mark of its state",
    "bar": "the size of the relative error, a cell for each few powers of ten",
    "share": "its part of the error at the outputs, as `blame` found it",
    "best": "the cut that halves the path best: to bisect, take it as an end",
    "above": "the ops between the start of the path and this one",
    "below": "the ops between this one and the end of the path",
    "job": "running, done, failed, stopped, or lost: its process ended without a word",
    "command": "the command of the shell that does the same",
    "what": "the run or graph it makes or is about, else the first file it was given",
    "began": "when the first of its processes began",
    "took": "how long it took, or runs by now",
    "said": "the stage it is at, with what is done of how much; or how it ended",
    "fits": "of the device graph's ops those that are golden ops or made of them",
}
_LEVELS = {
    Level.PASS: "within every limit and warning level",
    Level.WARN: "past a warning level, within the limits",
    Level.FAIL: "over a limit",
}
_GUILT = {
    Guilt.NONE: "its own error is what its precision explains",
    Guilt.SUSPECT: "its own error is over 6 times what its precision explains, or stands far out",
    Guilt.GUILTY: "its own error is over 10 times what its precision explains: an origin",
}
_HEAD = 16


def words_page(glyphs: Glyphs, columns: Iterable[ListColumn], width: int) -> Content:
    """The columns of the list in focus, then states, roles, guilt and levels."""
    fields = {field.name: field.help for field in FIELDS}
    lines = [Content.styled("Columns here", theme.HEADING)]
    for column in columns:
        name = _FIELD_OF.get(column.id, column.id)
        words = _OWN.get(column.id) or fields.get(name, "")
        if words:
            lines += hung(f"  {fit(column.title or column.id, _HEAD, '')}", words, width)
    if len(lines) == 1:
        lines.append(Content("  those of the list in focus say what they are"))
    lines += [Content(""), Content.styled("State of an op", theme.HEADING)]
    for state, words in wording.STATE_WORDS.items():
        head = f"  {glyphs.state(state)} {fit(state.value, _HEAD - 2, '')}"
        lines += hung(head, words, width, theme.STATE_STYLES[state])
    for title, table in (
        ("Role: what it does to the error", wording.ROLE_WORDS),
        ("Guilt: its own error over the noise floor (susp)", _GUILT),
        ("Level of one tensor", _LEVELS),
    ):
        lines += [Content(""), Content.styled(title, theme.HEADING)]
        for word, words in table.items():
            lines += hung(f"  {fit(str(word.value), _HEAD, '')}", words, width)
    return Content("\n").join(lines)
