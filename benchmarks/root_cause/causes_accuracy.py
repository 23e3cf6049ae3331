"""How often the cause in words is right, on models the rules were tuned with and on others.

    python benchmarks/root_cause/causes_accuracy.py [--models cls,det] [--faults 6] [--list]

Each fault is put into one op of a device's healthy run; the rules see what the op gave, what
the original op gives on the same inputs, and the floor the healthy device has there. Faults
that stay below ten times the floor are nobody's business and are not counted. ``unclassified``
counts as wrong unless nothing better can be said (2 % noise on weights). Tensors of fewer than
four values are left out: a gain cannot be told from an offset there.
"""

from __future__ import annotations

import argparse
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from devices import DEVICES, Device
from faults import OP_FAULTS, Array, Context, FaultKind, faulty_op, faulty_values
from models import MODELS, feeds, prepared
from op_runner import Injection, OpRunner, float_outputs, names_read

from divergraph.root_cause.causes import Case, Rerun, TensorHashes, explain
from graphstore.errors import DivergraphError
from graphstore.model import AttrValue, DType, Finding, Op

TUNED = ("cls", "magika", "yolox")
"""The models whose mistakes the rules were mended by; the others were only counted."""

_GUILTY = 10.0
_UNITS = {"fp16x": 2.0**-11, "fp32x": 2.0**-24, "int8": 2.0**-24}
_EARLIER = 40
_SMALLEST = 4

