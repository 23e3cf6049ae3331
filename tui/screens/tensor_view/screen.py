"""View 6: one tensor of both sides. Is its error noise, a shift, or a fault in a part?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from divergraph.text.printable import printable
from graphstore.model import Finding, FindingKind, TensorIO
from tui.address import ScreenAddress
from tui.export import write_arrays
from tui.keys import KeyScope, bindings
from tui.messages import OpenOp, ask
from tui.render.tensors import pictures, plots, text
from tui.screens.tensor_view.error_maps import ErrorMapScreen
from tui.style import theme
from tui.widgets.lines import KeyLine
from tui.widgets.plot import Plot
from tui.widgets.row_list import RowList
from tui.widgets.rows import FixedRows
from tui.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from divergraph.ask.answers import OpDetail, TensorRow
    from tui.tensors import TensorLook


class TensorScreen(ErrorMapScreen):
    """The outputs and inputs of one op, one at a time."""

    VIEW = "tensor"
    CRUMB = "Tensor"
    SCOPES = (KeyScope.TENSOR, KeyScope.LIST, KeyScope.EVERYWHERE)
    BINDINGS = bindings(KeyScope.TENSOR)
    SHOWN_KEYS = (
        "tensor.next",
        "tensor.axes",
        "pane.next",
        "tensor.details",
        "tensor.save",
        "origin.first",
        "yank",
        "quit",
        "help",
    )

    def __init__(self) -> None:
        super().__init__()
        self._detail: OpDetail | None = None
        self._tensors: Sequence[tuple[TensorIO, TensorRow]] = ()
        self._number = 0
        self._look: TensorLook | None = None
        self._axes: tuple[int, ...] = ()

    def body(self) -> ComposeResult:
        """Numbers, decades and scatter above; worst elements and places of the errors below."""
        glyphs = self.owner.settings.glyphs
        with Horizontal(id="values"):
            yield TextPane("Tensor", id="numbers")
            yield TextPane("Errors by size", id="decades")
            yield Plot("Device over golden", id="scatter")
        with Horizontal(id="places"):
            yield RowList(FixedRows(()), glyphs, id="worst", empty="loading")
            yield Plot("Where", id="where")
        yield Static("", id="why", markup=False)

    def on_mount(self) -> None:
        """Put the cursor into the worst elements."""
        super().on_mount()
        worst = self.query_one("#worst", RowList)
        worst.name_pane("Worst elements")
        worst.focus()

    @property
    def waiting(self) -> bool:
        """True while values are awaited, too."""
        awaited = bool(self._tensors) and self._look is None and not self._said_why
        return super().waiting or awaited

    _said_why = False

    def address(self) -> ScreenAddress:
        """The op, and its output where one is shown."""
        io, tensor = self._shown() or (None, None)
        output = tensor.port if tensor is not None and io is TensorIO.OUTPUT else None
        return replace(super().address(), op=self.current_op(), output=output)

    def load(self, address: ScreenAddress) -> None:
        """Ask for the op that is looked at, else for the first origin or the worst op."""
        self._detail, self._tensors = None, ()
        self._forget_look("")
        self.query_one("#numbers", TextPane).show(lambda _: Content("loading"))
        self._ask(address.op or self.owner.session.last_op, address.output)

    def restore(self, address: ScreenAddress) -> None:
        """Look at another op or output of the same run."""
        wanted = address.op or self.owner.session.last_op
        if self._detail is None or (wanted and wanted != self._detail.row.id):
            self.load(replace(address, op=wanted))
        elif address.output is not None:
            self._choose(self._place(self._tensors, address.output))

    def _ask(self, op: str, output: int | None) -> None:
        session = self.owner.session

        def load() -> OpDetail | None:
            overview = session.overview()
            rows = (*overview.origin_rows, *overview.worst)
            op_id = op or next((row.id for row in rows), "")
            return session.detail(op_id) if op_id else None

        self.ask("tensor op", load, lambda detail: self._got_op(detail, output))

    def _got_op(self, detail: OpDetail | None, output: int | None) -> None:
        """Show the op and its tensors, the *output* first."""
        self.filled()
        self._detail = detail
        if detail is None:
            self._forget_look("no op of this run was compared")
            self.query_one("#numbers", TextPane).show(lambda _: Content(""))
            return
        self._tensors = [
            *((TensorIO.OUTPUT, row) for row in detail.outputs),
            *((TensorIO.INPUT, row) for row in detail.inputs),
        ]
        wanted = detail.row.output if output is None else output
        self._choose(self._place(self._tensors, wanted))

    @staticmethod
    def _place(tensors: Sequence[tuple[TensorIO, TensorRow]], output: int | None) -> int:
        ports = [row.port if io is TensorIO.OUTPUT else None for io, row in tensors]
        return ports.index(output) if output in ports and output is not None else 0

    def _shown(self) -> tuple[TensorIO, TensorRow] | None:
        return self._tensors[self._number] if self._number < len(self._tensors) else None

    def _choose(self, number: int) -> None:
        """Show the numbers of a tensor at once, then ask for its values."""
        self._number = number
        port_row, glyphs = self._shown(), self.owner.settings.glyphs
        numbers = self.query_one("#numbers", TextPane)
        numbers.name_pane(self.current_op())
        if port_row is None:
            numbers.show(lambda _: Content(""))
            self._forget_look("the op has no outputs and no inputs")
            return
        io, tensor = port_row
        place = f"{number + 1} of {len(self._tensors)}"
        numbers.border_subtitle = Content(f"{io.value} {tensor.port}, {place}")
        numbers.show(lambda width: text.numbers(tensor, glyphs, width))
        session = self.owner.session
        session.jumps.update(self.address())
        compared = tensor.comparison
        if compared is None or compared.metrics is None:
            self._forget_look("its values were not compared")
            return
        self._forget_look("")
        # An input is measured where it is made, as an output of another op.
        port = f"--{compared.io.value}={compared.port}"
        session.note("tensor", session.target, compared.op, port)
        key = compared.op, compared.io, compared.port
        # The stored numbers stay, so it is no trouble of the view.
        ask(
            self,
            "values",
            lambda: session.tensor(*key),
            self._got_values,
            lambda error: self._forget_look(f"no values: {error}"),
        )
        self.query_one(KeyLine).draw()

    def _forget_look(self, why: str) -> None:
        """Show no values; *why* there are none, or that they are awaited."""
        self._look, self._axes, self._said_why = None, (), bool(why)
        nothing = "" if why else "loading"
        self.query_one("#decades", TextPane).show(lambda _: Content(nothing))
        for pane in ("#scatter", "#where"):
            self.query_one(pane, Plot).show(lambda _width, _height: Content(nothing))
        where = self.query_one("#where", Plot)
        where.name_pane("Where")
        where.border_subtitle = Content("")
        self.query_one("#worst", RowList).show(FixedRows(()), empty=nothing)
        text = Content.styled(printable(why), theme.QUIET) if why else Content("")
        self.query_one("#why", Static).update(text)

    def _got_values(self, look: TensorLook) -> None:
        self._look = look
        glyphs, picture = self.owner.settings.glyphs, look.picture
        decades = self.query_one("#decades", TextPane)
        decades.show(lambda width: text.decades(picture, glyphs, width))
        if picture.scatter is not None:
            plot = picture.scatter
            self.query_one("#scatter", Plot).show(
                lambda width, height: plots.scatter(plot, glyphs, width, height),
                lambda *size: pictures.scatter_picture(plot, self._colors(), *size),
            )
        elements = text.WorstElements(
            [element for element in picture.table.worst_absolute if element.absolute > 0]
        )
        self.query_one("#worst", RowList).show(elements, empty="no element differs")
        cause = self.found_cause()
        axes = picture.axes
        named = [
            axes_of_map
            for axes_of_map in axes
            if cause and axes_of_map == (cause.evidence.get("axis"),)
        ]
        self.show_along(next(iter(named or axes), ()))
        sentence = "" if cause is None else f"cause: {cause.sentence}"
        self.query_one("#why", Static).update(Content.styled(printable(sentence), theme.LINKED))
        self.query_one(KeyLine).draw()

    def found_cause(self) -> Finding | None:
        """What was found about the output shown."""
        port_row = self._shown()
        if self._detail is None or port_row is None or port_row[0] is not TensorIO.OUTPUT:
            return None
        ports = (-1, port_row[1].port)
        causes = [one for one in self._detail.findings if one.kind is FindingKind.CAUSE]
        return next((one for one in causes if one.port in ports), None)

    def action_tensor(self, direction: int) -> None:
        """Show the next output or input of the op, or the one before."""
        if self.allowed("tensor.next"):
            self._choose((self._number + direction) % len(self._tensors))

    def action_details(self) -> None:
        """Show the op in the list of ops."""
        if self.current_op():
            self.post_message(OpenOp(self.current_op()))

    def action_save(self) -> None:
        """Write both sides as files."""
        if self.allowed("tensor.save") and self._look is not None:
            self._save(self._look)

    def _save(self, look: TensorLook) -> None:
        values = look.values
        name = f"{self.owner.session.target}-{values.op}-{values.io.value}{values.port}"
        sides = {"device": values.device, "golden": values.golden}
        write = partial(write_arrays, sides, self.owner.settings.export_dir, name)
        ask(
            self,
            "save",
            write,
            lambda paths: self.notify(f"written: {' and '.join(map(str, paths))}"),
        )

    def show_neighbour(self, op: str) -> None:
        """Stay in this view when going along an edge."""
        self.owner.go(replace(super().address(), op=op))

    def why_not(self, key_id: str) -> str | None:
        """Why a key of this view does nothing at present."""
        if key_id == "tensor.next" and len(self._tensors) < 2:
            return "the op has no other tensor"
        if key_id in ("tensor.axes", "tensor.save") and self._look is None:
            return "no values are shown"
        if key_id == "tensor.axes" and self._look is not None and not self._look.picture.axes:
            return "the tensor has one element only"
        return super().why_not(key_id)

    def same_query(self) -> tuple[str, str]:
        """The metrics of the op."""
        return ("op_metrics", self.current_op()) if self.current_op() else ("", "")

    def current_op(self) -> str:
        """The op whose tensors are shown."""
        return "" if self._detail is None else self._detail.row.id

    def current_topo(self) -> int:
        """Its place in execution order."""
        return -1 if self._detail is None else self._detail.row.topo
