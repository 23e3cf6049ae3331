"""Reductions of gradients over ranks that no dump has, as ``DistributedDataParallel`` and FSDP do
them below Python: inferred from what they leave behind.

A reduction is inferred where the ranks that hold the same weights give different gradients of a
parameter, and behind the way back read a tensor of its shape that no call made and that these
gradients add up to, or the rank's share of it. Such a tensor is mostly the optimizer's. Where there
are values they decide, and any weighted sum will do, so that a reduction that is done wrong is seen
as one. From statistics alone only a right one is: its mean is that of the gradients.

The call that is put before the first reader has the attribute :data:`INFERRED`. It averages, as
both wrappers do, unless most reductions of the job are sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphstore.errors import ImportFormatError
from graphstore.model import Shape, TensorIO
from importers.msprobe.calls import INFERRED
from importers.msprobe.collectives import KIND, ranks_words
from importers.msprobe.gradients import Gradients, TensorOfCall
from importers.msprobe.importer import RunFiles

Values: TypeAlias = NDArray[np.float64]

_ALIKE = 0.75
"""Share of the weights that are equal on ranks that are copies of each other. Of tensor parallel
ranks fewer are, and a weight that is wrong on one rank does not make it another part."""
_OFF = 1 / 16
"""How far from a sum a reduction in 16 bits may be, as a share of it; anything else is further."""
_LEAST = 8
"""Elements a tensor must have for each free weight of its sum, so that it is no chance."""
_NEAR = 2.0**-8
"""The rounding of a mean that is written in bfloat16."""
_SAMPLE, _KEPT = 4096, 256
"""So many values of a tensor are looked at, and of so many tensors they are kept."""


@dataclass(frozen=True)
class Hidden:
    """An inferred reduction of the gradient of ``parameter`` among ``ranks``: what each gives and
    gets. ``scattered`` if each gets its share only; ``is_sum`` if it gets the sum."""

    parameter: str
    ranks: tuple[int, ...]
    given: Mapping[int, TensorOfCall]
    got: Mapping[int, TensorOfCall]
    scattered: bool
    is_sum: bool


def hidden_reductions(ranks: Mapping[int, Gradients]) -> list[Hidden]:
    """The reductions among the *ranks* of a job."""
    return [
        hidden
        for copies in _copies(ranks)
        if len(copies) > 1
        for hidden in _Matching({rank: ranks[rank] for rank in copies}).run()
    ]


def with_reductions(files: RunFiles, rank: int, found: Sequence[Hidden]) -> RunFiles:
    """The run *files* of *rank* with the calls of the reductions *found*, before their readers."""
    before: dict[str, dict[str, Any]] = {}
    operation = _operation(found)
    for hidden in found:
        if rank in hidden.ranks:
            kind = "reduce_scatter_tensor" if hidden.scattered else "all_reduce"
            name = f"{KIND}.{hidden.parameter}.{kind}.0.forward"
            reader = hidden.got[rank].call
            before.setdefault(reader, {})[name] = _entry(hidden, rank, operation)
    calls: dict[str, Any] = {}
    for name, entry in (files.calls or {}).items():
        calls.update(before.get(name, {}))
        calls[name] = entry
    return replace(files, calls=calls)


def remark(found: Sequence[Hidden]) -> Iterator[str]:
    """That reductions were inferred, as a line for the user."""
    if found:
        count = "1 reduction" if len(found) == 1 else f"{len(found)} reductions"
        was = "was" if len(found) == 1 else "were"
        how = "sum" if _operation(found) == "SUM" else "mean"
        ranks = "; ".join(sorted({ranks_words(hidden.ranks) for hidden in found}))
        yield (
            f"{count} of gradients {was} inferred, which the dump does not have: behind the way "
            f"back {ranks} read the {how} of what they gave"
        )


def _operation(found: Sequence[Hidden]) -> str:
    sums = sum(hidden.is_sum for hidden in found)
    return "SUM" if 2 * sums > len(found) else "AVG"


def _entry(hidden: Hidden, rank: int, operation: str) -> dict[str, Any]:
    place = hidden.given[rank]
    gives = {**place.leaf, "source": place.tensor.name}
    return {
        "input_args": [None, gives] if hidden.scattered else [gives],
        "input_kwargs": {
            "op": {"type": "torch.distributed.ReduceOp", "value": f"RedOpType.{operation}"},
            "group": {"type": "torch.ProcessGroup", "group_ranks": list(hidden.ranks)},
        },
        "output": [hidden.got[rank].leaf],
        INFERRED: True,
    }


def _copies(ranks: Mapping[int, Gradients]) -> list[tuple[int, ...]]:
    """The ranks that hold the same weights, together."""
    groups: list[list[int]] = []
    for rank, own in ranks.items():
        for group in groups:
            if _is_copy(own, ranks[group[0]]):
                group.append(rank)
                break
        else:
            groups.append([rank])
    return [tuple(group) for group in groups]


def _is_copy(one: Gradients, other: Gradients) -> bool:
    if one.weights.keys() != other.weights.keys():
        return False
    same = [key == other.weights[name] for name, key in one.weights.items() if key]
    return sum(same) >= _ALIKE * len(same) and bool(same)


class _Closeness(NamedTuple):
    """That a tensor is a reduction: ``off`` by which share of it, and whether it is the sum."""

    off: float
    is_sum: bool


class _Matching:
    """Which gradient was reduced to what, among *ranks* that are copies of each other."""

    def __init__(self, ranks: Mapping[int, Gradients]) -> None:
        self._ranks = ranks
        self._first = next(iter(ranks.values()))
        self._values = lru_cache(_KEPT)(self._read)

    def run(self) -> Iterator[Hidden]:
        """The reductions, in the order of what reads them."""
        parameters = [name for name in self._first.given if self._is_reducible(name)]
        read = [name for name in self._first.read if self._is_brought(name)]
        found: dict[str, tuple[str, _Closeness]] = {}
        # the right ones first: of few tensors then it has to be seen by values what they are
        for closeness_of in (self._by_means, self._by_values):
            taken = {parameter for parameter, _ in found.values()}
            fits = sorted(
                (fit, name, parameter)
                for name in read
                if name not in found
                for parameter in parameters
                if parameter not in taken
                if (fit := closeness_of(parameter, name)) is not None
            )
            for fit, name, parameter in fits:
                if name not in found and parameter not in taken:
                    found[name] = parameter, fit
                    taken.add(parameter)
        for name in read:
            if name in found:
                yield self._hidden(name, *found[name])

    def _is_reducible(self, parameter: str) -> bool:
        """Whether all ranks have a gradient of *parameter*, in one shape, but not one and the
        same."""
        places = [own.given.get(parameter) for own in self._ranks.values()]
        known = [place.tensor for place in places if place is not None]
        alike = {(tensor.shape, tensor.dtype) for tensor in known}
        is_same = len({tensor.key for tensor in known}) == 1
        return len(known) == len(places) and len(alike) == 1 and not is_same

    def _is_brought(self, name: str) -> bool:
        """Whether all ranks read *name*, and not all of them a gradient of their own."""
        tensors = [own.read[name].tensor for own in self._ranks.values() if name in own.read]
        alike = {(tensor.shape, tensor.dtype) for tensor in tensors}
        own_keys = (
            {place.tensor.key for place in own.given.values()} for own in self._ranks.values()
        )
        is_all = len(tensors) == len(self._ranks) and len(alike) == 1
        return is_all and any(
            tensor.key not in keys for tensor, keys in zip(tensors, own_keys, strict=True)
        )

    def _sides(
        self, parameter: str, name: str
    ) -> tuple[list[TensorOfCall], list[TensorOfCall]] | None:
        """What the ranks give and get, if the one may be reduced to the other by shape."""
        given = [own.given[parameter] for own in self._ranks.values()]
        got = [own.read[name] for own in self._ranks.values()]
        one, other = given[0].tensor, got[0].tensor
        shapes = one.shape, _share(one.shape, len(given))
        return (given, got) if one.dtype is other.dtype and other.shape in shapes else None

    def _by_means(self, parameter: str, name: str) -> _Closeness | None:
        """A right reduction, whose mean is that of the gradients."""
        sides = self._sides(parameter, name)
        if sides is None:
            return None
        given, got = sides
        is_whole = given[0].tensor.shape == got[0].tensor.shape
        if is_whole and len({place.tensor.key for place in got}) > 1:
            return None
        fit = _closeness_of_means(given, got)
        if fit is None or self._values(min(self._ranks), TensorIO.OUTPUT, parameter) is None:
            return fit
        return self._by_values(parameter, name)

    def _by_values(self, parameter: str, name: str) -> _Closeness | None:
        """Any weighted sum of what the ranks give, for each."""
        sides = self._sides(parameter, name)
        if sides is None:
            return None
        given, got = sides
        count = len(given)
        is_share = given[0].tensor.shape != got[0].tensor.shape
        fits: list[_Closeness] = []
        for at, rank in enumerate(self._ranks):
            part = at if is_share else None
            target = self._values(rank, TensorIO.INPUT, name)
            terms = [self._values(of, TensorIO.OUTPUT, parameter, part) for of in self._ranks]
            known = [term for term in terms if term is not None]
            if target is None or len(known) < count or any(t.shape != target.shape for t in known):
                return None
            fits.append(_closeness_of_values(np.stack(known, axis=1), target))
        worst = max(fits)
        return worst if worst.off <= _OFF else None

    def _read(self, rank: int, io: TensorIO, name: str, part: int | None = None) -> Values | None:
        """Some values of the gradient *name*, or of what is read as *name* where *io* says so, the
        same of each rank; of its *part* only where that is given. None without values."""
        own = self._ranks[rank]
        place = (own.read if io is TensorIO.INPUT else own.given)[name]
        return _some_values(own.path, place, part, len(self._ranks))

    def _hidden(self, name: str, parameter: str, fit: _Closeness) -> Hidden:
        given = {rank: own.given[parameter] for rank, own in self._ranks.items()}
        got = {rank: own.read[name] for rank, own in self._ranks.items()}
        one, other = self._first.given[parameter].tensor, self._first.read[name].tensor
        is_share = one.shape != other.shape
        return Hidden(parameter, tuple(self._ranks), given, got, is_share, fit.is_sum)


def _share(shape: Shape | None, count: int) -> Shape | None:
    """The *shape* of a rank's share of a tensor of that shape; None where it is no equal one."""
    if not shape or not shape[0] or shape[0] % count:
        return None
    return (shape[0] // count, *shape[1:])


def _closeness_of_means(
    given: Sequence[TensorOfCall], got: Sequence[TensorOfCall]
) -> _Closeness | None:
    extents = [place.tensor.extent for place in (*given, *got)]
    known = [extent for extent in extents if extent is not None]
    if len(known) < len(extents):
        return None
    ours, theirs = known[: len(given)], known[len(given) :]
    mean = sum(extent.mean for extent in theirs) / len(theirs)
    # no mean is longer than what it is of; a sum of what is not alike hardly is as short
    norms = [sum(extent.norm or 0.0 for extent in side) / len(side) for side in (ours, theirs)]
    is_sum = len(theirs) == len(given) and norms[1] > norms[0] * (1 + _NEAR)
    share = 1.0 if is_sum else 1.0 / len(given)
    # means are rounded to the type of their tensor, and so was each value before
    spread = sum(max(abs(extent.maximum), abs(extent.minimum)) for extent in ours)
    sizes = sum(abs(extent.mean) for extent in ours)
    near = (_NEAR * sizes + _NEAR**2 * spread) * share + _NEAR * abs(mean)
    off = abs(mean - sum(extent.mean for extent in ours) * share)
    return _Closeness(off / near if near else 0.0, is_sum) if off <= near else None


def _closeness_of_values(given: Values, got: Values) -> _Closeness:
    """How far *got* is from the weighted sum of the columns of *given* that is next to it."""
    count = given.shape[1]
    if len(got) < _LEAST * count:  # few values would be near to some sum
        total = given.sum(axis=1)
        fits = [
            _Closeness(_distance(got, total * share), share == 1.0) for share in (1.0, 1.0 / count)
        ]
        return min(fits)
    weights, *_ = np.linalg.lstsq(given, got, rcond=None)
    return _Closeness(_distance(got, given @ weights), bool(weights.mean() > 1 / math.sqrt(count)))


def _distance(values: Values, others: Values) -> float:
    size = float(np.linalg.norm(values))
    off = float(np.linalg.norm(values - others)) / size if size else math.inf
    return off if math.isfinite(off) else math.inf


def _some_values(path: Path, place: TensorOfCall, part: int | None, parts: int) -> Values | None:
    from importers.dumps.index import Gathering
    from importers.dumps.msprobe.index import gather_tensors
    from importers.dumps.read import read_array  # readers of dumps load protobuf

    key = place.call, place.io, place.port
    gathered = Gathering()
    gather_tensors(gathered, path, [(key, place.leaf)])
    ref = gathered.tensors.get(key)
    if ref is None or ref.statistics is not None:
        return None
    try:
        values = read_array(ref)
    except ImportFormatError:  # damage is told where the dump is read
        return None
    if part is not None:
        length = len(values) // parts
        values = values[part * length : (part + 1) * length]
    flat = values.reshape(-1)
    step = max(1, len(flat) // max(_SAMPLE, 2 * _LEAST * parts))
    return flat[::step].astype(np.float64)