_OFFSETS = {"lost_bias", "channel_offset", "global_offset"}
_LINES = {"gain", "global_offset", "gain_and_offset", "channel_gain", "channel_offset"}
RIGHT: Mapping[FaultKind, frozenset[str]] = {
    FaultKind.GAIN_2: frozenset(("gain",)),
    FaultKind.GAIN_03: frozenset(("gain",)),
    FaultKind.CLIP: frozenset(("saturation",)),
    FaultKind.SHIFT: frozenset(("reordered",)),
    FaultKind.LAYOUT: frozenset(("reordered",)),
    FaultKind.ZERO_TAIL: frozenset(("tail_not_written",)),
    FaultKind.ONE_NAN: frozenset(("nan_origin",)),
    FaultKind.GRID: frozenset(("quantised_grid",)),
    FaultKind.STALE: frozenset(("stale_tensor", "unrelated_values")),
    FaultKind.FLUSH: frozenset(("flush_to_zero",)),
    FaultKind.DEAD_CHANNEL: frozenset(("dead_channels",)),
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


@dataclass
class Score:
    """Counts of one part."""

    right: Counter[FaultKind] = field(default_factory=Counter)
    seen: Counter[FaultKind] = field(default_factory=Counter)
    sure_wrong: int = 0
    labels: dict[FaultKind, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, kind: FaultKind, finding: Finding | None) -> bool:
        """Count one; whether it was right."""
        label = "nothing" if finding is None else finding.label
        good = label in RIGHT[kind]
        self.seen[kind] += 1
        self.right[kind] += good
        self.labels[kind][label] += 1
        unsure = finding is None or finding.label == "unclassified" or finding.confidence < 0.7
        self.sure_wrong += not good and not unsure
        return good


@dataclass(frozen=True)
class Bench:
    """One model on one device: healthy values, and the original ops to run on them."""

    device: Device
    golden: OpRunner
    values: Mapping[str, Array]
    unit: float
    rerun: bool

    def cases(self, count: int) -> Iterator[tuple[FaultKind, Case]]:
        """Up to *count* faults of each kind that are clearly above the floor."""
        places = list(float_outputs(self.golden, self.values))
        by_output = {node.output[0]: k for k, node in enumerate(self.device.runner.nodes)}
        for kind in FaultKind:
            rng = np.random.default_rng([11, zlib.crc32(kind.value.encode())])
            found = 0
            for number in rng.permutation(places).tolist():
                name = self.golden.nodes[number].output[0]
                if found == count or name not in by_output:
                    continue
                case = self._case(kind, number, by_output[name], rng)
                if case is not None:
                    found += 1
                    yield kind, case

    def _case(
        self, kind: FaultKind, number: int, place: int, rng: np.random.Generator
    ) -> Case | None:
        node = self.golden.nodes[number]
        name = node.output[0]
        wrong = self._faulty(kind, place, rng)
        if wrong is None:
            return None
        reference = self.golden._outputs(number, {**self.values, **self.golden.constants})[name]
        if wrong.shape != reference.shape or wrong.size < _SMALLEST:
            return None
        if not np.isfinite(self.values[name]).all():
            return None  # the device's precision breaks the tensor before any fault does
        scale = float(np.linalg.norm(reference[np.isfinite(reference)].astype(np.float64)))
        floor = max(_norm(self.values[name], reference) / scale, self.unit / 3) if scale else 0.0
        introduced = _norm(wrong, reference)
        if not scale or introduced <= _GUILTY * floor * scale:
            return None
        given = {
            each: self.values[each]
            for each in names_read(node)
            if each not in self.golden.constants and each in self.values
        }
        constants = {
            each: self.golden.constants[each]
            for each in node.input
            if each in self.golden.constants
        }
        op = Op(id=node.name or name, name=node.name, type=node.op_type, attrs=_attributes(node))
        return Case(
            op=op.id,
            port=0,
            device=wrong,
            reference=reference,
            floor=floor,
            inputs=given,
            channel_axis=1 if wrong.ndim in (4, 5) else wrong.ndim - 1,
            dtype=DType.FLOAT32 if self.device.name == "fp32x" else DType.FLOAT16,
            ops=(op,),
            constants=constants,
            others=self._others(number),
            tensor=name,
            rerun=self._rerun(number) if self.rerun else None,
        )

    def _faulty(self, kind: FaultKind, place: int, rng: np.random.Generator) -> Array | None:
        runner = self.device.runner
        if kind in OP_FAULTS:
            edit = faulty_op(kind, runner.edit_of(place), rng)
            if edit is None:
                return None
            injection = Injection(place, edit=edit)
        else:
            around = self._around(place)
            injection = Injection(place, values=lambda v: faulty_values(kind, v, rng, around))
        try:
            made = runner._faulty(place, self.values, injection)
        except RuntimeError:
            return None  # the changed op does not run on these shapes
        name = runner.nodes[place].output[0]
        return None if made is None else self.device.dumped(name, made[name])

    def _around(self, place: int) -> Context:
        nodes = self.device.runner.nodes
        earlier = [nodes[each].output[0] for each in range(max(0, place - _EARLIER), place)]
        inputs = set(nodes[place].input)
        return Context(
            [self.values[name] for name in nodes[place].input if name in self.values],
            [self.values[name] for name in earlier if name in self.values and name not in inputs],
        )

    def _others(self, number: int) -> TensorHashes:
        found = TensorHashes()
        for node in self.golden.nodes[:number]:
            for name in node.output:
                value = self.values.get(name)
                if value is not None and value.dtype.kind == "f":
                    found.add(name, self.device.dumped(name, value))
        return found

    def _rerun(self, number: int) -> Rerun:
        def again(_op: Op, attrs: Mapping[str, AttrValue]) -> Array | None:
            node = onnx.NodeProto()
            node.CopyFrom(self.golden.nodes[number])
            for key, value in attrs.items():
                kept = [each for each in node.attribute if each.name != key]
                del node.attribute[:]
                node.attribute.extend([*kept, onnx.helper.make_attribute(key, value)])
            held = {
                each: self.golden.constants[each]
                for each in node.input
                if each in self.golden.constants
            }
            try:
                session = self.golden._open(node, self.values, held)
                wanted = [each.name for each in session.get_inputs()]
                return session.run([node.output[0]], {each: self.values[each] for each in wanted})[
                    0
                ]
            except Exception:  # noqa: BLE001 - ONNX Runtime's errors have no common base
                return None

        return again


def _attributes(node: onnx.NodeProto) -> dict[str, AttrValue]:
    found: dict[str, AttrValue] = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            found[attribute.name] = value.decode()
        elif isinstance(value, (int, float)):
            found[attribute.name] = value
        elif isinstance(value, (list, tuple)) and all(isinstance(v, (int, float)) for v in value):
            found[attribute.name] = tuple(value)
    return found


def _norm(device: Array, reference: Array) -> float:
    """|device - reference| where the reference is finite; infinite if the device is not there."""
    finite = np.isfinite(reference)
    apart = float(np.linalg.norm(device[finite].astype(np.float64) - reference[finite]))
    return float("inf") if np.isnan(apart) else apart


def bench(model: str, device: str, folder: Path, *, rerun: bool) -> Bench:
    """One model on one kind of device, run once."""
    path = prepared(model)
    golden = OpRunner.of(path)
    made = DEVICES[device](path, golden.run(feeds(model)), folder)
    return Bench(made, golden, made.runner.run(feeds(model)), _UNITS[device], rerun)


def show(title: str, score: Score) -> None:
    """One table: per kind the hits, and what else was said."""
    total, right = sum(score.seen.values()), sum(score.right.values())
    share = 100.0 * right / total if total else 0.0
    print(f"\n{title}: {right}/{total} = {share:.1f} % right, {score.sure_wrong} surely wrong")
    for kind in FaultKind:
        if score.seen[kind]:
            labels = ", ".join(f"{k} {v}" for k, v in score.labels[kind].most_common())
            print(f"  {kind.value:<18} {score.right[kind]:>4}/{score.seen[kind]:<4} {labels}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--devices", default="fp16x,fp32x,int8")
    parser.add_argument("--faults", type=int, default=4, help="of each kind, model and device")
    parser.add_argument("--no-rerun", action="store_true", help="never try other attributes")
    parser.add_argument("--list", action="store_true", help="print each mistake")
    options = parser.parse_args()
    scores = {"tuned": Score(), "held out": Score()}
    for model in options.models.split(","):
        for device in options.devices.split(","):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    each = bench(model, device, Path(folder), rerun=not options.no_rerun)
                except DivergraphError as error:
                    print(f"{model} on {device}: {error}")
                    continue
                part = "tuned" if model in TUNED else "held out"
                for kind, case in each.cases(options.faults):
                    finding = explain(case)
                    good = scores[part].add(kind, finding)
                    if options.list and not good and model in TUNED:
                        said = "nothing" if finding is None else finding.sentence
                        shape, types = case.device.shape, case.types
                        print(f"{model}/{device} {kind.value}: {types} {shape} {case.op}: {said}")
    for title, score in scores.items():
        if score.seen:
            show(title, score)


if __name__ == "__main__":
    main()
