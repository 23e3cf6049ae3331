"""The app's themes, and its rules, which are parsed once for each set of colours."""

from __future__ import annotations

from textual.app import App
from textual.css.stylesheet import Stylesheet

from tui.style.theme import CONTRAST, DARK, DARK_VARIABLES, LIGHT


class ParsedOnce(Stylesheet):
    """A style sheet that parses again only what is new.

    The framework parses all rules again, twice, for each view that is opened for the first time:
    its screens have not seen the theme's colours yet. Where the colours are the same, so are the
    rules. That was a sixth of the time the terminal screens take.
    """

    def set_variables(self, variables: dict[str, str]) -> None:
        """Take the colours of a theme; what was parsed with the same ones stays."""
        if variables != self._variables:
            super().set_variables(variables)

    def reparse(self) -> None:
        """Parse the sources that were not parsed with these colours."""
        self.parse()


class ThemedApp(App[None]):
    """An app that knows our themes."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The names of our colours for themes that do not define them."""
        return DARK_VARIABLES

    def begin_with(self, theme: str) -> None:
        """Choose *theme* before any rule is parsed, so that none is parsed twice."""
        for palette_theme in (DARK, LIGHT, CONTRAST):
            self.register_theme(palette_theme)
        self.set_reactive(App.theme, theme)
        self.stylesheet = ParsedOnce(variables=self.get_css_variables())
