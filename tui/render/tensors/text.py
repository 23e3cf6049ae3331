"""The text about one tensor of both sides: its numbers, and its errors by decade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from divergraph.text.numbers import small_number
from divergraph.text.printable import printable
from divergraph.text.words import shape_text
from graphstore.model import Comparison, DType, Level, Metric
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import fit
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell

if TYPE_CHECKING:
    from divergraph.api.answers import Element, ErrorPicture
    from divergraph.ask.answers import TensorRow

_LABEL, _SIDE = 12, 13
_METRICS = (
    Metric.COSINE_SIMILARITY,
    Metric.MAX_ABSOLUTE_ERROR,
    Metric.MEAN_ABSOLUTE_ERROR,
    Metric.RELATIVE_EUCLIDEAN_DISTANCE,
)
_COUNT = 11


def numbers(tensor: TensorRow, glyphs: Glyphs, width: int) -> Content:
    """Both sides of a tensor in numbers, as the run keeps them: no dump is read for them."""
    compared = tensor.comparison
    lines = [_line("", "device", "golden", theme.HEADING)]
    lines.append(_line("type", *_types(tensor, compared)))
    shape = tensor.shape if compared is None or compared.shape is None else compared.shape
    lines.append(_line("shape", shape_text(shape), ""))
    if tensor.layout:
        lines.append(_line("layout", printable(tensor.layout), ""))
    if compared is None or compared.metrics is None:
        why = "not compared" if compared is None else wording.why_not_compared(compared)
        text = Content.styled(printable(why), theme.QUIET).wrap(max(20, width))
        return Content("\n").join([*lines, Content(""), *text])
    lines += _figures(compared)
    lines.append(Content(""))
    values = compared.metrics
    for metric in _METRICS:
        style = theme.LEVEL_STYLES[Level.FAIL] if metric in compared.failed else ""
        name = metric.words
        lines.append(
            Content.assemble(
                (fit(name, 2 * _LABEL + 4, glyphs.ellipsis), theme.HEADING),
                (wording.metric_text(values, metric), style),
            )
        )
    lines += _bad(compared, values.elements)
    return Content("\n").join(line.truncate(width) for line in lines)


def _types(tensor: TensorRow, compared: Comparison | None) -> tuple[str, str]:
    device: DType | None = tensor.dtype
    golden: DType | None = None
    if compared is not None:
        device, golden = compared.device_dtype or device, compared.golden_dtype
    return wording.dtype_text(device), wording.dtype_text(golden) if golden else ""


def _figures(compared: Comparison) -> list[Content]:
    figures = compared.figures
    if figures is None:
        return []
    device, golden = figures.device, figures.golden
    pairs = {
        "lowest": (device.low, golden.low),
        "highest": (device.high, golden.high),
        "mean": (device.mean, golden.mean),
        "std": (device.std, golden.std),
    }
    lines = [_line(name, *map(small_number, both)) for name, both in pairs.items()]
    counts = {
        "zeros": (device.zeros, golden.zeros),
        "NaN": (device.nans, golden.nans),
        "Inf": (device.infinities, golden.infinities),
    }
    for name, both in counts.items():
        broken = name != "zeros" and both[0] != both[1]
        style = theme.LEVEL_STYLES[Level.FAIL] if broken else ""
        lines.append(_line(name, wording.thousands(both[0]), wording.thousands(both[1]), style))
    return lines


def _bad(compared: Comparison, elements: int) -> list[Content]:
    figures = compared.figures
    if figures is None or not elements:
        return []
    share = f"{wording.thousands(figures.bad)} of {wording.thousands(elements)}"
    lines = [Content.assemble((fit("differ", _LABEL, ""), theme.HEADING), share)]
    if figures.where_bad:
        where = printable(figures.where_bad)
        lines.append(Content.assemble((fit("in", _LABEL, ""), theme.HEADING), where))
    return lines


def _line(label: str, device: str, golden: str, style: str = "") -> Content:
    return Content.assemble(
        (fit(label, _LABEL, ""), theme.HEADING),
        (fit(device, _SIDE, "~") + " ", style),
        (golden, style),
    )


def decades(picture: ErrorPicture, glyphs: Glyphs, width: int) -> Content:
    """How many elements are off by how much, and whether that is of two kinds."""
    histogram = picture.inspection.histogram
    counts = dict(histogram.decades)
    highest = max([*counts.values(), 1])
    lines = []
    if histogram.nonfinite:
        text = f"{wording.thousands(histogram.nonfinite)} NaN or Inf against another value"
        lines.append(Content.styled(text, theme.LEVEL_STYLES[Level.FAIL]))
    if counts:
        lines += [
            _bar_line(f"1e{decade:+d}", counts.get(decade, 0), highest, glyphs, width)
            for decade in range(max(counts), min(counts) - 1, -1)
        ]
    equal = wording.count(histogram.equal, "element")
    lines.append(Content.styled(f"{equal} equal", theme.QUIET))
    if picture.is_apart:
        text = "two kinds of errors, with a gap between: a fault in a part, no drift"
        lines += Content.styled(text, theme.LINKED).wrap(max(20, width))
    return Content("\n").join(lines)


def _bar_line(label: str, count: int, highest: int, glyphs: Glyphs, width: int) -> Content:
    room = max(1, width - 6 - _COUNT)
    length = count / highest * room
    full = int(length)
    bar = glyphs.bars[-1] * full
    if count and not full:
        bar = glyphs.bar(length)
    return Content.assemble(
        (fit(label, 6, ""), theme.QUIET),
        fit(bar, room, ""),
        fit(wording.thousands(count) if count else "", _COUNT, "", "right"),
    )


_PLACE = 18
"""The most cells an index takes by itself."""


class WorstElements:
    """The worst elements as the rows of a list."""

    def __init__(self, elements: Sequence[Element]) -> None:
        self.elements = elements
        self._places = [f"[{','.join(map(str, element.index))}]" for element in elements]
        longest = max(map(len, self._places), default=0)
        self.columns: Sequence[ListColumn] = (
            ListColumn("index", "index", min(longest, _PLACE), longest, sortable=False),
            ListColumn("device", "device", 8, 12, "right", sortable=False),
            ListColumn("golden", "golden", 8, 12, "right", sortable=False),
            ListColumn("error", "abs. error", 10, 10, "right", priority=1, sortable=False),
            ListColumn("relative", "relative", 9, 9, "right", priority=2, sortable=False),
        )

    def __len__(self) -> int:
        return len(self.elements)

    def row(self, index: int) -> Sequence[Cell]:
        """Place, both values, and the errors of one element."""
        one = self.elements[index]
        relative = "" if one.relative is None else small_number(one.relative)
        return [
            Cell(self._places[index]),
            Cell(_value(one.device)),
            Cell(_value(one.golden)),
            Cell(small_number(one.absolute)),
            Cell(relative, "quiet"),
        ]


def _value(value: float) -> str:
    return str(value) if isinstance(value, int) else format(value, ".6g")
