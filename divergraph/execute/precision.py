"""In which precision a model is computed: an option of executors."""

from __future__ import annotations

from collections.abc import Mapping

from graphstore.errors import InputError

PRECISION: Mapping[str, str] = {
    "precision": "float64: compute in it, and round each result once to its own type"
}
"""The option, and what it means."""
_KNOWN = ("float32", "float64")


def in_double(options: Mapping[str, str]) -> bool:
    """Whether *options* ask for double precision.

    Raises:
        InputError: there is no such precision.
    """
    precision = options.get("precision", _KNOWN[0])
    if precision not in _KNOWN:
        raise InputError(f"no precision {precision!r}", hint=f"there are: {', '.join(_KNOWN)}")
    return precision == _KNOWN[1]


def told(engine: str, *, double: bool) -> str:
    """The name of an *engine*, with the precision where that is not the model's own."""
    return f"{engine} in float64" if double else engine
