"""The theme and the names of its colours; the only place of the UI that names a colour."""

from __future__ import annotations

from textual.theme import Theme

from graphstore.model import Guilt, Level, OpState

DARK_VARIABLES = {
    "state-origin": "#e879f9",
    "state-inherited": "#fb923c",
    "state-drifting": "#fde047",
    "state-explained": "#9fb8a6",
    "state-clean": "#6aa57a",
    "state-broken": "#ffffff",
    "state-broken-background": "#c02626",
    "state-alarm": "#ff7b72",
    "state-unknown": "#8b8f98",
    "fused": "#5ccfe6",
    "linked": "#7aa2f7",
    "heading": "#a9b7d1",
    "quiet": "#8b8f98",
}

LIGHT_VARIABLES = {
    "state-origin": "#a21caf",
    "state-inherited": "#b45309",
    "state-drifting": "#8a6a00",
    "state-explained": "#4d6b58",
    "state-clean": "#2f6b43",
    "state-broken": "#ffffff",
    "state-broken-background": "#b91c1c",
    "state-alarm": "#b91c1c",
    "state-unknown": "#62666e",
    "fused": "#0e7490",
    "linked": "#1d4ed8",
    "heading": "#334155",
    "quiet": "#62666e",
}

DARK = Theme(
    name="divergraph-dark",
    primary="#7aa2f7",
    accent="#7aa2f7",
    warning="#fde047",
    error="#f87171",
    success="#6aa57a",
    foreground="#d7dae0",
    background="#14161b",
    surface="#14161b",
    panel="#1f232b",
    dark=True,
    variables={**DARK_VARIABLES, "border-blurred": "#3b4252"},
)

LIGHT = Theme(
    name="divergraph-light",
    primary="#1d4ed8",
    accent="#1d4ed8",
    warning="#8a6a00",
    error="#b91c1c",
    success="#2f6b43",
    foreground="#1b1e24",
    background="#fafafa",
    surface="#fafafa",
    panel="#e8eaee",
    dark=False,
    variables={**LIGHT_VARIABLES, "border-blurred": "#b8bec9"},
)

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
}
"""Each at least seven times as bright as the background, WCAG's ratio for enhanced contrast."""

CONTRAST = Theme(
    name="divergraph-contrast",
    primary="#9fc5ff",
    accent="#9fc5ff",
    warning="#ffff00",
    error="#ff9a9a",
    success="#5dff7f",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#262626",
    dark=True,
    variables={**CONTRAST_VARIABLES, "border-blurred": "#9a9a9a"},
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
FUSED = "$fused"
LINKED = "$linked bold"
ERROR = "$text-error bold"
