"""Text from files as people may see it: nothing in it moves a cursor or turns a line around.

Names of models, ops, tensors and files are data of strangers. What a terminal, a browser or a
viewer of Markdown would obey in them stands as an escape: ESC as ``\\x1b``, a line end as ``\\n``.
"""

from __future__ import annotations

import re

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NOT_ASCII_TEXT = re.compile("[^\n -~]")


def printable(text: str) -> str:
    """*text* on one line, with each character that has no shape of its own as an escape.

    These are control characters, line ends, marks of writing direction and of no width,
    and bytes of a file name that are not UTF-8 (``\\xff``). Text without them is itself.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte it could not decode
        code -= 0xDC00
    if code < 0x100:
        return _SHORT.get(char, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def printable_json(text: str, *, ascii_only: bool) -> str:
    """The JSON *text* saying the same without such characters, or in ASCII.

    JSON has escapes of its own, so nothing of the data is lost: U+202E becomes ``\\u202e``.
    """

    if text.isascii() and "\x7f" not in text:  # JSON has escaped what comes before the space
        return text

    def shown(match: re.Match[str]) -> str:
        char = match[0]
        return char if char.isprintable() and not ascii_only else _json_escape(char)

    return _NOT_ASCII_TEXT.sub(shown, text)


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
