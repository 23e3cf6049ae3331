"""The tensors of one file as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divergraph.cli.element_text import exact_number
from divergraph.cli.say import say, say_note
from divergraph.text.numbers import short
from divergraph.text.words import counted, shape_text

if TYPE_CHECKING:
    from divergraph.api.answers import FileTensor, TensorFile


def show_file(found: TensorFile) -> None:
    """Each tensor of the file; on standard error what was written and what could not be read."""
    for tensor in found.tensors:
        _show(tensor)
    say(f"path   {found.path}")
    for path in found.written:
        say(f"text   {path}")
    for name, why in found.unread:
        say_note(f"{name}: {why}")


def _show(tensor: FileTensor) -> None:
    known = tensor.statistics
    layout = f" {tensor.layout}" if tensor.layout else ""
    say(tensor.name, bold=True)
    say(f"  shape  {shape_text(tensor.shape)}{layout}")
    say(f"  dtype  {tensor.dtype}")
    for name, value in (("max", known.maximum), ("min", known.minimum), ("mean", known.mean)):
        say(f"  {name:6} {short(value, '.6g')}")
    if known.nans or known.infinities:
        say(f"  not finite: {known.nans or 0} NaN, {known.infinities or 0} infinite")
    if tensor.zeros:
        say(f"  zeros  {tensor.zeros} of {counted(known.count or 0, 'value')}")
    say(f"  first  {' '.join(map(exact_number, tensor.first))}")
    if tensor.worst:
        say("  worst: NaN and Inf, then the largest")
    width = max((len(str(list(each.index))) for each in tensor.worst), default=0)
    for each in tensor.worst:
        say(f"    {list(each.index)!s:{width}}  {exact_number(each.value)}")
