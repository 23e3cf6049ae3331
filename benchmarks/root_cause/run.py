"""How often the root-cause analysis names the op that got a fault, and what the dumps alone tell.

    python benchmarks/root_cause/run.py --quick
    python benchmarks/root_cause/run.py --models cls,rec --devices fp16x --seeds 1,2
    python benchmarks/root_cause/run.py --table            # prints and writes the table

Each (model, device, kind of fault, seed) is a line of the results file, so an interrupted
run goes on where it stopped. The product reads the model and both dumps from disk as it
does for a user.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import asked
import baselines
import models
import numpy as np
from analysed import Analysed, Golden, analyse
from cases import Case, Healthy, visible_fault
from devices import DEVICES, HALF, SINGLE
from faults import FaultKind
from measured import VARIANTS, hidden
from op_runner import OpRunner
from reported_faults import ReportedFault
from table import write_table

from divergraph.execute.installed import open_executor
from divergraph.files.npy_file import write_npy
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause.options import MethodChoice
from graphstore.errors import DivergraphError
from importers.registry import read_graph

RESULTS = models.cache() / "root_cause.jsonl"
REPORTED = models.cache() / "root_cause_reported.jsonl"
_QUICK = ("cls", "magika", "silero")
_USELESS = 0.5
"""A device whose healthy output is so far off is no place to look for visible faults."""


@dataclass(frozen=True)
class Workplace:
    """A golden model with its values, and a folder for what its devices write."""

    name: str
    golden: Golden
    runner: OpRunner
    feeds: Mapping[str, Any]
    values: Mapping[str, Any]
    folder: Path


def main() -> None:
    """Run what is asked for and not there yet, then print the table."""
    parser = asked.parser(__doc__, models.MODELS, None)
    asked.names(parser, "--devices", DEVICES)
    asked.names(parser, "--variants", VARIANTS)
    asked.names(parser, "--kinds", FaultKind)
    parser.add_argument("--reported", action="store_true", help="the faults of real reports")
    parser.add_argument("--quick", action="store_true", help="three small models")
    parser.add_argument("--clean", action="store_true", help="no faults: false alarms only")
    given = parser.parse_args()
    given.results = given.results or (REPORTED if given.reported else RESULTS)
    if not given.table:
        for name in _QUICK if given.quick else given.models:
            with tempfile.TemporaryDirectory() as folder:
                place = workplace(name, Path(folder))
                for device in given.devices:
                    for line in results(place, device, given):
                        asked.keep(given.results, line)
    write_table(given.results, into_readme=given.write, reported=given.reported)


def workplace(name: str, folder: Path) -> Workplace:
    """The golden model called *name*, run and dumped by the product."""
    model, feeds = models.prepared(name), models.feeds(name)
    files = {}
    for number, (feed, value) in enumerate(feeds.items()):
        files[feed] = folder / f"feed{number}.npy"
        write_npy(files[feed], value)
    capture(CaptureRequest(model, folder / "golden", inputs=files))
    runner = OpRunner.of(model)
    return Workplace(
        name, Golden(model, folder / "golden"), runner, feeds, runner.run(feeds), folder
    )


def results(place: Workplace, device: str, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The lines that are not in the results file yet."""
    done = _known(given.results)
    variants = given.variants
    wanted = [
        (kind, seed)
        for seed in given.seeds
        for kind in ([] if given.clean else _kinds(given))
        if any((place.name, device, variant, kind.value, seed) not in done for variant in variants)
    ]
    clean = [each for each in variants if (place.name, device, each, "", 0) not in done]
    if not wanted and not clean:
        return
    try:
        made = DEVICES[device](place.golden.model, place.values, place.folder)
        healthy = Healthy.of(made, place.feeds, place.values)
    except DivergraphError as error:
        print(f"{place.name} {device}: refused: {error}", file=sys.stderr)
        return
    for variant in clean:
        yield _clean_line(place, healthy, variant)
    if healthy.error > _USELESS:
        print(f"{place.name} {device}: healthy error {healthy.error:.2g}", file=sys.stderr)
        return
    for kind, seed in wanted:
        case = visible_fault(healthy, kind, seed)
        for variant in variants:
            if (place.name, device, variant, kind.value, seed) not in done:
                yield _fault_line(place, healthy, case, variant, kind, seed)


