"""Calls that have no row, or one that refuses them, run by PyTorch itself where it is installed.

A dump is a stranger's file, so only functions that PyTorch lists as working on tensors are called:
none that loads, saves or reaches outside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

import numpy as np

from divergraph.execute.contract import Array
from divergraph.execute.translate.contract import NotTranslatedError, OpRows, RowEntry
from divergraph.execute.translate.torch.alone import GIVES, GRADIENT, MADE
from divergraph.execute.translate.torch.indexing import index_part
from graphstore.errors import ExecutionError
from graphstore.model import Op
from importers.msprobe.calls import BY_ARGUMENT
from importers.msprobe.graph import ARGUMENTS

_BACK = ".backward"
_DRAWN = re.compile("dropout|rand|normal_|bernoulli|multinomial|gumbel|poisson|uniform|rrelu")
"""Of functions that draw random numbers: another run draws others."""
_ATTRIBUTES = ("T", "mT", "H", "mH", "real", "imag")


def with_torch(rows: OpRows, ops: Sequence[Op]) -> OpRows:
    """*rows*, and one for each type of *ops* that has none but that PyTorch can run: it refuses, so
    that :func:`run_by_torch` is asked. *rows* itself where PyTorch is not installed."""
    if find_spec("torch") is None:
        return rows
    entries = dict(rows.entries)
    for op in ops:
        if op.type not in entries and _function(op) is not None:
            entries[op.type] = RowEntry(_refuse, "PyTorch itself")
    return OpRows(rows.framework, entries)


def _refuse(piece: Any) -> Any:
    raise NotTranslatedError(f"{piece.op.type} is run by PyTorch")


def run_by_torch(op: Op, values: Mapping[str, Array]) -> list[Array] | None:
    """What *op*, a call that stands alone, gives of *values*, by the names of its inputs; computed
    in the types they have. None where PyTorch is not installed or has no such function.

    Raises:
        ExecutionError: PyTorch refuses the call.
    """
    if find_spec("torch") is None or (function := _function(op)) is None:
        return None
    import torch

    places = op.attrs.get(ARGUMENTS, ())
    assert isinstance(places, tuple)
    tensors = {
        str(place): torch.tensor(np.ascontiguousarray(values[ref.tensor]))
        for place, ref in zip(places, op.inputs, strict=True)
        if ref is not None and ref.tensor in values
    }
    try:
        if op.type.endswith(_BACK):
            made = _gradients(op, function, tensors)
        else:
            made = _outputs(op, function, tensors)
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ExecutionError(f"PyTorch refuses {op.name}: {error}") from error
    if len(made) != len(op.outputs):
        raise ExecutionError(f"PyTorch gives {len(made)} tensors for {op.name}")
    return [each.detach().resolve_conj().numpy() for each in made]


@cache
def _functions() -> Mapping[str, Any]:
    """The functions that take tensors, by kind and name: ``Functional.linear``."""
    import torch
    from torch.overrides import get_overridable_functions

    kinds = {
        "Functional": torch.nn.functional,
        "Tensor": torch.Tensor,
        "Torch": torch,
    }
    listed = get_overridable_functions()
    return {
        f"{kind}.{function.__name__}": function
        for kind, space in kinds.items()
        for function in listed.get(space, ())
        if hasattr(function, "__name__")
    }


def _function(op: Op) -> Any:
    kind, name = op.attrs.get("kind"), op.type.removesuffix(_BACK)
    if _DRAWN.search(name) or op.attrs.get("input.dropout_p"):
        return None
    if kind == "Tensor" and name in _ATTRIBUTES:
        return attrgetter(name)
    is_back_in_place = op.type.endswith(_BACK) and name.endswith("_")
    if kind == "Torch" and name.startswith("_foreach_"):  # of lists of tensors; none is listed
        import torch

        return getattr(torch, name, None)
    return None if is_back_in_place else _functions().get(f"{kind}.{name}")


def call_arguments(
    op: Op, tensors: Mapping[str, Any], plain: Callable[[Any], Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Positional arguments and keywords of a recorded call: its *tensors* by place, other values
    as *plain* has them. What was None is not in a dump: it stands where nothing else does."""
    tree: dict[str, Any] = {}
    others = {
        key.removeprefix("input."): value
        for key, value in op.attrs.items()
        if key.startswith("input.")
    }
    values = {key: plain(value) for key, value in others.items()}
    for place, value in {**values, **tensors}.items():
        if place.startswith((GRADIENT, MADE)):
            continue
        *parents, last = place.split(".")
        level = tree
        for part in parents:
            level = level.setdefault(part, {})
        level[last] = value
    numbers = {int(key): _listed(value) for key, value in tree.items() if key.isdecimal()}
    positional = [numbers.get(at) for at in range(max(numbers, default=-1) + 1)]
    named = {key: _listed(value) for key, value in tree.items() if not key.isdecimal()}
    if op.type.startswith(("__getitem__", "__setitem__")):
        positional[1] = _index(positional[1])
    return positional, named


def _index(value: Any) -> Any:
    """What stood between brackets, of which a dump has what is no tensor as text."""
    parts = value.split(", ") if isinstance(value, str) else value
    if not isinstance(parts, list):
        return value
    return tuple(index_part(part) if isinstance(part, str) else part for part in parts)


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return list(value) if isinstance(value, tuple) else value
    count = max((int(key) for key in value), default=-1) + 1
    return [_listed(value.get(str(at))) for at in range(count)]


def _plain(value: Any) -> Any:
    import torch

    word = value.removeprefix("torch.") if isinstance(value, str) else ""
    if not word or word == value:
        return value
    known = getattr(torch, word, value)
    is_named = isinstance(known, torch.dtype | torch.memory_format | torch.layout)
    return known if is_named else value


def _outputs(op: Op, function: Any, tensors: Mapping[str, Any]) -> list[Any]:
    from divergraph.torch.step_files import leaves

    args, named = call_arguments(op, tensors, _plain)
    made = leaves(function(*args, **named))
    return made or leaves(args[0])  # in place, as `x[0] = 1` is


def _gradients(op: Op, function: Any, tensors: Mapping[str, Any]) -> list[Any]:
    import torch

    taken = {
        place: value.requires_grad_(value.is_floating_point())
        for place, value in tensors.items()
        if not place.startswith((GRADIENT, MADE))
    }
    outputs = _outputs(op, function, taken)
    pairs = [
        (made, tensors[f"{GRADIENT}{at}"].to(made.dtype))
        for at, made in enumerate(outputs)
        if f"{GRADIENT}{at}" in tensors
    ]
    if not pairs or pairs[0][0].grad_fn is None:
        raise ExecutionError(f"{op.name} has no gradient that came in")
    places = op.attrs.get(GIVES, ())
    assert isinstance(places, tuple)
    edges = pairs[0][0].grad_fn.next_functions
    wanted = [
        taken[place.removeprefix(BY_ARGUMENT)]
        if place.startswith(BY_ARGUMENT)
        else edges[int(place or 0)][0].variable
        for place in map(str, places)
    ]
    made, gradients = zip(*pairs, strict=True)
    return list(torch.autograd.grad(made, wanted, gradients))
