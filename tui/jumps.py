"""The places visited, so that one can go back and forth between them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tui.address import ScreenAddress

JUMPS_KEPT = 200


@dataclass
class JumpList:
    """The places visited, with a position; going somewhere new drops what lay ahead."""

    places: list[ScreenAddress] = field(default_factory=list)
    at: int = -1

    def visit(self, place: ScreenAddress) -> None:
        """Go to *place*; the same place twice in a row counts once."""
        if self.at >= 0 and self.places[self.at] == place:
            return
        self.places = [*self.places[: self.at + 1], place][-JUMPS_KEPT:]
        self.at = len(self.places) - 1

    def update(self, place: ScreenAddress) -> None:
        """Update the present place (cursor, filter, order). A late update from a view already left
        is ignored."""
        if self.at >= 0:
            here = self.places[self.at]
            if (here.target, here.view) == (place.target, place.view):
                self.places[self.at] = place

    def step(self, direction: int) -> ScreenAddress | None:
        """The place before (-1) or after (1), or None at the end of the list."""
        if not 0 <= self.at + direction < len(self.places):
            return None
        self.at += direction
        return self.places[self.at]
