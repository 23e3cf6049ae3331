"""The product on one device dump: who is ranked where, and what it cost."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devices import Device
from faults import Array
from measured import write_dump

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.rootcause.options import MethodChoice
from graphstore.contract import RunData
from graphstore.model import Guilt, Verdict
from importers.registry import read_graph


@dataclass(frozen=True)
class Suspect:
    """One ranked op: its suspicion, its guilt, and the tensors its group of ops makes."""

    op: str
    suspicion: float
    guilty: bool
    made: frozenset[str]


@dataclass(frozen=True)
class Analysed:
    """What a run found, in rank order; ``judged`` tensors have a split, ``unknown`` have none."""

    verdict: Verdict
    ranking: tuple[Suspect, ...]
    judged: int
    unknown: int
    cpu: float
    data: RunData

    def rank(self, tensor: str) -> int | None:
        """Where the op that makes *tensor* is ranked, from 1 on."""
        places = (place for place, each in enumerate(self.ranking, 1) if tensor in each.made)
        return next(places, None)

    @property
    def guilty(self) -> int:
        """How many ops are called guilty."""
        return sum(each.guilty for each in self.ranking)


@dataclass(frozen=True)
class Golden:
    """The golden side: the model and the dump of it."""

    model: Path
    dump: Path


def analyse(
    golden: Golden,
    device: Device,
    values: Mapping[str, Array],
    hide: set[str],
    folder: Path,
    method: MethodChoice = MethodChoice.ROOT_CAUSE,
) -> Analysed:
    """Dump *values* as *device* does and compare; the dump is removed again."""
    dump = folder / "device_dump"
    shutil.rmtree(dump, ignore_errors=True)
    request = write_case(golden, device, values, hide, dump, method)
    before = _cpu()
    data = compare(request)
    cost = _cpu() - before
    splits = [item.split for item in data.comparisons if item.split is not None]
    return Analysed(
        data.run.verdict,
        ranking(data),
        sum(not each.failure for each in splits),
        sum(bool(each.failure) for each in splits),
        cost,
        data,
    )


def write_case(
    golden: Golden,
    device: Device,
    values: Mapping[str, Array],
    hide: set[str],
    dump: Path,
    method: MethodChoice = MethodChoice.THRESHOLDS,
) -> CompareRequest:
    """Dump *values* as *device* does into *dump*: what compares them."""
    write_dump(dump, read_graph(device.model), device, values, hide)
    return CompareRequest(golden.model, golden.dump, device.model, dump, method=method)


def ranking(data: RunData) -> tuple[Suspect, ...]:
    """The origins and suspects of a run, in their order."""
    makers = {op.id: [tensor.name for tensor in op.outputs] for op in data.golden.ops}
    devices = {op.id: [tensor.name for tensor in op.outputs] for op in data.device.ops}
    groups: dict[str, set[str]] = {}
    guilt: dict[str, bool] = {}
    for item in data.comparisons:
        if item.split is None:
            continue
        made = groups.setdefault(item.op, set(devices.get(item.op, ())))
        made.update(name for op in item.split.group for name in makers.get(op, ()))
        guilt[item.op] = guilt.get(item.op, False) or item.split.guilt is Guilt.GUILTY
    return tuple(
        Suspect(
            each.op,
            each.suspicion or 0.0,
            guilt.get(each.op, True),
            frozenset(groups.get(each.op, ())),
        )
        for each in (*data.origins, *data.suspects)
    )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
