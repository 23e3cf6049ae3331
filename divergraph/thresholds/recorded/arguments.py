"""Arguments of calls beside those of the golden call: their values, and which are tensors."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from divergraph.text.words import counted
from graphstore.contract import RunData
from graphstore.model import AttrValue, Op
from importers.msprobe.calls_between import is_size
from importers.msprobe.graph import ARGUMENTS

_ARGUMENT = "input."
_OF_THE_MACHINE = re.compile(r"\.(device|group|generator|async_op|out|layout|memory_format)(\.|$)")
_NO_VALUE = re.compile(r"(torch\.|mindspore\.)?(b?float|complex)\d*|.*\b(npu|cuda|cpu|gpu)(:\d+)?$")
"""Element types of real numbers and places of tensors: another precision is no other argument."""
_ROUNDED = 2.0**-8
"""Numbers nearer than this may be what a tensor of 16 bits held."""
_OF_TYPES: list[Any] = [
    ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
]
_LIMITS = [
    {float(getattr(limits, name)) for limits in _OF_TYPES} for name in ("min", "max", "eps", "tiny")
]
"""What models take from ``torch.finfo`` of a tensor: its type's limit is the same argument in
another precision, as what masks are filled with."""


def unlike_arguments(device: Op, golden: Op, *, with_sizes: bool = False) -> str:
    """``eps 0.01, golden 1e-06``: the arguments that differ, empty if none does.

    *with_sizes*: those of an exchange, too, that say how many rows go to which rank. Where experts
    are chosen these follow from the data, so they are no cause behind an error.
    """
    ours, theirs = _arguments(device), _arguments(golden)
    return "; ".join(
        f"{_name(key)} {_text(ours.get(key))}, golden {_text(theirs.get(key))}"
        for key in sorted({*ours, *theirs})
        if not _same(ours.get(key), theirs.get(key)) and (with_sizes or not is_size(device, key))
    )


def arguments_remark(data: RunData) -> Iterator[str]:
    """That calls have other arguments than golden's, where no cause says so: their error is within
    rounding, as of a weight decay that weights of 16 bits do not feel, or behind another's."""
    ops, originals = data.device.op_index(), data.golden.op_index()
    calls: dict[tuple[str, str], list[str]] = {}
    for link in data.links:
        op, twin = ops.get(link.device), originals.get(link.original)
        if op is None or twin is None or op.attrs.get("kind") in ("Module", "Cell"):
            continue  # what a module does otherwise the calls inside show
        if difference := unlike_arguments(op, twin):
            calls.setdefault((op.type, difference), []).append(op.name)
    sentences = [finding.sentence for finding in data.findings]
    for (_, difference), names in calls.items():
        if not any(difference in sentence for sentence in sentences):
            more = f", and at {counted(len(names) - 1, 'more call')}" if names[1:] else ""
            where = f"{names[0]}{more}"
            yield f"another argument, which makes no error of its own: {difference}, of {where}"


def _arguments(op: Op) -> dict[str, AttrValue]:
    tensors = op.attrs.get(ARGUMENTS, ()) if op.attrs.get("direction") == "forward" else ()
    places = map(str, tensors if isinstance(tensors, tuple) else ())
    # A list is of another length where parameters without a gradient are left out, for one.
    alone = (place for place in places if "." not in place)
    return {f"{_ARGUMENT}{place}": "a tensor" for place in alone} | {
        key: value
        for key, value in op.attrs.items()
        if key.startswith(_ARGUMENT) and not _OF_THE_MACHINE.search(key)
    }


def _same(one: AttrValue | None, other: AttrValue | None) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, str) and isinstance(other, str):
        return one == other or bool(_NO_VALUE.fullmatch(one) and _NO_VALUE.fullmatch(other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return _same_number(float(one), float(other))
    return one == other


def _same_number(one: float, other: float) -> bool:
    if one == other or (math.isnan(one) and math.isnan(other)):
        return True
    if any(one in limits and other in limits for limits in _LIMITS):
        return True
    lacking = 1.0 - one, 1.0 - other
    if min(lacking) > 0.0 and max(lacking) < _ROUNDED:
        # Decays (``1 - lr * weight_decay``), which no tensor of 16 bits holds: .9999 is not .99999.
        return max(lacking) < 2 * min(lacking)
    return abs(one - other) <= _ROUNDED * min(abs(one), abs(other))


def _name(key: str) -> str:
    """``eps`` of a keyword, ``argument 1 is`` of a place."""
    name = key.removeprefix(_ARGUMENT)
    return f"argument {name} is" if name.replace(".", "").isdecimal() else name


def _text(value: AttrValue | None) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
