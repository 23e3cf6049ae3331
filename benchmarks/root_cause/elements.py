"""Small tensors, single channels and heads, indices, depthwise TF32: verdicts by element.

    python benchmarks/root_cause/elements.py --seeds 21,22 --list

Each case is a model of random weights, run op by op as a device that rounds every output to a
16-bit type, or that takes operands of products in TF32; healthy, or with one fault behind one op.
Right is: healthy runs have no guilty op, and of a fault the op is guilty and comes first.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from analysed import Analysed, Golden, analyse
from devices import Device
from faults import Array
from generated import Made, Sheet, heads_of, layer_norm, linear, mobilenet, transformer, unet
from measured import write_dump
from op_runner import Injection, OpRunner, run_node

from importers.registry import read_graph

Fault = Callable[[Array], Array]
_PRODUCTS = frozenset(("Conv", "MatMul", "Gemm", "ConvTranspose"))


def rms_norm(sheet: Sheet, x: str, wide: int) -> str:
    """As exporters spell it out, with a root and a reciprocal."""
    squares = sheet("ReduceMean", sheet("Pow", x, sheet.constant(2.0)), axes=[-1])
    root = sheet("Sqrt", sheet("Add", squares, sheet.constant(1e-5)))
    return sheet("Mul", sheet("Mul", x, sheet("Reciprocal", root)), sheet.vector(wide, 1.0))


def llama(seed: int) -> Made:
    """Two blocks of attention and a gated product, with RMS norms."""
    sheet, wide, heads, words = Sheet(np.random.default_rng(seed)), 64, 4, 20
    x = sheet("Gather", sheet.constant(sheet.rng.normal(0, 0.6, (100, wide))), "ids")
    for _ in range(2):
        y = rms_norm(sheet, x, wide)
        q, k, v = (heads_of(sheet, linear(sheet, y, wide, wide), heads, wide) for _ in range(3))
        score = sheet("MatMul", q, sheet("Transpose", k, perm=[0, 1, 3, 2]))
        score = sheet("Softmax", sheet("Mul", score, sheet.constant((wide / heads) ** -0.5)))
        seen = sheet("Transpose", sheet("MatMul", score, v), perm=[0, 2, 1, 3])
        seen = sheet("Reshape", seen, sheet.integers(0, 0, wide))
        x = sheet("Add", x, linear(sheet, seen, wide, wide))
        y = rms_norm(sheet, x, wide)
        up, gate = (sheet("MatMul", y, sheet.weight(wide, 3 * wide)) for _ in range(2))
        gated = sheet("Mul", up, sheet("Mul", gate, sheet("Sigmoid", gate)))
        x = sheet("Add", x, sheet("MatMul", gated, sheet.weight(3 * wide, wide)))
    x = linear(sheet, rms_norm(sheet, x, wide), wide, 40)
    return sheet.model({"ids": sheet.rng.integers(0, 100, (1, words))}, [x])


def router(seed: int) -> Made:
    """Two layers in which each word takes the best two of eight experts, and a class at the end."""
    sheet, wide, experts, words = Sheet(np.random.default_rng(seed)), 48, 8, 37
    x, two = "x", sheet.integers(2)
    for _ in range(2):
        y = layer_norm(sheet, x, wide)
        scores = sheet("Sigmoid", sheet("MatMul", y, sheet.weight(wide, experts)))
        best, chosen = sheet.several("TopK", scores, two, count=2, axis=-1)
        nothing = sheet("Mul", scores, sheet.constant(0.0))
        gates = sheet("ScatterElements", nothing, chosen, best, axis=-1)
        total = sheet("ReduceSum", gates, sheet.integers(-1), keepdims=1)
        gates = sheet("Div", gates, total)
        for number in range(experts):
            gate = sheet("Gather", gates, sheet.integers(number), axis=-1)
            hidden = sheet("Relu", sheet("MatMul", y, sheet.weight(wide, wide)))
            part = sheet("MatMul", hidden, sheet.weight(wide, wide))
            x = sheet("Add", x, sheet("Mul", part, gate))
    logits = linear(sheet, layer_norm(sheet, x, wide), wide, 30)
    named = sheet("ArgMax", logits, axis=-1, keepdims=0)
    sure = sheet("Greater", sheet("Softmax", logits, axis=-1), sheet.constant(0.1))
    row = sheet("Gather", sheet.constant(sheet.rng.normal(0, 1, (30, 8))), named)
    masked = sheet("Where", sure, logits, sheet.constant(0.0))
    return sheet.model(
        {"x": sheet.rng.normal(0, 1, (1, words, wide)).astype(np.float32)}, [row, masked]
    )


def efficient(seed: int) -> Made:
    """Inverted residuals with depthwise convolutions of 3x3 and 5x5, Swish, and excitation."""
    sheet = Sheet(np.random.default_rng(seed))
    x = _swish(sheet, sheet.conv("x", 3, 16, strides=[2, 2]))
    for old, new, size, stride in ((16, 16, 3, 1), (16, 24, 5, 2), (24, 24, 3, 1), (24, 40, 5, 2)):
        wide = 4 * old
        y = _swish(sheet, sheet.conv(x, old, wide, 1))
        y = _swish(sheet, sheet.conv(y, wide, wide, size, group=wide, strides=[stride, stride]))
        gate = _swish(sheet, sheet.conv(sheet("GlobalAveragePool", y), wide, old, 1))
        y = sheet("Mul", y, sheet("Sigmoid", sheet.conv(gate, old, wide, 1)))
        y = sheet.conv(y, wide, new, 1)
        x = sheet("Add", x, y) if old == new and stride == 1 else y
    x = sheet("Flatten", sheet("GlobalAveragePool", _swish(sheet, sheet.conv(x, 40, 128, 1))))
    x = sheet("Gemm", x, sheet.weight(128, 20), sheet.vector(20))
    return sheet.model({"x": sheet.rng.normal(0, 1, (1, 3, 64, 64)).astype(np.float32)}, [x])


def _swish(sheet: Sheet, x: str) -> str:
    return sheet("Mul", x, sheet("Sigmoid", x))


MODELS: Mapping[str, Callable[[int], Made]] = {
    "llama": llama,
    "router": router,
    "efficient": efficient,
    "transformer": transformer,
    "mobilenet": mobilenet,
    "unet": unet,
}


def short(value: Array, bits: int) -> Array:
    """float32 *value* with so many *bits* of mantissa, to nearest even."""
    lost = 23 - bits
    raw = np.ascontiguousarray(value, np.float32).view(np.uint32).astype(np.uint64)
    raw += (1 << (lost - 1)) - 1 + ((raw >> lost) & 1)
    raw &= 0xFFFFFFFF ^ ((1 << lost) - 1)
    return raw.astype(np.uint32).view(np.float32).reshape(np.shape(value))


def rounded(kind: str, value: Array) -> Array:
    """A value as the type *kind* holds it, as float32."""
    if value.dtype != np.float32:
        return value
    with np.errstate(over="ignore"):
        return value.astype(np.float16).astype(np.float32) if kind == "fp16" else short(value, 7)


@dataclass
class TensorFloat(OpRunner):
    """Runs products on operands of TF32, where ``takes`` says so."""

    takes: Callable[[onnx.NodeProto], bool] = lambda _node: True

    def _outputs(self, number: int, values: Mapping[str, Array]) -> dict[str, Array]:
        node = self.nodes[number]
        if node.op_type not in _PRODUCTS or not self.takes(node):
            return super()._outputs(number, values)
        given = dict(values)
        for name in node.input[:2]:
            given[name] = short(values[name], 10)
        held = {name: given[name] for name in node.input if name in self.constants}
        key = -1 - number
        if key not in self._sessions:
            self._sessions[key] = self._open(node, given, held)
        return self._after(node, run_node(self._sessions[key], node, given))


def device_of(kind: str, model: Path) -> Device:
    """The device: fp16 or bf16 throughout, or fp32 with TF32 in all products, in none of the
    depthwise convolutions, or in every other one of these."""
    if kind in ("fp16", "bf16"):
        runner = OpRunner.of(model, lambda _node, _name, value: rounded(kind, value))
        for name, value in runner.constants.items():
            runner.constants[name] = rounded(kind, value)
        return Device(kind, model, runner)
    proto = onnx.load_model(str(model))
    groups = {
        node.output[0]: next((a.i for a in node.attribute if a.name == "group"), 1)
        for node in proto.graph.node
    }
    depthwise = [name for name, count in groups.items() if count > 1]
    without = {
        "tf32": [],
        "tf32-pointwise": depthwise,
        "tf32-mixed": depthwise[::2],
        "tf32-depthwise": [name for name in groups if name not in depthwise],
    }[kind]
    return Device(kind, model, TensorFloat(proto, takes=lambda node: node.output[0] not in without))


@dataclass(frozen=True)
class Case:
    """A fault behind a node; ``seen`` names the tensor whose op is to be guilty."""

    words: str
    node: int
    tensor: str
    change: Fault


def cases(kind: str, runner: OpRunner, values: Mapping[str, Array], seed: int) -> Iterator[Case]:
    """Faults of small tensors, of channels and heads, and of names, in a device's values."""
    rng = np.random.default_rng(seed)
    unit = 2.0**-8 if kind == "bf16" else 2.0**-11
    live = {each.name for each in runner.model.graph.input}
    channels, small, names = list[int](), list[int](), list[int]()
    for number, node in enumerate(runner.nodes):
        if not live.intersection(node.input):
            continue
        live.update(node.output)
        value = values[node.output[0]]
        if value.dtype.kind == "f" and value.ndim > 1 and _axis(node, value) is not None:
            channels.append(number)
        if node.op_type in ("Add", "Sqrt", "Reciprocal", "ReduceMean") and 8 <= value.size <= 64:
            small.append(number)
        if any(values[name].dtype.kind in "bi" for name in node.output if name):
            names.append(number)
    for size in (0.025, 0.05, 0.1) if kind == "bf16" else (0.01, 0.05):
        for number in rng.choice(channels, min(2, len(channels)), replace=False).tolist():
            node = runner.nodes[number]
            axis = _axis(node, values[node.output[0]])
            assert axis is not None
            place = _lively(values[node.output[0]], axis, rng)
            yield Case(
                f"slice {place} of axis {axis} x {1 + size}",
                number,
                node.output[0],
                _gain(axis, place, size),
            )
    for number in rng.choice(small, min(2, len(small)), replace=False).tolist():
        name = runner.nodes[number].output[0]
        by = float(rng.uniform(8, 30)) * unit
        yield Case(f"small, {by:.3g} too large", number, name, lambda x, by=by: x * (1 + by))
        by = 20 * unit * float(np.median(np.abs(values[name])))
        yield Case(f"small, {by:.3g} more", number, name, lambda x, by=by: x + np.float32(by))
    for number in names:
        node = runner.nodes[number]
        name = next(each for each in node.output if values[each].dtype.kind in "bi")
        yield Case("names", number, name, _renamed(runner, node, values, rng))


