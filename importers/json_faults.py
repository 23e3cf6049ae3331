"""What is wrong with a JSON text, in words for users: Python's own speak to programmers."""

from __future__ import annotations

import json

_FAULTS = {
    "Expecting value": "a value is missing here, or what stands here is none",
    "Expecting ',' delimiter": "a comma or a closing bracket is missing here",
    "Expecting ':' delimiter": "a colon is missing here",
    "Expecting property name enclosed in double quotes": "a name in double quotes is missing here",
    "Illegal trailing comma before end of object": "a comma too many",
    "Illegal trailing comma before end of array": "a comma too many",
    "Extra data": "it has ended before this",
    "Unterminated string starting at": "the text that starts here has no end quote",
    "Invalid control character at": "a text has a line end or control character here",
}


def json_fault(error: ValueError | RecursionError) -> str:
    """What ``json.loads`` found, in a phrase."""
    if isinstance(error, json.JSONDecodeError):
        if not error.doc[error.pos :].strip():
            return "it ends too early, as if it was cut"
        fault = _FAULTS.get(error.msg.removesuffix(": "))
        return fault or "an escape that JSON does not know"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return "a number with too many digits"
