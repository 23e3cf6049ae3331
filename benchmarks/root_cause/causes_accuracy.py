"""How often the cause in words is right, and how far its confidence can be trusted.

    python benchmarks/root_cause/causes_accuracy.py --models unet-3,gru-3 --seeds 1,2 --list
    python benchmarks/root_cause/causes_accuracy.py --table --write

Faults a user would see are put into devices as ``run.py`` does, and the product reads models and
dumps as a user's: all tensors, those fusion leaves, half of them. What counts is what it says
of the op it ranks first, where that is the faulty one. Each case is a line of the results file, so
an interrupted run goes on. ``unclassified`` is never wrong, but right only where nothing better can
be said (2 % noise on weights).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import asked
import models
import numpy as np
from analysed import analyse
from cases import Case, Healthy, visible_fault
from devices import DEVICES
from faults import FaultKind
from measured import VARIANTS, hidden
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph
from op_runner import names_read
from run import Workplace, workplace

from graphstore.errors import DivergraphError
from graphstore.model import FindingKind

TUNED = frozenset(
    (
        *("cls", "magika", "yolox", "names", "seizure"),
        *("transformer-1", "unet-1", "mobilenet-1", "gru-1", "pitch", "silero"),
        *("transformer-3", "unet-3", "mobilenet-3", "gru-3", "gru-5"),
    )
)
"""The models whose mistakes the rules were mended by; the others were only counted."""
HELD_OUT = (
    "photo",
    "lanes",
    "spindles",
    "captcha",
    "transformer-5",
    "unet-5",
    "mobilenet-5",
    "gru-5",
)

RESULTS = models.cache() / "causes.jsonl"
START, END = "<!-- causes: start -->", "<!-- causes: end -->"
_ASKED = ("fp16x", "fp32x", "int8", "ort-fp16", "ort-qdq")
_BUCKETS = (0.9, 0.8, 0.6, 0.0)
_USELESS = 0.5
"""A device whose healthy output is so far off is no place to look for visible faults."""

_OFFSETS = {"lost_bias", "channel_offset", "global_offset"}
_LINES = {"gain", "global_offset", "gain_and_offset", "channel_gain", "channel_offset"}
RIGHT: Mapping[FaultKind, frozenset[str]] = {
    FaultKind.GAIN_2: frozenset(("gain",)),
    FaultKind.GAIN_03: frozenset(("gain",)),
    FaultKind.CLIP: frozenset(("saturation",)),
    FaultKind.SHIFT: frozenset(("reordered",)),
    FaultKind.LAYOUT: frozenset(("reordered",)),
    FaultKind.ZERO_TAIL: frozenset(("tail_not_written", "dead_channels")),
    FaultKind.ONE_NAN: frozenset(("nan_origin",)),
    FaultKind.GRID: frozenset(("quantised_grid",)),
    FaultKind.STALE: frozenset(("stale_tensor", "unrelated_values")),
    FaultKind.FLUSH: frozenset(("flush_to_zero",)),
    FaultKind.DEAD_CHANNEL: frozenset(("dead_channels", "wrong_channels")),
    FaultKind.MISSING_OP: frozenset(("missing_op",)),
    FaultKind.WEIGHT_NOISE: frozenset(("unclassified", "wrong_weights")),
    FaultKind.LOST_BIAS: frozenset(_OFFSETS),
    FaultKind.ACTIVATION: frozenset(("wrong_activation",)),
    FaultKind.CONSTANT: frozenset(
        ("wrong_epsilon", "wrong_setting", "wrong_activation", "wrong_constant", *_LINES)
    ),
    FaultKind.AXIS: frozenset(("reordered", "wrong_axis")),
    FaultKind.PADS: frozenset(("wrong_pads", "reordered", "wrong_border")),
}
"""The labels that say what each kind did. Zeros at the end may be whole channels; of a lost
channel it is right that the error is in it."""


def main() -> None:
    """Run what is asked for and not there yet, then print the tables."""
    parser = asked.parser(__doc__, HELD_OUT, RESULTS)
    asked.names(parser, "--devices", _ASKED)
    asked.names(parser, "--variants", VARIANTS)
    parser.add_argument("--list", action="store_true", help="print each mistake")
    given = parser.parse_args()
    for name in [] if given.table else given.models:
        with tempfile.TemporaryDirectory() as folder:
            place = workplace(name, Path(folder))
            for device in given.devices:
                for line in _lines(place, device, given):
                    asked.keep(given.results, line)
    lines = list(_known(given.results).values())
    if given.list:
        _list(lines)
    for title, part in (
        ("tuned", [line for line in lines if line["model"] in TUNED]),
        ("held out", [line for line in lines if line["model"] not in TUNED]),
    ):
        if part:
            print(f"\n{title}: {', '.join(sorted({line['model'] for line in part}))}\n")
            print("\n".join([*_tables(part), "", *_kinds(part)]))
    if given.write:
        _write([line for line in lines if line["model"] not in TUNED])


def _known(path: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {
        tuple(line[k] for k in ("model", "device", "variant", "kind", "seed")): line
        for line in lines
    }


def _lines(place: Workplace, device: str, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The cases of a model on a device that are not in the results yet."""
    known = _known(given.results)
    wanted = {
        (kind, seed): missing
        for kind in FaultKind
        for seed in given.seeds
        if (
            missing := [
                v for v in given.variants if (place.name, device, v, kind.value, seed) not in known
            ]
        )
    }
    if not wanted:
        return
    try:
        made = DEVICES[device](place.golden.model, place.values, place.folder)
        healthy = Healthy.of(made, place.feeds, place.values)
    except (DivergraphError, InvalidGraph) as error:  # photo is too old for 8 bits
        print(f"{place.name} {device}: refused: {error}", file=sys.stderr)
        return
    if healthy.error > _USELESS:
        print(f"{place.name} {device}: healthy error {healthy.error:.2g}", file=sys.stderr)
        return
    for (kind, seed), missing in wanted.items():
        case = visible_fault(healthy, kind, seed)
        for variant in missing:
            line = {"model": place.name, "device": device, "variant": variant}
            line |= {"kind": kind.value, "seed": seed}
            yield line | (
                {"first": False} if case is None else _said(place, healthy, case, variant)
            )


