"""The panes about the chosen part: what goes in and out, what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from divergraph.text.printable import printable
from divergraph.text.words import shape_text
from graphstore.model import OpState
from tui.part_chooser import Answer
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import cut_to, fit, width_of

if TYPE_CHECKING:
    from divergraph.api.answers import BoundaryTensor, Refusal

SHOWN = 200
"""Tensors of the boundary listed; parts with more are unusual."""

_CHECKS = (
    ("every end is reached from a start", {"no_way", "turned_round"}),
    ("no body, loop or fused op is cut", {"body_cut", "loop_cut", "fused_cut"}),
    ("all shapes and types are known", {"no_form"}),
    ("every input was dumped", {"no_data"}),
)
_FIRST = {"no_way", "turned_round", "body_cut"}
"""Rules that are looked at before there is a part."""

HOW = (
    "b marks a start, B an end; several of each are allowed.",
    "The part is what lies on paths from a start to an end.",
    "Ops between the marks in execution order, but on no",
    "such path, stay outside.",
)


def size_text(nbytes: int) -> str:
    """A size with three digits: ``1.23 MB``."""
    size, unit = float(nbytes), "bytes"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{nbytes} bytes" if unit == "bytes" else f"{size:.3g} {unit}"


def boundary(answer: Answer, glyphs: Glyphs, width: int) -> Content:
    """Inputs, outputs and weights of the part, and whether its data are there."""
    part = answer.selection
    if part is None or not part.chosen:
        if answer.trouble or part is not None:
            return Content.styled("there is no part between these marks", theme.QUIET)
        return Content("\n").join(Content.styled(line, theme.QUIET) for line in HOW)
    nbytes = [tensor.nbytes for tensor in part.inputs]
    total = sum(size for size in nbytes if size is not None)
    more = "at least " if None in nbytes else ""
    lines = [_head(f"inputs ({len(part.inputs)})", f"{more}{size_text(total)}" if total else "")]
    looked = answer.dumps_known
    lines += _tensors(part.inputs, glyphs, width, going_in=True, looked=looked)
    lines.append(_head(f"outputs ({len(part.outputs)})", ""))
    lines += _tensors(part.outputs, glyphs, width, going_in=False, looked=looked)
    names = ", ".join(map(printable, part.weights))
    head = f"weights ({len(part.weights)})"
    lines.append(_head(head, cut_to(names, max(8, width - width_of(head) - 2), glyphs.ellipsis)))
    if part.constants:
        lines.append(_head("constants", f"{wording.count(len(part.constants), 'op')} go along"))
    return Content("\n").join(line.truncate(width) for line in lines)


def _head(label: str, rest: str) -> Content:
    return Content.assemble((label, theme.HEADING), (f"  {rest}" if rest else "", theme.QUIET))


def _tensors(
    tensors: tuple[BoundaryTensor, ...], glyphs: Glyphs, width: int, *, going_in: bool, looked: bool
) -> list[Content]:
    lines = []
    for number, tensor in enumerate(tensors[:SHOWN]):
        dtype = None if tensor.dtype is None else tensor.dtype.value
        form = f"{wording.dtype_text(dtype)} {shape_text(tensor.shape)}"
        if tensor.layout:
            form += f" {printable(tensor.layout)}"
        name = fit(printable(tensor.name), max(8, width - 5 - width_of(form)), glyphs.ellipsis,
                   "left", "left")  # fmt: skip
        lines.append(Content.assemble((f" {number:>2} ", theme.QUIET), name, f" {form}"))
        missing = going_in and looked and not tensor.dumped
        about = _about(tensor, glyphs, going_in=going_in, missing=missing)
        if about:
            room = max(8, width - 6)
            label = cut_to(printable(about), room, glyphs.ellipsis)
            style = theme.STATE_STYLES[OpState.INHERITED] if missing else theme.QUIET
            lines.append(Content.styled(f"    {label}", style))
    if len(tensors) > SHOWN:
        lines.append(Content.styled(f"    {len(tensors) - SHOWN} more", theme.QUIET))
    return lines


def _about(tensor: BoundaryTensor, glyphs: Glyphs, *, going_in: bool, missing: bool) -> str:
    """Where the tensor comes from or goes to, and what is special about it."""
    words = []
    if going_in:
        if missing:
            words.append("not dumped")
        if tensor.side:
            words.append("from the side")
        if tensor.frozen:
            words.append("only tells shapes: a constant")
        if tensor.ref is None:
            words.append("input of the model")
        elif tensor.ref.op not in tensor.name:
            words.append(f"{glyphs.from_} {tensor.ref.op}")
    users = ", ".join(tensor.users[:2]) + (" ..." if len(tensor.users) > 2 else "")
    if users:
        words.append(f"{glyphs.feeds} {users}")
    elif not going_in:
        words.append("used by no other op")
    return f" {glyphs.separator} ".join(words)


def checks(answer: Answer, glyphs: Glyphs, width: int, *, dumps: str) -> Content:
    """Which rules the part keeps, the refusals, the nearest that may be cut.

    *dumps* says why data cannot be checked; empty if they can.
    """
    lines: list[Content] = []
    if answer.trouble:
        lines += _wrapped(f"{glyphs.bad} {answer.trouble}", width, theme.ERROR)
    elif answer.selection is None:
        if answer.marks:
            missing = "a start with b" if not answer.marks.starts else "an end with B"
            lines.append(Content(f"mark {missing}"))
    else:
        lines += _rules(answer, glyphs, width, dumps=dumps)
    if dumps:
        lines += _wrapped(f"{glyphs.drifting} {dumps}", width, theme.STATE_STYLES[OpState.DRIFTING])
    return Content("\n").join(lines)


def _rules(answer: Answer, glyphs: Glyphs, width: int, *, dumps: str) -> list[Content]:
    assert answer.selection is not None
    broken = {one.rule.value for one in answer.refused}
    stopped = bool(broken & _FIRST) and not answer.selection.chosen
    lines: list[Content] = []
    for words, rules in _CHECKS:
        refusals = [one for one in answer.refused if one.rule.value in rules]
        for one in refusals:
            lines += _wrapped(f"{glyphs.bad} {one.sentence}", width, theme.ERROR)
            if one is answer.offer:
                lines += _wrapped(f"  a: {_offer(one)}", width, theme.LINKED)
        unknown = stopped or ("no_data" in rules and bool(dumps))
        if not refusals:
            mark, style = (glyphs.dash, theme.QUIET) if unknown else (glyphs.good, "")
            lines.append(Content.styled(f"{mark} {words}", style).truncate(width))
    for note in answer.selection.notes:
        lines += _wrapped(f"{glyphs.drifting} {note}", width, theme.QUIET)
    return lines


def _offer(one: Refusal) -> str:
    starts = f"start at {', '.join(one.starts[:3])}" if one.starts else ""
    ends = f"end at {', '.join(one.ends[:3])}" if one.ends else ""
    return " and ".join(text for text in (starts, ends) if text)


def status(answer: Answer, glyphs: Glyphs, width: int) -> Content:
    """The part in one line."""
    part = answer.selection
    if part is None or not part.chosen:
        why = answer.trouble or (part.refused[0].sentence if part and part.refused else "")
        if why:
            return Content.styled(f" {glyphs.bad} {printable(why)}", theme.ERROR).truncate(width)
        return Content.styled(" nothing is chosen yet", theme.QUIET)
    ops = wording.count(len(part.chosen), "op")
    if not answer.alone:
        ops = (
            f"{wording.count(len(part.chosen), 'original op')}, "
            f"{wording.thousands(answer.device_ops)} on the device"
        )
    counts = [
        ops,
        wording.count(len(part.inputs), "input"),
        wording.count(len(part.outputs), "output"),
        wording.count(len(part.weights), "weight"),
    ]
    text = f" {glyphs.separator} ".join(counts)
    if answer.refused:
        end = (f"{glyphs.bad} refused: {printable(part.refused[0].sentence)}", theme.ERROR)
    else:
        end = (f"{glyphs.good} may be cut out", theme.STATE_STYLES[OpState.CLEAN])
    return Content.assemble((f" {text}   ", theme.QUIET), end).truncate(width)


def _wrapped(text: str, width: int, style: str) -> list[Content]:
    import textwrap

    lines = textwrap.wrap(printable(text), max(20, width), subsequent_indent="  ")
    return [Content.styled(line, style) for line in lines]
