"""How well a text can be read on what is behind it."""

from __future__ import annotations

from textual.color import Color

LEAST = {"dark": 4.5, "light": 4.5, "contrast": 7.0}
"""WCAG's ratios for text, the enhanced one for high contrast."""


def contrast(one: Color, other: Color) -> float:
    """WCAG's contrast ratio of two colours."""
    high, low = sorted((_light(one), _light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _light(colour: Color) -> float:
    parts = [part / 255 for part in colour.rgb]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
