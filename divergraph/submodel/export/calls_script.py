"""Recorded PyTorch calls as a program of their own: ``part.py``, which calls PyTorch itself.

Each call reads what it read in the job, so the program shows a fault of one device on that device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from divergraph.execute.translate.torch.alone import GIVES, GRADIENT, MADE
from divergraph.execute.translate.torch.catalogue import ROWS
from divergraph.execute.translate.torch.second_engine import call_arguments
from divergraph.submodel.selection import Selection
from graphstore.model import ModelGraph, Op
from importers.msprobe.calls import BY_ARGUMENT
from importers.msprobe.graph import ARGUMENTS

SCRIPT = "part.py"
_BACK = ".backward"
_NAME = re.compile(r"[A-Za-z_]\w*")
_ELEMENT_TYPE = re.compile(r"torch\.[a-z]\w*")
_ATTRIBUTES = ("T", "mT", "H", "mH", "real", "imag")
_BEGIN = '''\
"""Run these calls again on what they read, and print how far each output is from the recorded one.

    python part.py                     golden's inputs, golden's outputs
    python part.py --device            the device's inputs, the device's outputs
    python part.py --on npu            on another device (cuda, npu)
    python part.py --dtype bfloat16    with real inputs in another type than golden's

Needs torch and numpy.
"""

import json
import sys
from math import inf, nan
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

HERE = Path(__file__).resolve().parent
SIDE = "device" if "--device" in sys.argv else "golden"
PLACE = sys.argv[sys.argv.index("--on") + 1] if "--on" in sys.argv else "cpu"
if PLACE.startswith("npu"):
    import torch_npu
DTYPE = sys.argv[sys.argv.index("--dtype") + 1] if "--dtype" in sys.argv else ""
MANIFEST = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
FILES = {each["name"]: each for part in ("inputs", "outputs") for each in MANIFEST[part]}


def read(name, track=False):
    """An input as it was recorded, in its own element type or that which was asked for."""
    value = torch.from_numpy(np.load(HERE / FILES[name][SIDE]))
    is_real = value.is_floating_point()
    value = value.to(PLACE, getattr(torch, DTYPE if DTYPE and is_real else FILES[name]["dtype"]))
    return value.requires_grad_(track and value.is_floating_point())


def leaves(made):
    if isinstance(made, torch.Tensor):
        return [made]
    return [leaf for each in made for leaf in leaves(each)]


def gradients(made, taken, places, came_in):
    """The gradients that a node of autograd, or the call as a whole, gives for what came in."""
    made = leaves(made)[: len(came_in)]
    edges = made[0].grad_fn.next_functions
    wanted = [taken[each] if isinstance(each, str) else edges[each][0].variable for each in places]
    return torch.autograd.grad(made, wanted, [g.to(m) for g, m in zip(came_in, made)])


def check(names, made):
    for name, value in zip(names, leaves(made)):
        file = FILES[name][SIDE]
        if file is None:
            print(f"{name}: not recorded")
            continue
        wanted = np.load(HERE / file).astype(np.float64)
        found = value.detach().double().cpu().numpy()
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))  # infinities of a mask, too
        apart = np.linalg.norm((found - wanted)[~same])
        size = np.linalg.norm(wanted[np.isfinite(wanted)]) or 1.0
        print(f"{name}: relative error {apart / size:.3g}")

'''


class _Code(str):
    """Code that stands for a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def write_script(graph: ModelGraph, part: Selection, folder: Path) -> tuple[str, ...]:
    """Write :data:`SCRIPT` for the calls of *part*, which stand alone in *graph*; the names of
    those that it leaves out, as nothing says how they were called (modules)."""
    ops = graph.op_index()
    blocks, left_out = [], []
    for name in part.ops:
        lines = list(_lines(ops[name]))
        blocks.append("\n".join(lines))
        if not lines:
            left_out.append(name)
    text = _BEGIN + "".join(f"\n{block}\n" for block in blocks if block)
    (folder / SCRIPT).write_text(text, encoding="utf-8")
    return tuple(left_out)


def _lines(op: Op) -> Iterator[str]:
    """The lines that call *op* and compare what it gives."""
    kind, function = op.attrs.get("kind"), op.type.removesuffix(_BACK)
    is_back = op.type.endswith(_BACK)
    # A dump is a stranger's file: only what rows compute is called, nothing that loads or saves.
    if kind not in ("Functional", "Torch", "Tensor") or op.type not in ROWS:
        return
    places = op.attrs.get(ARGUMENTS, ())
    assert isinstance(places, tuple)
    names = {
        str(place): ref.tensor
        for place, ref in zip(places, op.inputs, strict=True)
        if ref is not None
    }
    taken = {place: name for place, name in names.items() if not place.startswith((GRADIENT, MADE))}
    code = {place: _Code(f"x[{place!r}]") for place in taken}
    args, named = call_arguments(op, code, _plain)
    if not all(map(_NAME.fullmatch, named)):
        return
    yield f"# {op.name!r}"  # a name of a file, which may hold anything
    yield "x = {"
    track = ", track=True" if is_back else ""
    yield from (f"    {place!r}: read({name!r}{track})," for place, name in taken.items())
    yield "}"
    yield f"made = {_call(str(kind), function, args, named)}"
    outputs = [tensor.name for tensor in op.outputs]
    if is_back:
        came_in = [name for place, name in names.items() if place.startswith(GRADIENT)]
        gives = op.attrs.get(GIVES, ())
        assert isinstance(gives, tuple)
        wanted = [_gradient_of(str(place)) for place in gives]
        reads = ", ".join(f"read({name!r})" for name in came_in)
        yield f"made = gradients(made, x, {wanted!r}, [{reads}])"
    elif function.endswith("_") or function == "__setitem__":
        yield f"made = {args[0]!r} if made is None else made"
    yield f"check({outputs!r}, made)"


def _gradient_of(place: str) -> int | str:
    """A number in the node of autograd, or the place of an argument."""
    return place.removeprefix(BY_ARGUMENT) if place.startswith(BY_ARGUMENT) else int(place or 0)


def _call(kind: str, function: str, args: list[Any], named: dict[str, Any]) -> str:
    if kind == "Tensor" and function in _ATTRIBUTES:
        return f"{args[0]!r}.{function}"
    spaces = {"Functional": "F", "Torch": "torch", "Tensor": "torch.Tensor"}
    given = [repr(each) for each in args] + [f"{key}={value!r}" for key, value in named.items()]
    return f"{spaces[kind]}.{function}({', '.join(given)})"


def _plain(value: Any) -> Any:
    """A value as the code has it: element types are names of PyTorch's."""
    is_type = isinstance(value, str) and _ELEMENT_TYPE.fullmatch(value)
    return _Code(value) if is_type else value
