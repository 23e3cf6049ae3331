"""A thousand names that mean harm to whatever shows them: each kind alone, and in pairs."""

from __future__ import annotations

from itertools import product

_ACTS = (
    "\x1b[2J",
    "\x1b]52;c;cm0gLXJm\x07",
    "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\",
    "\x9b31m",
    "\x00",
    "\x7f\x08\x08",
    "a\rb",
    "a\nb",
    "\u2028",
    "\u2029",
    "\x85",
    "\u202egnp.exe",
    "\u2066\u2069\u200f",
    "\u200b\ufeff",
    "\ud800",
    "\U000e0041",
)
_MARKUP = (
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2",
    "@SUM(A1)",
    "\t=1",
    "<script>document.title='gone'</script>",
    "</script><img src=x onerror=alert(1)>",
    "]]>",
    "<!--",
    "&amp;&#x1b;",
    "\"'`",
    "| a | b |",
    "[x](javascript:alert(1))",
    "![x](http://evil.example)",
    "`code`",
    "# title",
    "[red]x[/]",
    "%s{0}$(x)",
    "../../etc/passwd",
    "..\\con",
    "a,b;c",
    "深度学习/卷积",
    "é\u0301\u0301\u0301",
    "\U0001f600",
    "n" * 300,
)


def hostile_names() -> list[str]:
    """The names, no two of them equal."""
    pairs = [first + second for first, second in product(_ACTS + _MARKUP, repeat=2)]
    return list(dict.fromkeys((*_ACTS, *_MARKUP, *pairs)))[:1000]