def _axis(node: onnx.NodeProto, value: Array) -> int | None:
    """The axis of channels or heads, of an op with weights or of a norm. Not of a Softmax: what
    rounding its scores makes of it in bfloat16 is some per cent."""
    if node.op_type in ("Conv", "ConvTranspose") or (node.op_type == "MatMul" and value.ndim == 4):
        axis = 1
    elif node.op_type in ("MatMul", "Gemm", "BatchNormalization", "Mul"):
        axis = 1 if value.ndim == 4 else value.ndim - 1
    else:
        return None
    return axis if value.shape[axis] >= 4 and value.size // value.shape[axis] >= 8 else None


def _lively(value: Array, axis: int, rng: np.random.Generator) -> int:
    """A slice that is as large as most are."""
    sizes = np.sqrt(np.mean(np.moveaxis(value, axis, 0).reshape(value.shape[axis], -1) ** 2, 1))
    return int(rng.choice(np.flatnonzero(sizes >= np.median(sizes))))


def _gain(axis: int, place: int, size: float) -> Fault:
    def change(value: Array) -> Array:
        made = value.copy()
        there = (slice(None),) * axis + (place,)
        made[there] *= np.float32(1 + size)
        return made

    return change


def _renamed(
    runner: OpRunner, node: onnx.NodeProto, values: Mapping[str, Array], rng: np.random.Generator
) -> Fault:
    """Some choices that are clearly worse."""
    scores = values[node.input[0]]

    def change(right: Array) -> Array:
        made = right.copy().reshape(-1)
        some = rng.choice(made.size, max(made.size // 8, 1), replace=False)
        if right.dtype.kind == "b":
            limit = runner.constants[node.input[1]]
            clear = np.abs(scores - limit).reshape(-1) > 0.5 * np.abs(limit)
            some = some[clear[some]]
            made[some] = ~made[some]
        else:
            worst = np.argmin(scores, axis=-1).reshape(-1)
            made[some] = worst[some // (made.size // worst.size)]
        return made.reshape(right.shape)

    return change


def _inject(runner: OpRunner, values: dict[str, Array], case: Case, kind: str) -> dict[str, Array]:
    """The device's values with the fault and all that follows from it."""
    wrong = case.change(values[case.tensor])
    wrong = rounded(kind, wrong) if kind in ("fp16", "bf16") else wrong
    if case.tensor == runner.nodes[case.node].output[0]:
        made = runner.rerun(values, Injection(case.node, values=lambda _: wrong))
        return made if made is not None else values
    new = {**values, case.tensor: wrong}
    changed = {case.tensor}
    for number in range(case.node + 1, len(runner.nodes)):
        if changed.intersection(runner.nodes[number].input):
            made_here = runner._outputs(number, new)
            new.update(made_here)
            changed.update(made_here)
    return new


@dataclass(frozen=True)
class Outcome:
    """What came of a case."""

    where: str
    words: str
    right: bool
    said: str


def outcomes(name: str, seed: int, kind: str, folder: Path) -> Iterator[Outcome]:
    """The healthy run and the faults of one model on one device."""
    proto, feeds = MODELS[name](seed)
    model = folder / "model.onnx"
    onnx.save_model(proto, str(model))
    values = OpRunner.of(model).run(feeds)
    graph, plain = read_graph(model), Device("golden", model, OpRunner.of(model))
    golden = Golden(model, folder / "golden")
    write_dump(golden.dump, graph, plain, values, set())
    device = device_of(kind, model)
    fed = {n: rounded(kind, x) if kind in ("fp16", "bf16") else x for n, x in feeds.items()}
    healthy = device.runner.run(fed)
    where = f"{name}-{seed} {kind}"
    found = analyse(golden, device, healthy, set(), folder)
    yield Outcome(where, "healthy", found.guilty == 0, _said(found))
    if kind.startswith("tf32"):
        return
    for case in cases(kind, device.runner, healthy, seed + zlib.crc32(kind.encode())):
        wrong = _inject(device.runner, healthy, case, kind)
        if all(
            np.array_equal(wrong[n], x, equal_nan=x.dtype.kind == "f") for n, x in healthy.items()
        ):
            continue
        found = analyse(golden, device, wrong, set(), folder)
        right = found.rank(case.tensor) == 1 and found.ranking[0].guilty
        node = device.runner.nodes[case.node]
        yield Outcome(where, f"{node.op_type} {case.tensor}: {case.words}", right, _said(found))


def _differs(one: Array, other: Array) -> bool:
    return not np.array_equal(one, other, equal_nan=other.dtype.kind == "f")


def _said(found: Analysed) -> str:
    first = ", ".join(
        f"{each.op} {each.suspicion:.3g}{'!' if each.guilty else ''}" for each in found.ranking[:3]
    )
    return f"{found.verdict} {first}"


def main() -> None:
    """Runs the cases and counts those that are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", default="21,22")
    parser.add_argument(
        "--devices", default="fp16,bf16,tf32,tf32-pointwise,tf32-depthwise,tf32-mixed"
    )
    parser.add_argument("--list", action="store_true", help="print every case")
    given = parser.parse_args()
    counts = Counter[tuple[str, bool]]()
    for name in given.models.split(","):
        for seed in map(int, given.seeds.split(",")):
            for kind in given.devices.split(","):
                folder = Path(tempfile.mkdtemp())
                for each in outcomes(name, seed, kind, folder):
                    what = each.words if each.words == "healthy" else each.words.split(": ")[1]
                    counts[what.split()[0].strip(","), each.right] += 1
                    if given.list or not each.right:
                        print("right" if each.right else "WRONG", each.where, each.words, each.said)
                        sys.stdout.flush()
                shutil.rmtree(folder)
    for what in sorted({what for what, _ in counts}):
        print(f"{what}: {counts[what, True]} right, {counts[what, False]} wrong")


if __name__ == "__main__":
    main()
