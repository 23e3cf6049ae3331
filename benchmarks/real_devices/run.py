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
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "root_cause"))

import asked
import models
import numpy as np
import onnx
from cause_verdicts import verdict
from model_faults import FAULTS, Faulty, ModelFault, faulty_models
from result_tables import key, known, tables
from workplaces import DEVICES, Workplace

RESULTS = models.cache() / "real_devices.jsonl"
VISIBLE = 3.0
"""A fault counts if its error is so many times what the place is off by without it."""
_TRIES = 12
_KEEP_CHANNELS = ("BatchNormalization", "Relu", "Clip", "LeakyRelu", "HardSwish", "Sigmoid")
"""Ops that compilers take into the one before; what they give has its channels."""
_CHANNELS_FIRST = ("Conv", "ConvTranspose", "BatchNormalization")


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
    rng = np.random.default_rng([seed, zlib.crc32(f"{place.name} {kind}".encode())])
    golden = place.runner.run(place.feeds)
    healthy = {
        name: value
        for name, value in place.device(device).items()
        if name in golden and value.shape == golden[name].shape
    }
    made = [name for name in healthy if healthy[name].dtype == np.float32]
    shown = _shown(place.runner.nodes, made)
    model = onnx.load_model(str(place.model_of(device)))
    for tried, fault in enumerate(faulty_models(model, kind, rng, list(shown))):
        if tried == _TRIES:
            break
        path = place.folder / "faulty.onnx"
        onnx.save_model(fault.model, str(path))
        values = place.dump_of(device, path)
        times = visible(place, healthy, values, fault, shown[fault.tensor])
        if times is not None and times >= VISIBLE:
            found = place.compared(device, values)
            at = [
                n for n, each in enumerate(found.get("ranking", ()), 1) if fault.tensor in each[3]
            ]
            return {
                **found,
                "tensor": fault.tensor,
                "type": fault.op_type,
                "words": fault.words,
                "times": times,
                "rank": at[0] if at else None,
                "cause": _judged_cause(
                    fault, found, at, _of_channel(place, fault, values[shown[fault.tensor]]).size
                ),
            }
    return {"tensor": None}


def _shown(nodes: Sequence[onnx.NodeProto], made: Sequence[str]) -> dict[str, str]:
    """By what a node makes the dumped tensor that shows it: itself, one of those *made*, or where
    it was fused the one behind the ops it was fused with."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    shown = {name: name for name in made}
    for node in reversed(nodes):
        behind = readers.get(node.output[0], [])
        if len(behind) == 1 and behind[0].op_type in _KEEP_CHANNELS:
            at = shown.get(behind[0].output[0])
            if at is not None:
                shown.setdefault(node.output[0], at)
    return shown


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


def visible(
    place: Workplace,
    healthy: Mapping[str, Any],
    values: Mapping[str, Any],
    fault: Faulty,
    shown: str,
) -> float | None:
    """How many times what the device is off by at the tensor where the fault is *shown* the fault
    makes it: of its channel, or of all of the output. None where the output cannot be made again,
    and where no output of the model shows the fault."""
    if shown not in values or values[shown].shape != healthy[shown].shape:
        return None
    reference = _reference(place, healthy, shown)
    ends = {end.name for end in place.runner.model.graph.output} & healthy.keys()
    if all(np.array_equal(values[end], healthy[end], equal_nan=True) for end in ends):
        return None
    after, before = values[shown], healthy[shown]
    after, before, reference = (
        _of_channel(place, fault, each) for each in (after, before, reference)
    )
    size = float(np.linalg.norm(reference)) or 1.0
    usual = max(float(np.linalg.norm(before - reference)) / size, 2.0**-22)
    return float(np.linalg.norm(after - before)) / size / usual


def _of_channel(place: Workplace, fault: Faulty, value: Any) -> Any:
    """What a fault hits of the tensor that shows it: its channel, or all of it."""
    if fault.channel is None:
        return value
    node = next(node for node in place.runner.nodes if fault.tensor in node.output)
    return np.take(value, fault.channel, channel_axis(node, place.runner.constants))


def _reference(place: Workplace, healthy: Mapping[str, Any], shown: str) -> Any:
    """The tensor *shown* as the golden ops make it of what the device dumped before."""
    makers = {name: n for n, node in enumerate(place.runner.nodes) for name in node.output}
    known = {**place.runner.constants, **place.feeds, **healthy}
    del known[shown]
    waiting = [shown]
    while waiting:
        number = makers[waiting[-1]]
        missing = [n for n in place.runner.nodes[number].input if n and n not in known]
        if missing:
            waiting.extend(missing)
        else:
            known.update(place.runner._outputs(number, known))
            waiting.pop()
    return known[shown]


def channel_axis(node: onnx.NodeProto, constants: Mapping[str, Any]) -> int:
    """The axis of the output along which the constants of *node* have a number each."""
    if node.op_type in _CHANNELS_FIRST:
        return 1
    known = [constants[name] for name in node.input if name in constants]
    if node.op_type in ("Add", "Mul") and known:
        shape = max((each.shape for each in known), key=lambda shape: max(shape, default=0))
        return int(np.argmax(shape)) - len(shape)
    return -1


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
