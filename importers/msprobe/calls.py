"""The calls of a recorded run and the tensors they took and gave.

Names are as msprobe writes them: ``Functional.conv2d.0.forward`` for a function,
``Module.conv1.Conv2d.forward.0`` for a module (``Cell`` in MindSpore), with ``backward`` and
``parameters_grad`` for the way back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from graphstore.model import AttrValue, DType, Shape
from importers.dumps.msprobe.entries import PARAMETERS_GRAD, gradients_in_order
from importers.kept import MAX_ITEMS, kept_text
from importers.number_formats import CHECKSUMS, named_dtype

Key: TypeAlias = tuple[str, ...]
"""What tells one tensor's values from another's: type, shape and checksum or statistics."""

BY_ARGUMENT = "by_"
"""What begins the place of a gradient that is the call's own though the call is several nodes of
autograd, as ``divergraph.torch`` writes it; the rest is the place of the argument."""

INFERRED = "inferred"
"""What says of a call, as an attribute, that no dump has it (``hidden_reductions.py``)."""

TAKES_GRADIENT = "takes_gradient"
"""The attribute of a way there with the places of the tensors that take gradients, such as
``input.1`` and ``output.0``."""

_DEBUG = "debug"
"""How the names of variables end that a user saved."""

_WAYS = ("forward", "backward", PARAMETERS_GRAD)
_STATISTICS = ("Max", "Min", "Mean", "Norm")
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class CallName:
    """A call's name taken apart; ``way`` is empty where the name says none."""

    full: str
    kind: str
    type: str
    way: str

    @classmethod
    def of(cls, full: str) -> CallName:
        """The parts of *full*; a name of no known form is its own type."""
        parts = full.split(".")
        kind = parts[0]
        if len(parts) >= 4 and parts[-1] in _WAYS and parts[-2].isdecimal():
            return cls(full, kind, parts[-3], parts[-1])
        if parts[-1].isdecimal():
            parts.pop()
        if len(parts) >= 3 and parts[-1] in _WAYS:
            return cls(full, kind, parts[-2], parts[-1])
        return cls(full, kind, full, "")

    @property
    def backward(self) -> str:
        """The way back of a way there."""
        head, _, tail = self.full.rpartition("forward")
        return f"{head}backward{tail}"

    @property
    def before(self) -> tuple[str, ...]:
        """The calls this one belongs to that come before it: the way there of a way back."""
        if not self.way:
            return ()
        head, _, tail = self.full.rpartition(self.way)
        return tuple(f"{head}{way}{tail}" for way in _WAYS[: _WAYS.index(self.way)])


class Extent(NamedTuple):
    """The statistics of a tensor; ``norm`` is the Euclidean one, None where it was not dumped."""

    maximum: float
    minimum: float
    mean: float
    norm: float | None


@dataclass(frozen=True, slots=True)
class CallTensor:
    """A tensor of a call: its place in the call, and what is said of it.

    ``key`` is empty where the statistics cannot tell it from others; ``source`` is the output that
    it is, where the dump says so.
    """

    name: str
    dtype: DType | None
    shape: Shape | None
    key: Key = ()
    extent: Extent | None = None
    source: str = ""
    takes_gradient: bool = False

    @property
    def count(self) -> int:
        """The number of its values; 0 where the shape is not known."""
        return 0 if self.shape is None else math.prod(dim or 0 for dim in self.shape)

    @property
    def flat(self) -> Key:
        """The key of the same values in whatever shape; reshaping is often not recorded."""
        if not self.key or self.shape is None:
            return ()
        return (self.key[0], str(self.count), *self.key[2:])


@dataclass(frozen=True, slots=True)
class Call:
    """One entry of the dump, in its tensors; what is no tensor is in ``attrs``."""

    name: CallName
    inputs: tuple[CallTensor, ...] = ()
    outputs: tuple[CallTensor, ...] = ()
    parameters: tuple[CallTensor, ...] = ()
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)


