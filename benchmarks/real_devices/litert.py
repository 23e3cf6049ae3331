"""Healthy and faulty runs of LiteRT (TensorFlow Lite), by XNNPACK, its own and reference kernels.

    python benchmarks/real_devices/litert.py --healthy --results litert.jsonl
    python benchmarks/real_devices/litert.py --kinds dynamic --seeds 1,2 --results litert.jsonl
    python benchmarks/real_devices/litert.py --table --write --results litert.jsonl

The golden side is ONNX Runtime in float32 on what tf2onnx makes of the network, the device LiteRT
on what TensorFlow's converter makes of it, ``float``, ``dynamic`` or ``int8``. Faults are put into
the ``.tflite`` file that runs; the one compared with knows nothing of them. Needs the extra
``divergraph[real-devices]``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "root_cause"))

import asked
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from analysis import analysed, captured
from cause_verdicts import verdict, verdict_in_a_loop
from litert_faults import FAULTS, FaultyLite, faulty_files
from litert_models import KINDS, NETWORKS, made
from model_faults import ModelFault
from result_tables import key, known, tables

KERNELS = {
    "xnnpack": OpResolverType.AUTO,
    "builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "reference": OpResolverType.BUILTIN_REF,
}
START, END = "<!-- litert: start -->", "<!-- litert: end -->"
VISIBLE = 3.0
"""A fault counts if its error is so many times what the place is off by without it."""
_ROUNDING = 2.0**-22
_TRIES = 12


@dataclass
class Place:
    """A network in all its forms in *folder*, with its golden dump and an input."""

    name: str
    folder: Path
    golden: Path
    value: np.ndarray
    golden_cpu: float
    healthy: dict[tuple[str, str], dict[str, np.ndarray]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, folder: Path) -> Place:
        """The network called *name*, made, run and dumped."""
        golden, value = made(name, folder)
        feed = folder / "feed.npy"
        np.save(feed, value)
        cpu = captured(golden, {"": feed}, folder / "golden")
        return cls(name, folder, golden, value, cpu)

    def model(self, kind: str) -> Path:
        """The file of a kind; there is none if the converter could not make it."""
        return self.golden.with_suffix(f".{kind}.tflite")

    def run(self, kind: str, kernels: str) -> dict[str, np.ndarray]:
        """The tensors of a healthy run by name, in real numbers."""
        if (kind, kernels) not in self.healthy:
            content = self.model(kind).read_bytes()
            self.healthy[kind, kernels] = self.dump(content, kernels, self.folder / "healthy")
        return self.healthy[kind, kernels]

    def dump(self, content: bytes, kernels: str, folder: Path) -> dict[str, np.ndarray]:
        """The tensors of a run of a model's bytes by name, in real numbers; written into *folder*
        by number, as the runtime has them, with the names in mapping.csv."""
        folder.mkdir(exist_ok=True)
        interpreter = Interpreter(
            model_content=content,
            experimental_op_resolver_type=KERNELS[kernels],
            experimental_preserve_all_tensors=True,
        )
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], self.value)
        interpreter.invoke()
        names = []
        values: dict[str, np.ndarray] = {}
        for tensor in interpreter.get_tensor_details():
            number = tensor["index"]
            try:
                found = interpreter.get_tensor(number)
            except ValueError:  # it was not computed, or taken into another op
                continue
            np.save(folder / f"{number}.npy", found)
            names.append(f"{number},{tensor['name']}\n")
            scale, zero = tensor["quantization"]
            values[tensor["name"]] = (found.astype(np.float32) - zero) * scale if scale else found
        (folder / "mapping.csv").write_text("".join(names), encoding="utf-8")
        return values

    def compared(self, kind: str, dumped: Path) -> dict[str, Any]:
        """What the product says of a run of a kind that was *dumped*."""
        found = analysed([self.golden, self.folder / "golden", self.model(kind), dumped])
        return {**found, "golden_cpu": self.golden_cpu}


def visible(place: Place, kind: str, fault: FaultyLite, values: Mapping[str, Any]) -> float | None:
    """How many times what the device is off by at the fault's place the fault makes it: of its
    channel, or of all of the output. What it is off by is its distance from the float model, so
    errors from before it count as well. None where that has no such tensor."""
    name = fault.tensor
    healthy, exact = place.run(kind, "reference"), place.run("float", "reference")
    shapes = {each[name].shape if name in each else None for each in (healthy, exact, values)}
    if None in shapes or len(shapes) > 1:
        return None
    after, before, reference = (_hit(fault, each) for each in (values, healthy, exact))
    size = float(np.linalg.norm(reference)) or 1.0
    usual = max(float(np.linalg.norm(before - reference)) / size, _ROUNDING)
    return float(np.linalg.norm(after - before)) / size / usual


def _hit(fault: FaultyLite, values: Mapping[str, Any]) -> Any:
    """What a fault hits of its operator's output among *values*: its channel, or all of it."""
    value = values[fault.tensor]
    return value if fault.channel is None else value[..., fault.channel]


