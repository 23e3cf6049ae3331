"""Healthy and faulty runs of real runtimes: false alarms, and how often the fault comes first.

    python benchmarks/real_devices/run.py --healthy
    python benchmarks/real_devices/run.py --models cls,rec --devices ov-bf16 --seeds 1,2
    python benchmarks/real_devices/run.py --table --write
    python benchmarks/real_devices/run.py --table --write --section mnn --results mnn.jsonl

The golden side is ONNX Runtime in float32, the device a runtime nobody here wrote. Needs the extra
``divergraph[real-devices]``. Each case is a line of the results file, so an interrupted run goes on
where it stopped; dumps are made in a temporary folder and removed again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "root_cause"))

import asked
import models
from cause_verdicts import verdict
from model_faults import FAULTS, Faulty, ModelFault
from result_tables import key, known, tables
from visible_faults import of_channel, visible_fault
from workplaces import DEVICES, Workplace

RESULTS = models.cache() / "real_devices.jsonl"


def main() -> None:
    """Run what is asked for and not there yet, then print the tables."""
    parser = asked.parser(__doc__, (*models.MODELS, *models.LATER), RESULTS)
    asked.names(parser, "--devices", DEVICES)
    asked.names(parser, "--kinds", FAULTS)
    parser.add_argument("--healthy", action="store_true", help="no faults")
    parser.add_argument("--section", default="real devices", help="of README.md, for --write")
    given = parser.parse_args()
    for name in [] if given.table else given.models:
        with tempfile.TemporaryDirectory() as folder:
            place = Workplace.of(name, Path(folder))
            for line in lines(place, given):
                asked.keep(given.results, line)
    print(tables(given.results))
    if given.write:
        markers = (f"<!-- {given.section}: {end} -->" for end in ("start", "end"))
        asked.into_readme(*markers, tables(given.results))


def lines(place: Workplace, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The results of one model that are not in the results file yet."""
    done = known(given.results)
    for device in given.devices:
        line: dict[str, Any] = {"model": place.name, "device": device, "kind": "", "seed": 0}
        try:
            able = place.can_run(device)
        except ValueError as reason:
            print(reason, file=sys.stderr)
            continue
        if key(line) not in done and able:
            found = place.compared(device, place.device(device))
            yield _said({**line, **found, "golden_cpu": place.golden_cpu})
        for seed in [] if given.healthy else given.seeds:
            for kind in map(ModelFault, given.kinds):
                line = {"model": place.name, "device": device, "kind": kind.value, "seed": seed}
                if key(line) not in done:
                    yield _said({**line, **_faulty(place, device, kind, seed)})


def _faulty(place: Workplace, device: str, kind: ModelFault, seed: int) -> dict[str, Any]:
    """The line of a visible fault; ``tensor`` is None where none of some nodes shows one."""
    made = visible_fault(place, device, kind, seed)
    if made is None:
        return {"tensor": None}
    fault, found = made.fault, place.compared(device, made.values)
    at = [n for n, each in enumerate(found.get("ranking", ()), 1) if fault.tensor in each[3]]
    values = of_channel(place, fault, made.values[made.shown]).size
    return {
        **found,
        "tensor": fault.tensor,
        "type": fault.op_type,
        "words": fault.words,
        "times": made.times,
        "rank": at[0] if at else None,
        "cause": _judged_cause(fault, found, at, values),
    }


def _judged_cause(
    fault: Faulty, found: Mapping[str, Any], at: list[int], values: int
) -> list[Any] | None:
    """The verdict on the cause of the faulty op, whose fault hits so many *values*, with its label
    and confidence."""
    if not at:
        return None
    cause = found["causes"].get(found["ranking"][at[0] - 1][0])
    told = verdict(fault.kind, fault.channel, cause, values)
    return [told, *(cause[:2] if cause else ("nothing", 0.0))]


def _said(line: dict[str, Any]) -> dict[str, Any]:
    """*line*, shown in short."""
    names = (
        "model",
        "device",
        "kind",
        "seed",
        "verdict",
        "rank",
        "tensor",
        "words",
        "times",
        "error",
        "cpu",
        "peak_mib",
        "judged",
        "unknown",
        "arithmetic",
        "cause",
    )
    short = {name: line[name] for name in names if line.get(name) not in (None, "")}
    top = [(each[0], each[1], each[2], each[4]) for each in line.get("ranking", ())[:3]]
    guilty = sum(each[2] for each in line.get("ranking", ()))
    print(json.dumps(short), f"{guilty}/{len(line.get('ranking', ()))}", top, file=sys.stderr)
    return line


if __name__ == "__main__":
    main()