def _kinds(given: argparse.Namespace) -> list[StrEnum]:
    if given.reported:
        return list(ReportedFault)
    return [FaultKind(kind) for kind in given.kinds]


def _known(path: Path) -> set[tuple[str, str, str, str, int]]:
    if not path.exists():
        return set()
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {(x["model"], x["device"], x["variant"], x["kind"], x["seed"]) for x in lines}


def _clean_line(place: Workplace, healthy: Healthy, variant: str) -> dict[str, Any]:
    """False alarms and time of a device without fault."""
    hide = hidden(variant, healthy.device.runner, np.random.default_rng(0))
    device = healthy.device
    plain = analyse(
        place.golden, device, healthy.values, hide, place.folder, MethodChoice.THRESHOLDS
    )
    found = analyse(place.golden, device, healthy.values, hide, place.folder)
    golden_run = _golden_run(place)
    line = _line(place, healthy, variant, "", 0)
    line |= _found(found) | {
        "clean": _finite(healthy.error),
        "suspects": len(found.ranking) - found.guilty,
        "top": [[each.op, _finite(each.suspicion)] for each in found.ranking[:5]],
        "ops": len([node for node in place.runner.nodes if node.op_type != "Constant"]),
        "extra_cpu": found.cpu - plain.cpu,
        "golden_cpu": golden_run,
    }
    print(json.dumps(line), file=sys.stderr, flush=True)
    return line


def _golden_run(place: Workplace) -> float:
    """CPU seconds of opening the golden model and making all its tensors once."""
    before = time.process_time()
    executor = open_executor(place.golden.model, read_graph(place.golden.model))
    for _name, _value in executor.run(place.feeds):
        pass
    executor.close()
    return time.process_time() - before


def _fault_line(
    place: Workplace,
    healthy: Healthy,
    case: Case | None,
    variant: str,
    kind: StrEnum,
    seed: int,
) -> dict[str, Any]:
    line = _line(place, healthy, variant, kind.value, seed)
    if case is None:
        return line | {"visible": False}
    hide = hidden(variant, healthy.device.runner, np.random.default_rng(seed))
    found = analyse(place.golden, healthy.device, case.values, hide, place.folder)
    rank = found.rank(case.tensor)
    line |= _found(found) | {
        "visible": True,
        "tensor": case.tensor,
        "type": case.op_type,
        "clean": _finite(case.clean),
        "error": _finite(case.error),
        "rank": rank,
        "suspicion": None if rank is None else _finite(found.ranking[rank - 1].suspicion),
        "size": len(found.ranking[0].made) if found.ranking else 0,
        "first": found.ranking[0].op if found.ranking else "",
        "baselines": _baselines(place, healthy, case, hide),
    }
    if rank != 1:
        print(json.dumps(line), file=sys.stderr, flush=True)
    return line


def _line(place: Workplace, healthy: Healthy, variant: str, kind: str, seed: int) -> dict[str, Any]:
    return {
        "model": place.name,
        "device": healthy.device.name,
        "variant": variant,
        "kind": kind,
        "seed": seed,
    }


def _found(found: Analysed) -> dict[str, Any]:
    return {
        "verdict": found.verdict.value,
        "guilty": found.guilty,
        "judged": found.judged,
        "unknown": found.unknown,
        "cpu": found.cpu,
    }


def _baselines(
    place: Workplace, healthy: Healthy, case: Case, hide: set[str]
) -> dict[str, int | None]:
    runner, name = place.runner, healthy.device.name
    made = {tensor for node in runner.nodes for tensor in node.output}
    measured = {
        tensor
        for tensor in made - set(runner.constants) - hide
        if tensor in case.values and place.values[tensor].dtype.kind == "f"
    }
    groups = baselines.groups(runner, measured, set(place.feeds))
    half = "16" in name
    limit = None if name in ("int8", "ort-qdq") else 20 * (HALF if half else SINGLE)
    found = baselines.rankings(
        groups, case.values, place.values, HALF if limit is None or half else SINGLE, limit
    )
    return {
        method: next((n for n, each in enumerate(ranked, 1) if case.tensor in each.made), None)
        for method, ranked in found.items()
    }


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"


if __name__ == "__main__":
    main()
