"""A question in Cypher as an object of JSON, as it comes over HTTP or from a tool's caller."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from graphstore.cypher.user_question import CypherQuestion
from graphstore.errors import InputError
from graphstore.remote.answerer import MOST_SECONDS

_TIMEOUT = 30.0
_ROWS = 1000


def cypher_schema(most_rows: int) -> dict[str, Any]:
    """The JSON Schema of such an object."""
    rows = {"type": "integer", "minimum": 1, "maximum": most_rows, "default": _ROWS}
    seconds = {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": MOST_SECONDS,
        "default": _TIMEOUT,
    }
    run = {"type": ["string", "null"], "description": "The run or graph it is about."}
    return {
        "type": "object",
        "required": ["cypher"],
        "additionalProperties": False,
        "properties": {
            "cypher": {
                "type": "string",
                "pattern": r"\S",
                "description": "A text, or the name of a query.",
            },
            "run": run,
            "parameters": {"type": "object", "description": "Values of its $parameters, by name."},
            "limit": {**rows, "description": "Rows at most."},
            "timeout": {**seconds, "description": "Seconds at most."},
        },
    }


def cypher_question(given: Mapping[str, Any], most_rows: int) -> CypherQuestion:
    """The question of an object with these fields only.

    Raises:
        InputError: a value is not what its field takes.
    """
    run, parameters = given.get("run"), given.get("parameters", {})
    if run is not None and not isinstance(run, str):
        raise InputError("it must be a name", where="run")
    if not isinstance(parameters, dict):
        raise InputError("it must be an object", where="parameters")
    rows = _number(given, "limit", _ROWS, most_rows)
    if not rows.is_integer():
        raise InputError("it must be a whole number", where="limit")
    seconds = _number(given, "timeout", _TIMEOUT, MOST_SECONDS)
    # the question takes parameters as typed: JSON
    texts = {name: json.dumps(value) for name, value in parameters.items()}
    return CypherQuestion(text_field(given, "cypher"), run, texts, int(rows), seconds)


def check_fields(given: Mapping[str, Any], known: set[str]) -> None:
    """Return if *given* has no other fields than the *known* ones.

    Raises:
        InputError: it has.
    """
    if unknown := sorted(set(given) - known):
        hint = f"it has {', '.join(sorted(known))}"
        raise InputError("there is no such field", where=unknown[0], hint=hint)


def text_field(given: Mapping[str, Any], name: str) -> str:
    """The text in a field.

    Raises:
        InputError: there is none.
    """
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InputError("a text is needed", where=name)
    return value


def _number(fields: Mapping[str, Any], name: str, default: float, highest: float) -> float:
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= highest:
        raise InputError(f"it must be a number above 0, up to {highest:g}", where=name)
    return float(value)