def lines(place: Place, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The results of one network that are not in the results file yet."""
    done = known(given.results)
    for kind in given.kinds:
        for kernels in given.kernels if place.model(kind).exists() else ():
            line = {"model": place.name, "device": f"litert-{kind}-{kernels}", "seed": 0}
            if key(healthy := {**line, "kind": ""}) not in done:
                with tempfile.TemporaryDirectory() as folder:
                    place.dump(place.model(kind).read_bytes(), kernels, Path(folder))
                    yield {**healthy, **place.compared(kind, Path(folder))}
            for seed in [] if given.healthy else given.seeds:
                for fault in (*FAULTS, ModelFault.TURN):
                    faulty = {**line, "kind": fault.value, "seed": seed}
                    if key(faulty) not in done:
                        yield {**faulty, **_faulty(place, kind, kernels, fault, seed)}


def _faulty(place: Place, kind: str, kernels: str, fault: ModelFault, seed: int) -> dict[str, Any]:
    """The line of a visible fault; ``tensor`` is None where none of some operators shows one."""
    rng = np.random.default_rng([seed, zlib.crc32(f"{place.name} {fault}".encode())])
    for tried, each in enumerate(faulty_files(place.model(kind), fault, rng)):
        if tried == _TRIES:
            break
        with tempfile.TemporaryDirectory() as folder:
            values = place.dump(each.content, kernels, Path(folder))
            times = visible(place, kind, each, values)
            if times is None or times < VISIBLE:
                continue
            return _judged(each, times, place.compared(kind, Path(folder)), _hit(each, values).size)
    return {"tensor": None}


def _judged(
    fault: FaultyLite, times: float, found: Mapping[str, Any], values: int
) -> dict[str, Any]:
    """*found*, with where the faulty operator is ranked and whether its cause is right; the fault
    hits so many *values*."""
    ranking = found.get("ranking", ())
    places = [n for n, each in enumerate(ranking, 1) if _is_made(fault.tensor, each[3])]
    cause = None
    if places:
        said = found["causes"].get(found["ranking"][places[0] - 1][0])
        if fault.inside is not None:
            told = verdict_in_a_loop(*fault.inside, said)
        else:
            told = verdict(fault.kind, fault.channel, said, values)
        cause = [told, *(said[:2] if said else ("nothing", 0.0))]
    return {
        **found,
        "tensor": fault.tensor,
        "type": fault.op_type,
        "words": fault.words,
        "times": times,
        "rank": places[0] if places else None,
        "cause": cause,
    }


def _is_made(tensor: str, names: Iterable[str]) -> bool:
    """Whether an operator's *tensor* is one of *names*, or one of these is what tf2onnx made of an
    op that was fused into it: it numbers what it puts in place of an op."""
    parts = "|".join(map(re.escape, filter(None, tensor.split(";"))))
    same = re.compile(rf"({parts})(_[A-Z]\w*__\d+)?(:\d+)?")
    return any(name == tensor or same.fullmatch(name) for name in names)


def main() -> None:
    """Run what is asked for and not there yet, then print the tables."""
    parser = asked.parser(__doc__, NETWORKS, Path("litert.jsonl"))
    asked.names(parser, "--kinds", KINDS)
    asked.names(parser, "--kernels", KERNELS)
    parser.add_argument("--healthy", action="store_true", help="no faults")
    given = parser.parse_args()
    for name in [] if given.table else given.models:
        with tempfile.TemporaryDirectory() as folder:
            for line in lines(Place.of(name, Path(folder)), given):
                asked.keep(given.results, line)
                names = ("verdict", "rank", "tensor", "words", "times", "cause", "error", "judged")
                said = {each: line[each] for each in names if each in line}
                guilty = sum(each[2] for each in line.get("ranking", ()))
                case = " ".join(map(str, key(line)))
                print(f"{case}: {json.dumps(said)}, {guilty} guilty", file=sys.stderr)
    print(tables(given.results))
    if given.write:
        asked.into_readme(START, END, tables(given.results))


if __name__ == "__main__":
    main()
