"""The theme and the names of its colours; the only place of the UI that names a colour."""

from __future__ import annotations

from collections.abc import Mapping

from textual.theme import Theme

from graphstore.model import Guilt, Level, OpState

DARK_VARIABLES = {
    "state-origin": "#e879f9",
    "state-inherited": "#fb923c",
    "state-drifting": "#fde047",
    "state-explained": "#9fb8a6",
    "state-clean": "#74b085",
    "state-broken": "#ffffff",
    "state-broken-background": "#c02626",
    "state-alarm": "#ff7b72",
    "state-unknown": "#a0a4ae",
    "fused": "#5ccfe6",
    "linked": "#7aa2f7",
    "heading": "#a9b7d1",
    "quiet": "#a0a4ae",
    "faint": "#8b8f98",
    "selected": "#26324d",
}

LIGHT_VARIABLES = {
    "state-origin": "#a21caf",
    "state-inherited": "#a04a06",
    "state-drifting": "#7a5e00",
    "state-explained": "#4d6b58",
    "state-clean": "#2f6b43",
    "state-broken": "#ffffff",
    "state-broken-background": "#b91c1c",
    "state-alarm": "#b91c1c",
    "state-unknown": "#5c6068",
    "fused": "#0b677f",
    "linked": "#1d4ed8",
    "heading": "#334155",
    "quiet": "#5c6068",
    "faint": "#62666e",
    "selected": "#dde6fa",
}

CONTRAST_VARIABLES = {
    "state-origin": "#ff8cff",
    "state-inherited": "#ffb000",
    "state-drifting": "#ffff00",
    "state-explained": "#d0ffd8",
    "state-clean": "#5dff7f",
    "state-broken": "#ffffff",
    "state-broken-background": "#b00000",
    "state-alarm": "#ff9a9a",
    "state-unknown": "#d0d0d0",
    "fused": "#7df9ff",
    "linked": "#9fc5ff",
    "heading": "#ffffff",
    "quiet": "#d0d0d0",
    "faint": "#b8b8b8",
    "selected": "#182845",
}
"""Each at least seven times as bright as what is behind it, WCAG's ratio for enhanced contrast."""


def _theme(
    name: str,
    variables: Mapping[str, str],
    *,
    text: tuple[str, str],
    panel: str,
    border: str,
    error: str,
) -> Theme:
    """The theme of *variables*; *text* is its colour and that behind it. What the framework draws
    by itself has the colours of what we draw."""
    foreground, background = text
    return Theme(
        name=f"divergraph-{name}",
        primary=variables["linked"],
        accent=variables["linked"],
        warning=variables["state-drifting"],
        error=error,
        success=variables["state-clean"],
        foreground=foreground,
        background=background,
        surface=background,
        panel=panel,
        dark=name != "light",
        variables={**variables, "border-blurred": border},
    )


DARK = _theme(
    "dark",
    DARK_VARIABLES,
    text=("#d7dae0", "#14161b"),
    panel="#1f232b",
    border="#3b4252",
    error="#f87171",
)
LIGHT = _theme(
    "light",
    LIGHT_VARIABLES,
    text=("#1b1e24", "#fafafa"),
    panel="#e8eaee",
    border="#b8bec9",
    error="#b91c1c",
)
CONTRAST = _theme(
    "contrast",
    CONTRAST_VARIABLES,
    text=("#ffffff", "#000000"),
    panel="#262626",
    border="#9a9a9a",
    error="#ff9a9a",
)

STATE_STYLES = {
    OpState.ORIGIN: "$state-origin bold",
    OpState.INHERITED: "$state-inherited",
    OpState.DRIFTING: "$state-drifting",
    OpState.EXPLAINED: "$state-explained",
    OpState.CLEAN: "$state-clean",
    OpState.BROKEN: "$state-broken bold on $state-broken-background",
    OpState.NOT_COMPARED: "$state-unknown",
}
"""Style of an op's state, as content markup reads it (theme variables only)."""

LEVEL_STYLES = {
    Level.PASS: "$state-clean",
    Level.WARN: "$state-drifting",
    Level.FAIL: "$state-inherited bold",
}
GUILT_STYLES = {
    Guilt.NONE: "",
    Guilt.SUSPECT: "$state-drifting",
    Guilt.GUILTY: "$state-origin bold",
}
OFF = "$state-inherited bold"
"""What lies where it should not."""
BROKEN = STATE_STYLES[OpState.BROKEN]
HEADING = "$heading bold"
QUIET = "$quiet"
FAINT = "$faint"
"""What does not apply here, and can still be read."""
FUSED = "$fused"
LINKED = "$linked bold"
ERROR = "$text-error bold"