def call_of(full: str, entry: Any) -> Call:
    """The call *full* whose entry in the dump is *entry*.

    Raises:
        ValueError: the entry is not built as such entries are.
    """
    name = CallName.of(full)
    if full.endswith(f".{_DEBUG}") and isinstance(entry, dict | list):
        told: dict[str, AttrValue] = {"kind": _DEBUG}
        return Call(name, outputs=tuple(_tensors(entry, f"{full}.output", told)), attrs=told)
    if not isinstance(entry, dict):
        raise ValueError(f"the entry of {full} is not an object")  # noqa: TRY004 - file, not call
    attrs: dict[str, AttrValue] = {"kind": name.kind}
    if name.way:
        attrs["direction"] = name.way
    if name.way == PARAMETERS_GRAD:
        gradients = gradients_in_order(full, entry)
        return Call(name, outputs=tuple(_tensors(gradients, full, attrs)), attrs=attrs)
    inputs = [
        tensor
        for part in ("input_args", "input_kwargs", "input")
        for tensor in _tensors(entry.get(part), f"{full}.input", attrs)
    ]
    outputs = _tensors(entry.get("output"), f"{full}.output", attrs)
    parameters = _tensors(entry.get("parameters"), f"{full}.parameters", attrs)
    tensors = [tensor for tensor in (*inputs, *outputs) if tensor.takes_gradient]
    if name.way == "forward" and tensors:
        places = (tensor.name[len(full) + 1 :] for tensor in tensors[:MAX_ITEMS])
        attrs[TAKES_GRADIENT] = tuple(places)
    for said in ("is_recompute", INFERRED):
        if isinstance(entry.get(said), bool):
            attrs[said] = entry[said]
    return Call(name, tuple(inputs), tuple(outputs), tuple(parameters), attrs)


def _tensors(part: Any, name: str, attrs: dict[str, AttrValue]) -> list[CallTensor]:
    """The tensors in *part* in order; the other values go to *attrs*."""
    found: list[CallTensor] = []
    before = name.removesuffix(name.rpartition(".")[2])
    for path, value in _leaves(part, name):
        if isinstance(value, dict) and "dtype" in value and isinstance(value.get("shape"), list):
            found.append(_tensor(path, value))
        else:
            said = value
            if isinstance(value, dict):  # of a group of processes the ranks
                said = value.get("value", value.get("group_ranks"))
            kept = _kept(said)
            if kept is not None and len(attrs) < MAX_ITEMS:
                attrs[path.removeprefix(before)] = kept
    return found


def _leaves(part: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Values by place; an object with a ``type`` is one value, others hold values."""
    stack = [(name, part)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, list):
            stack.extend((f"{path}.{at}", value[at]) for at in reversed(range(len(value))))
        elif isinstance(value, dict) and "type" not in value:
            stack.extend((f"{path}.{key}", value[key]) for key in reversed(value))
        elif value is not None:
            yield path, value


def _kept(value: Any) -> AttrValue | None:
    if isinstance(value, str):
        return kept_text(value)
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST else str(value)
    if isinstance(value, list) and len(value) <= MAX_ITEMS:
        plain = [each for each in map(_kept, value) if each is not None]
        deep = any(isinstance(each, tuple) for each in plain)
        return tuple(plain) if len(plain) == len(value) and not deep else None
    return None


def _tensor(name: str, said: Mapping[str, Any]) -> CallTensor:
    word = str(said["dtype"]).rpartition(".")[2].lower()
    dims = said["shape"]
    shape: Shape | None = None
    if all(type(dim) is int and 0 <= dim <= _LARGEST for dim in dims):
        shape = tuple(dims)
    source = said.get("source")
    known = source if isinstance(source, str) else ""
    key = _key(word, shape, said)
    takes = said.get("requires_grad") is True
    return CallTensor(name, named_dtype(word), shape, key, _extent(said), known, takes)


def _extent(said: Mapping[str, Any]) -> Extent | None:
    """The statistics as numbers; None where an extreme was not dumped."""
    known = {name: said.get(name) for name in _STATISTICS}
    most, least, mean, norm = (
        float(value) if isinstance(value, int | float) else None for value in known.values()
    )
    if most is None or least is None or math.isnan(most) or math.isnan(least):
        return None
    return Extent(most, least, math.nan if mean is None else mean, norm)


def _key(dtype: str, shape: Shape | None, said: Mapping[str, Any]) -> Key:
    if shape is None or not _is_telling(shape, said):
        return ()
    about = (dtype, ",".join(map(str, shape)))
    for name in CHECKSUMS:
        if isinstance(said.get(name), str):
            return (*about, name, said[name])
    if not all(type(said.get(name)) in (int, float) for name in _STATISTICS):
        return ()
    return (*about, *(repr(said[name]) for name in _STATISTICS))


def _is_telling(shape: Shape, said: Mapping[str, Any]) -> bool:
    """Whether equal statistics mean equal values; of constants and small numbers they do not."""
    largest, smallest = said.get("Max"), said.get("Min")
    if not isinstance(largest, int | float) or not isinstance(smallest, int | float):
        return any(isinstance(said.get(name), str) for name in CHECKSUMS) and 0 not in shape
    if isinstance(largest, bool) or 0 in shape or not math.isfinite(largest - smallest):
        return False
    if largest == smallest:
        return float(largest) != int(largest)  # a loss, say, but no counter, zero or one
    return not (isinstance(largest, int) and largest - smallest <= 1)
