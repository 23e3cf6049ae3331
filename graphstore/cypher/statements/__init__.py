"""The statements stores write and look after themselves with: one ``.cypher`` file a module.

A file holds several statements, each below a line ``// name: what it does.`` and ended by an
empty line; a file of one dialect ends in it (``.neo4j.cypher``, ``.embedded.cypher``). What a
parameter cannot say (a label, a list of properties) stands in the text as ``<place>`` and is
given to :meth:`Statements.filled`. Users' questions are in :mod:`graphstore.cypher.queries`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_HEAD = re.compile(r"^// (\w+): (.+)$")
_PLACE = re.compile(r"<(\w+)>")


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of one file by name."""

    texts: dict[str, str]

    def __getitem__(self, name: str) -> str:
        """The statement *name*, which has no places to fill."""
        return self.filled(name)

    def filled(self, name: str, **places: str) -> str:
        """The statement *name* with its ``<place>`` texts filled in, ours and never a user's.

        Raises:
            KeyError: there is no such statement, or it has a place nobody filled.
        """
        return _PLACE.sub(lambda match: places[match.group(1)], self.texts[name])


@cache
def load_statements(name: str) -> Statements:
    """The statements of ``statements/<name>.cypher``."""
    text = files(__name__).joinpath(f"{name}.cypher").read_text(encoding="utf-8")
    bodies: dict[str, str] = {}
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip().splitlines()
        heads = [_HEAD.match(line) for line in lines if line.startswith("//")]
        body = " ".join(line.strip() for line in lines if not line.startswith("//"))
        if body and heads and (head := heads[0]) is not None:
            bodies[head.group(1)] = body
        elif body:
            raise ValueError(f"a statement in {name}.cypher has no name: {body[:40]}")
    return Statements(bodies)
