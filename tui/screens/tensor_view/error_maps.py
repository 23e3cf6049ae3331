"""Where the errors of a tensor are: their means along one axis, or over two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from divergraph.text.numbers import small_number
from tui.render.tensors import pictures, plots
from tui.screens.base import ViewScreen
from tui.terminal.pixels import PlacedPicture
from tui.widgets.plot import Plot

if TYPE_CHECKING:
    from divergraph.api.answers import ErrorMap
    from graphstore.model import Finding
    from tui.tensors import TensorLook


class ErrorMapScreen(ViewScreen):
    """A view with a tensor pair, and the errors of it by place."""

    def __init__(self) -> None:
        super().__init__()
        self._look: TensorLook | None = None
        self._axes: tuple[int, ...] = ()

    def found_cause(self) -> Finding | None:
        """What was found about the tensor shown."""
        raise NotImplementedError

    def show_along(self, axes: tuple[int, ...]) -> None:
        """Show the errors along *axes*."""
        look, pane = self._look, self.query_one("#where", Plot)
        self._axes = axes
        if look is None:
            return
        if not axes:
            pane.show(lambda _width, _height: Content("the tensor has one element only"))
            return
        layout = look.values.layout or ""
        letters = layout if len(layout) == look.values.golden.ndim else ""
        names = [f"{axis} ({letters[axis]})" if letters else str(axis) for axis in axes]
        word = "axis" if len(axes) == 1 else "axes"
        delta = self.owner.settings.glyphs.delta
        pane.name_pane(f"Mean |{delta}| along {word} {' and '.join(names)}")
        pane.border_subtitle = Content(self._place_of_axes())
        pane.show(lambda _width, _height: Content("loading"))
        if len(axes) == 2:
            fine = pictures.fine_cells(*pane.size) if self.owner.settings.pixels else ()
            cells = plots.heat_cells(*pane.size)
            self.ask(
                "map",
                lambda: (look.map(axes, cells), look.map(axes, fine) if fine else None),
                lambda maps: self._got_map(*maps),
            )
            return
        glyphs, error_map = self.owner.settings.glyphs, look.map(axes, ())
        marked = self._marked(axes[0])
        pane.show(lambda width, height: plots.profile(error_map, marked, glyphs, width, height))

    def _marked(self, axis: int) -> Sequence[int]:
        cause = self.found_cause()
        if cause is None or cause.evidence.get("axis") != axis:
            return ()
        slices = cause.evidence.get("slices")
        return (
            [cut_index for cut_index in slices if isinstance(cut_index, int)]
            if isinstance(slices, list)
            else ()
        )

    def _got_map(self, error_map: ErrorMap, fine: ErrorMap | None) -> None:
        """Show the errors over two axes: for the cells there are, and finer ones for pixels."""
        glyphs = self.owner.settings.glyphs
        if error_map.axes == self._axes:
            pane = self.query_one("#where", Plot)
            pane.border_subtitle = Content(
                f"at most {small_number(error_map.most)}, {self._place_of_axes()}"
            )

            pane.show(
                lambda width, height: plots.heat(error_map, glyphs, width, height),
                None
                if fine is None
                else lambda *size: pictures.heat_picture(
                    fine, error_map.means.shape, self._colors(), *size
                ),
            )

    def _colors(self) -> Mapping[str, str]:
        return self.app.theme_variables

    def pictures(self) -> tuple[PlacedPicture, ...]:
        """The scatter plot and the map over two axes."""
        if self.owner.settings.pixels is None:
            return ()
        placed = (plot.placed_picture() for plot in self.query(Plot))
        return tuple(picture for picture in placed if picture is not None)

    def _place_of_axes(self) -> str:
        choices = () if self._look is None else self._look.picture.axes
        return f"{choices.index(self._axes) + 1} of {len(choices)}"

    def action_axes(self, direction: int) -> None:
        """Show the errors along the next axis or pair of axes, or the one before."""
        if self.allowed("tensor.axes") and self._look is not None:
            choices = self._look.picture.axes
            self.show_along(choices[(choices.index(self._axes) + direction) % len(choices)])