def _said(place: Workplace, healthy: Healthy, case: Case, variant: str) -> dict[str, Any]:
    hide = hidden(variant, healthy.device.runner, np.random.default_rng(case.seed))
    found = analyse(place.golden, healthy.device, case.values, hide, place.folder)
    if found.rank(case.tensor) != 1:
        return {"first": False}
    causes = (each for each in found.data.findings if each.kind is FindingKind.CAUSE)
    cause = next((each for each in causes if each.op == found.ranking[0].op), None)
    label = "nothing" if cause is None else cause.label
    return {
        "first": True,
        "type": case.op_type,
        "label": label,
        "right": label in RIGHT[case.kind] or _plain(label, healthy, case),
        "confidence": 0.0 if cause is None else cause.confidence,
        "sentence": "" if cause is None else cause.sentence,
    }


def _plain(label: str, healthy: Healthy, case: Case) -> bool:
    """Whether the fault left nothing but what *label* says: its values tell no more.

    NaN is where it starts, a stale buffer may hold the op's own input, or zeros.
    """
    if label == "all_zero":
        return not case.values[case.tensor].any()
    if label != "missing_op":
        return label == "nan_origin"
    node = next(n for n in healthy.device.runner.nodes if case.tensor in n.output)
    given = (case.values[name] for name in names_read(node) if name in case.values)
    made = case.values[case.tensor]
    return any(each.shape == made.shape and np.array_equal(each, made) for each in given)


def _tables(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    named = [line for line in lines if line["first"]]
    yield "| measured | faults ranked first | right | unclassified | wrong | wrong and >= 0.8 |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for variant in (*VARIANTS, "all"):
        part = [line for line in named if variant in (line["variant"], "all")]
        if part:
            right = sum(line["right"] for line in part)
            mistakes = [line for line in part if _wrong(line)]
            sure = sum(line["confidence"] >= 0.8 for line in mistakes)
            open_ = len(part) - right - len(mistakes)
            yield (
                f"| {variant} | {len(part)} | {right} ({100 * right / len(part):.0f} %) | {open_} "
                f"| {len(mistakes)} | {sure} |"
            )
    yield ""
    yield "| confidence | causes named | right |"
    yield "| --- | --- | --- |"
    told = [line for line in named if line["label"] not in ("unclassified", "nothing")]
    for low, high in zip(_BUCKETS, (1.01, *_BUCKETS), strict=False):
        part = [line for line in told if low <= line["confidence"] < high]
        if part:
            right = sum(line["right"] for line in part)
            words = f"{low:g} and more" if low == _BUCKETS[0] else f"{low:g} to {high:g}"
            yield f"| {words} | {len(part)} | {right} ({100 * right / len(part):.1f} %) |"


def _wrong(line: Mapping[str, Any]) -> bool:
    return not line["right"] and line["label"] not in ("unclassified", "nothing")


def _kinds(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Per kind of fault what was said."""
    labels: dict[str, Counter[str]] = defaultdict(Counter)
    right: Counter[str] = Counter()
    for line in lines:
        if line["first"]:
            labels[line["kind"]][line["label"]] += 1
            right[line["kind"]] += line["right"]
    for kind in FaultKind:
        said = labels[kind.value]
        listed = ", ".join(f"{label} {count}" for label, count in said.most_common())
        yield f"  {kind.value:<18} {right[kind.value]:>4}/{said.total():<4} {listed}"


def _list(lines: Iterable[dict[str, Any]]) -> None:
    for line in lines:
        if line["first"] and _wrong(line):
            case = " ".join(str(line[k]) for k in ("model", "device", "variant", "kind", "type"))
            print(f"{case}: {line['label']} {line['confidence']}: {line['sentence']}")


def _write(lines: list[dict[str, Any]]) -> None:
    """Put the tables between the markers."""
    names = ", ".join(sorted({line["model"] for line in lines if line["first"]}))
    text = "\n".join([f"Models: {names}.", "", *_tables(lines)])
    asked.into_readme(START, END, text)


if __name__ == "__main__":
    main()
