"""The engine's limit on ways of any length: said, never kept to in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from graphstore.cypher.text import hop_bounds, tokens
from graphstore.errors import QueryError

MAX_HOPS = 65535
"""Its hop counter has 16 bits and wraps without a word; its default limit is 30."""
_FOLLOWED = MAX_HOPS - 1
"""The hops it follows when asked for the most."""


def check_hops(cypher: str) -> None:
    """Return if no way in *cypher* is asked for with more hops than the engine counts.

    Raises:
        QueryError: one is; the engine would count modulo 65536 and leave ops out.
    """
    for bound in hop_bounds(tokens(cypher)):
        if bound.most is not None and bound.most > MAX_HOPS:
            raise QueryError(
                f"the embedded engine counts at most {MAX_HOPS} hops, not {bound.most}",
                position=bound.start,
                hint="write 1..65535; trace, between and the named queries have no limit",
            )


def hop_notes(cypher: str, depths: Callable[[], Iterable[tuple[str, int]]]) -> tuple[str, ...]:
    """Sentences on the graphs where *cypher* may have been cut by the engine's limit.

    *depths* gives the graphs it saw with the most hops of a way in each.
    """
    bounds = [bound.most for bound in hop_bounds(tokens(cypher))]
    if not any(most is None or most > _FOLLOWED for most in bounds):
        return ()
    return tuple(
        f"{graph} has ways of up to {hops} hops, the embedded engine follows {_FOLLOWED}: "
        "ops farther off are missing; trace, between and the named queries have no limit"
        for graph, hops in depths()
        if hops > _FOLLOWED
    )
