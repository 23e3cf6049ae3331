"""The words that a Cypher text is completed with, in every face: they follow from the schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from graphstore.schema.tables import NODES, RELS

_KEYWORDS = (
    "OPTIONAL MATCH WHERE WITH RETURN DISTINCT ORDER BY DESC LIMIT SKIP AS AND OR NOT IN IS NULL "
    "CONTAINS STARTS ENDS EXISTS UNWIND UNION CASE WHEN THEN ELSE END count collect sum avg min max"
).split()
_LABELS = tuple(node.label for node in NODES)
_RELATIONSHIPS = tuple(dict.fromkeys(rel.type for rel in RELS))
_OF_TYPE: Mapping[str, tuple[str, ...]] = {
    **{rel.type: tuple(column.name for column in rel.columns) for rel in RELS},
    **{node.label: tuple(column.name for column in node.columns) for node in NODES},
}
_PROPERTIES = tuple(dict.fromkeys(name for names in _OF_TYPE.values() for name in names))
_OF_TARGET = ("$run", "$graph", "$golden", "$device")
_WORD = re.compile(r"[$\w]*$")
_VARIABLE = re.compile(r"[(\[]\s*(\w+)\s*:\s*(\w+)")
_OWNER = re.compile(r"(\w+)\.\w*$")
_IN_BRACKET = re.compile(r"\[[^\]]*$")


def word_before(text: str) -> str:
    """The word *text* ends in; may be empty."""
    match = _WORD.search(text)
    return match[0] if match else ""


def completions(before: str, parameters: Iterable[str] = ()) -> tuple[str, ...]:
    """The words that may stand at the end of *before*.

    Behind a colon: labels, in square brackets relationships; behind a point: the properties of what
    the text says the variable is; behind a dollar: parameters; else all but these.
    """
    word = word_before(before)
    lead = before[: len(before) - len(word)].rstrip()[-1:]
    words: tuple[str, ...] = (*_KEYWORDS, *_LABELS, *_RELATIONSHIPS, *_PROPERTIES)
    if lead == ":":
        words = _RELATIONSHIPS if _IN_BRACKET.search(before) else _LABELS
    elif lead == ".":
        words = _properties(before)
    elif word.startswith("$"):
        words = (*_OF_TARGET, *(f"${name}" for name in parameters))
    if not word and (lead not in (":", ".") or before[-1:].isspace()):
        return ()
    low = word.lower()
    return tuple(dict.fromkeys(entry for entry in words if entry.lower().startswith(low)))


def _properties(before: str) -> tuple[str, ...]:
    owner = _OWNER.search(before)
    kinds = dict(_VARIABLE.findall(before))
    return _OF_TYPE.get(kinds.get(owner[1] if owner else "", ""), _PROPERTIES)
