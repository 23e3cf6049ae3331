"""What each number of calibration decides: halved and doubled, which cells of the table change.

    python benchmarks/root_cause/sweep.py
    python benchmarks/root_cause/sweep.py --models cls --numbers PART_UNSURE,PEAK_UNSURE --list

A case is a device without or with one fault. Dumps are made once; then every number is tried.
Counted are cases whose faulty op is no longer, or now, ranked first, is called guilty, or is a
false alarm; *other* are those in which only some op changes between suspect and not.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import numpy as np
from analysed import ranking, write_case
from cases import Healthy, visible_fault
from devices import DEVICES
from faults import FaultKind
from measured import hidden
from run import Workplace, workplace

from divergraph.comparison.compare_run import compare
from divergraph.execute.contract import Executor
from divergraph.execute.installed import open_executor
from divergraph.jobs.progress import NO_PROGRESS
from divergraph.rootcause import calibration
from divergraph.rootcause.core import split_run
from divergraph.rootcause.devices.constants import DeviceConstants
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.run import judged
from divergraph.rootcause.run_inputs import RunInputs
from divergraph.rootcause.stored import sources_of
from graphstore.contract import RunData
from graphstore.errors import DivergraphError
from graphstore.model import Verdict

_FACTORS = (0.5, 2.0)


class Recording(ModuleType):
    """The numbers, and which of them were read: what a case never asks for cannot change it."""

    read: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> object:
        Recording.read.add(name)
        return super().__getattribute__(name)


@dataclass(frozen=True)
class Prepared:
    """A run whose dumps lie on disk, and the tensor whose op is faulty, "" for none."""

    name: str
    data: RunData
    inputs: RunInputs
    executor: Executor
    faulty: str

    def seen(self) -> Seen:
        """What the analysis says of it with the numbers as they are now."""
        options = RootCauseOptions()
        splits = split_run(self.inputs, self.executor, options, observer=lambda _: None)
        found = judged(self.data, splits, options)
        ranked = ranking(found)
        return Seen(
            bool(ranked) and self.faulty in ranked[0].made,
            found.run.verdict is Verdict.DIVERGED,
            frozenset(each.op for each in found.origins),
            frozenset(each.op for each in found.suspects),
        )


@dataclass(frozen=True)
class Seen:
    """Whether the faulty op is first, the verdict, the guilty and the suspect ops."""

    first: bool
    diverged: bool
    guilty: frozenset[str]
    suspects: frozenset[str]

    def change(self, now: Seen, *, healthy: bool) -> str:
        """What is otherwise *now*, "" if nothing is."""
        if healthy and now.guilty != self.guilty:
            return "false alarms"
        if now.first != self.first:
            return "first"
        if now.diverged != self.diverged:
            return "called guilty"
        return "" if now == self else "other"


def prepared(
    place: Workplace, device: str, kinds: list[str], stack: ExitStack
) -> Iterator[Prepared]:
    """The cases of a device: healthy with all and half of its tensors, and one of each kind."""
    made = DEVICES[device](place.golden.model, place.values, place.folder)
    healthy = Healthy.of(made, place.feeds, place.values)
    wanted = [("full", "", healthy.values, ""), ("rand50", "", healthy.values, "")]
    for kind in kinds:
        case = visible_fault(healthy, FaultKind(kind), 1)
        if case is not None:
            wanted.append(("full", kind, case.values, case.tensor))
    for number, (variant, kind, values, faulty) in enumerate(wanted):
        hide = hidden(variant, healthy.device.runner, np.random.default_rng(1))
        dump = place.folder / f"{device}{number}"
        request = write_case(place.golden, made, values, hide, dump)
        data = compare(request)
        sources = sources_of(data, NO_PROGRESS)
        executor = stack.enter_context(closing(open_executor(sources.golden_path, data.golden)))
        constants = stack.enter_context(DeviceConstants(sources.device_path, data.device))
        inputs = RunInputs(data, sources, data.comparisons, constants.value)
        name = f"{place.name} {device} {variant} {kind or 'healthy'}"
        yield Prepared(name, data, inputs, executor, faulty)


def main() -> None:
    """Print for each number what changes with half and twice of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="seizure,silero,names")
    parser.add_argument("--devices", default="fp16x,fp32x,int8,ort-fp16,ort-qdq")
    parser.add_argument("--kinds", default="gain 0.3 %,clip,weight noise")
    parser.add_argument("--numbers", default="")
    parser.add_argument("--list", action="store_true", help="name the cases that change")
    given = parser.parse_args()
    names = [name for name in vars(calibration) if name.isupper()]
    names = given.numbers.split(",") if given.numbers else names
    with ExitStack() as stack, np.errstate(all="ignore"):
        cases: list[Prepared] = []
        for model in given.models.split(","):
            place = workplace(model, Path(stack.enter_context(tempfile.TemporaryDirectory())))
            for device in given.devices.split(","):
                try:
                    cases += prepared(place, device, given.kinds.split(","), stack)
                except DivergraphError as error:
                    print(f"{model} {device}: refused: {error}")
        calibration.__class__ = Recording
        before, read = [], []
        for each in cases:
            Recording.read = set()
            before.append(each.seen())
            read.append(frozenset(Recording.read))
        print(f"{len(cases)} cases, {sum(not each.faulty for each in cases)} of them healthy")
        for name in names:
            for factor in _FACTORS:
                asked = [n for n, names_read in enumerate(read) if name in names_read]
                _try(name, factor, [(cases[n], before[n]) for n in asked], listed=given.list)


def _try(name: str, factor: float, cases: list[tuple[Prepared, Seen]], *, listed: bool) -> None:
    usual = getattr(calibration, name)
    setattr(calibration, name, type(usual)(usual * factor))
    changes: dict[str, str] = {}
    try:
        for case, was in cases:
            if what := was.change(case.seen(), healthy=not case.faulty):
                changes[case.name] = what
    except Exception as error:  # noqa: BLE001 - limits may exclude each other
        changes["all"] = f"refused: {error}"
    finally:
        setattr(calibration, name, usual)
    counted = ", ".join(f"{count} {what}" for what, count in Counter(changes.values()).items())
    print(f"{name} x {factor:g}: {counted or 'nothing'} ({len(cases)} ask for it)", flush=True)
    for case_name, what in changes.items() if listed else ():
        print(f"    {case_name}: {what}")


if __name__ == "__main__":
    main()
