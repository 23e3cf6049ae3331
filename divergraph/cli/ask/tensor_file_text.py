"""The tensors of one file as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divergraph.cli.element_text import exact_number
from divergraph.cli.say import say, say_note
from divergraph.text.numbers import short
from divergraph.text.words import counted, shape_text

if TYPE_CHECKING:
    from divergraph.api.answers import FileTensor, TensorFile


def show_file(tensor_file: TensorFile) -> None:
    """Each tensor of the file; on standard error what was written and what could not be read."""
    for tensor in tensor_file.tensors:
        _show(tensor)
    say(f"path   {tensor_file.path}")
    for path in tensor_file.written:
        say(f"text   {path}")
    for name, why in tensor_file.unread:
        say_note(f"{name}: {why}")


def _show(tensor: FileTensor) -> None:
    statistics = tensor.statistics
    layout = f" {tensor.layout}" if tensor.layout else ""
    say(tensor.name, bold=True)
    say(f"  shape  {shape_text(tensor.shape)}{layout}")
    say(f"  dtype  {tensor.dtype}")
    for name, value in (
        ("max", statistics.maximum),
        ("min", statistics.minimum),
        ("mean", statistics.mean),
    ):
        say(f"  {name:6} {short(value, '.6g')}")
    if statistics.nans or statistics.infinities:
        say(f"  not finite: {statistics.nans or 0} NaN, {statistics.infinities or 0} infinite")
    if tensor.zeros:
        say(f"  zeros  {tensor.zeros} of {counted(statistics.count or 0, 'value')}")
    say(f"  first  {' '.join(map(exact_number, tensor.first))}")
    if tensor.worst:
        say("  worst: NaN and Inf, then the largest")
    width = max((len(str(list(element.index))) for element in tensor.worst), default=0)
    for worst in tensor.worst:
        say(f"    {list(worst.index)!s:{width}}  {exact_number(worst.value)}")
