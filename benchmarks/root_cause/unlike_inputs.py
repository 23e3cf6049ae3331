"""Whether a run whose sides were fed different inputs is called that, and nothing else is.

    python benchmarks/root_cause/unlike_inputs.py
    python benchmarks/root_cause/unlike_inputs.py --models stem,tokens --devices fp16 --all

Small models of each kind of first op are fed golden's input and another on the device, which
follows from it by each of some twenty relations, dumped and not dumped, with and without the output
of the first op. Controls are healthy devices and devices whose first op has a fault. Prints the
wrong verdicts and a count of all; ``--all`` prints every case.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from graphstore.contract import RunData
from graphstore.model import ResultState, Verdict

Array = np.ndarray
Weights = dict[str, Array]
Feeds = Mapping[str, Array]

_SEED = [0]


def generator(number: int) -> np.random.Generator:
    """The random numbers of one place of this file, others with ``--seed``."""
    return np.random.default_rng(number + 1000 * _SEED[0])


D, I, U, OK = (  # noqa: E741 - as they stand in the tables
    {Verdict.DIVERGED},
    {Verdict.INPUTS_DIFFER},
    {Verdict.UNDECIDED},
    {Verdict.CLEAN, Verdict.WITHIN_ROUNDING},
)


@dataclass(frozen=True)
class Net:
    """A model: its nodes, weights and golden's inputs. ``first`` are the device tensors made of the
    input alone. ``free``: any output of the first op is made by some input; ``unbiased``: a factor
    of its output is one of its input."""

    nodes: tuple[onnx.NodeProto, ...]
    weights: Weights
    feeds: Feeds
    output: str
    first: tuple[str, ...]
    free: bool = False
    unbiased: bool = False

    def save(self, path: Path, weights: Weights | None = None) -> Path:
        """The model file, with other *weights* if given."""
        kinds = {"f": onnx.TensorProto.FLOAT, "i": onnx.TensorProto.INT64}
        inputs = [
            helper.make_tensor_value_info(name, kinds[value.dtype.kind], value.shape)
            for name, value in self.feeds.items()
        ]
        output = helper.make_tensor_value_info(self.output, onnx.TensorProto.FLOAT, None)
        held = [numpy_helper.from_array(v, k) for k, v in (weights or self.weights).items()]
        graph = helper.make_graph(self.nodes, "net", inputs, [output], held)
        opset = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
        return path


def node(kind: str, inputs: str, output: str, **attrs: object) -> onnx.NodeProto:
    """An op named after its output."""
    return helper.make_node(kind, inputs.split(), [output], name=f"op_{output}", **attrs)


def image(rng: np.random.Generator, *shape: int) -> Array:
    """Something smooth between 0 and 255 with edges, whose channels differ."""
    values = np.cumsum(np.cumsum(rng.normal(size=shape), -1), -2)
    values -= values.min(axis=(-1, -2), keepdims=True)
    values *= 230 / values.max(axis=(-1, -2), keepdims=True)
    values += rng.uniform(0, 25, shape)
    tint = np.array([1, 0.7, 0.4])[: shape[1]].reshape(1, -1, 1, 1)
    return (values * tint).astype(np.float32)


def tail(
    rng: np.random.Generator, name: str, channels: int
) -> tuple[list[onnx.NodeProto], Weights]:
    """Another convolution, a pooling and a classifier behind *name*."""
    nodes = [
        node("Conv", f"{name} tw tb", "tc"),
        node("Relu", "tc", "tr"),
        node("GlobalAveragePool", "tr", "tg"),
        node("Flatten", "tg", "tf"),
        node("Gemm", "tf tm tv", "y"),
    ]
    weights = {
        "tw": rng.normal(size=(12, channels, 3, 3)) / np.sqrt(9 * channels),
        "tb": rng.normal(size=12) / 5,
        "tm": rng.normal(size=(12, 7)) / 3,
        "tv": rng.normal(size=7) / 3,
    }
    return nodes, {k: v.astype(np.float32) for k, v in weights.items()}


def conv_net(
    kernel: int,
    channels: int,
    size: int = 24,
    *,
    batch: int = 1,
    bias: bool = True,
    scale: float = 1 / 255,
    **attrs: object,
) -> Net:
    """A convolution of an image first."""
    rng = generator(kernel * 100 + channels)
    fan = 3 * kernel * kernel
    weights = {"w": (rng.normal(size=(channels, 3, kernel, kernel)) / np.sqrt(fan))}
    weights |= {"b": rng.normal(size=channels) / 3} if bias else {}
    after, more = tail(rng, "r", channels)
    nodes = [
        node("Conv", "x w b" if bias else "x w", "c", **attrs),
        node("Relu", "c", "r"),
        *after,
    ]
    weights = {k: v.astype(np.float32) for k, v in weights.items()} | more
    feed = image(rng, batch, 3, size, size) * np.float32(scale)
    free = channels <= 3 * int(attrs.get("strides", [1])[0]) ** 2  # type: ignore[index]
    return Net(tuple(nodes), weights, {"x": feed}, "y", ("c",), free, not bias)


def branches() -> Net:
    """Two convolutions of one image."""
    one = conv_net(3, 8, batch=2, pads=[1, 1, 1, 1])
    rng = generator(5)
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        node("Conv", "x w5 b5", "c5", pads=[2, 2, 2, 2]),
        node("Add", "c c5", "s"),
        node("Relu", "s", "r"),
        *one.nodes[2:],
    ]
    w5 = rng.normal(size=(8, 3, 5, 5)) / 9
    weights = one.weights | {"w5": w5.astype(np.float32), "b5": one.weights["b"][::-1].copy()}
    return replace(one, nodes=tuple(nodes), weights=weights, first=("c", "c5"))


def prepared() -> Net:
    """An image whose mean and deviation the model itself takes off."""
    one = conv_net(3, 8, scale=1)
    nodes = [
        node("Sub", "x mean", "xm"),
        node("Div", "xm std", "xd"),
        node("Conv", "xd w b", "c"),
        *one.nodes[1:],
    ]
    mean = np.array([123.7, 116.3, 103.5], np.float32).reshape(1, 3, 1, 1)
    std = np.array([58.4, 57.1, 57.4], np.float32).reshape(1, 3, 1, 1)
    weights = one.weights | {"mean": mean, "std": std}
    return replace(one, nodes=tuple(nodes), weights=weights, first=("xm",), free=True)


def two_images() -> Net:
    """Two images, each with a convolution of its own."""
    one = conv_net(3, 8)
    rng = generator(6)
    nodes = [
        node("Conv", "x w b", "c"),
        node("Conv", "z w b", "cz"),
        node("Sub", "c cz", "s"),
        node("Relu", "s", "r"),
        *one.nodes[2:],
    ]
    feeds = {**one.feeds, "z": image(rng, 1, 3, 24, 24) / np.float32(255)}
    return replace(one, nodes=tuple(nodes), feeds=feeds)


def perceptron(wide: int) -> Net:
    """A flat input with a matrix product, to *wide* features."""
    rng = generator(wide)
    weights = {
        "w": rng.normal(size=(48, wide)) / 7,
        "b": rng.normal(size=wide) / 2,
        "w2": rng.normal(size=(wide, 10)) / np.sqrt(wide),
        "b2": rng.normal(size=10) / 2,
    }
    nodes = (
        node("Gemm", "x w b", "c"),
        node("Relu", "c", "r"),
        node("Gemm", "r w2 b2", "d"),
        node("Tanh", "d", "y"),
    )
    held = {k: v.astype(np.float32) for k, v in weights.items()}
    feed = rng.normal(size=(9, 48)).astype(np.float32) * 2 + 1
    return Net(nodes, held, {"x": feed}, "y", ("c",), wide <= 48)


def tokens() -> Net:
    """Numbers of words, looked up and attended to."""
    rng = generator(8)
    width, length, words = 24, 16, 300
    shapes = {"e": (words, width), "p": (length, width)} | dict.fromkeys("qkvo", (width, width))
    weights = {k: (rng.normal(size=s) / np.sqrt(width)) for k, s in shapes.items()}
    nodes = (
        node("Gather", "e x", "c"),
        node("Add", "c p", "h"),
        node("MatMul", "h q", "hq"),
        node("MatMul", "h k", "hk"),
        node("MatMul", "h v", "hv"),
        node("Transpose", "hk", "kt", perm=[0, 2, 1]),
        node("MatMul", "hq kt", "sc"),
        node("Softmax", "sc", "at"),
        node("MatMul", "at hv", "av"),
        node("MatMul", "av o", "ao"),
        node("Add", "ao h", "y"),
    )
    ids = rng.integers(3, words - 9, (3, length))
    for row, end in zip(ids, (11, 14, 9), strict=True):
        row[end:] = 0
    held = {k: v.astype(np.float32) for k, v in weights.items()}
    return Net(nodes, held, {"x": ids}, "y", ("c",))


NETS: Mapping[str, Callable[[], Net]] = {
    "stem": lambda: conv_net(3, 16, batch=3, pads=[1, 1, 1, 1]),
    "strided": lambda: conv_net(3, 32, 32, pads=[1, 1, 1, 1], strides=[2, 2]),
    "wide": lambda: conv_net(7, 24, 40, pads=[3, 3, 3, 3], strides=[2, 2]),
    "unbiased": lambda: conv_net(3, 8, bias=False),
    "patches": lambda: conv_net(4, 24, batch=2, strides=[4, 4]),
    "branches": branches,
    "prepared": prepared,
    "two_images": two_images,
    "perceptron": lambda: perceptron(20),
    "overdetermined": lambda: perceptron(96),
    "tokens": tokens,
}
MEAN = np.array([0.485, 0.456, 0.406], np.float32).reshape(1, 3, 1, 1)
STD = np.array([0.229, 0.224, 0.225], np.float32).reshape(1, 3, 1, 1)


def moved(x: Array, down: int, right: int) -> Array:
    """*x* moved down and to the right, zeros coming in."""
    found = np.zeros_like(x)
    found[..., down:, right:] = x[..., : x.shape[-2] - down, : x.shape[-1] - right]
    return found


def cropped(x: Array) -> Array:
    """The middle of *x*, each element twice: cropped and made larger."""
    high, wide = x.shape[-2] // 4, x.shape[-1] // 4
    middle = x[..., high : 3 * high, wide : 3 * wide]
    return middle.repeat(2, -1).repeat(2, -2)[..., : x.shape[-2], : x.shape[-1]]


IMAGES: Mapping[str, tuple[Callable[[Array], Array], str]] = {
    "bgr": (lambda x: x[:, ::-1], "axis 1 exchanged"),
    "other channel order": (lambda x: x[:, [1, 2, 0]], "axis 1"),
    "nhwc": (lambda x: x.transpose(0, 2, 3, 1).reshape(x.shape), "0, 2, 3, 1"),
    "nchw": (
        lambda x: x.reshape(x.transpose(0, 2, 3, 1).shape).transpose(0, 3, 1, 2),
        "0, 2, 3, 1",
    ),
    "turned": (lambda x: x.swapaxes(2, 3), "axes 2, 3 exchanged"),
    "left for right": (lambda x: x[..., ::-1], "flipped along axis 3"),
    "upside down": (lambda x: x[:, :, ::-1], "flipped along axis 2"),
    "over 255": (lambda x: x / 255, "times 0.00392"),
    "not over 255": (lambda x: x * 255, "times 255"),
    "halved": (lambda x: x / 2, "times 0.5"),
    "to -1..1": (lambda x: x * 2 - 1, "times"),
    "normalised": (lambda x: (x - MEAN) / STD, "by index of axis 1"),
    "mean off": (lambda x: x - MEAN, "plus -0.4"),
    "bgr and normalised": (lambda x: ((x - MEAN) / STD)[:, ::-1], "by index of axis 1"),
    "shifted": (lambda x: moved(x, 2, 3), "shifted by +2 along axis 2"),
    "rolled": (lambda x: np.roll(x, 3, 3), "shifted by +3 along axis 3"),
    "cut off": (lambda x: np.clip(x, x.mean() * 0.5, x.mean() * 1.4), "cut off"),
    "in 32 steps": (lambda x: np.rint(x * 32 / x.max()) * (x.max() / 32), "rounded"),
    "zeros": (lambda x: x * 0, "zeros"),
    "cropped": (cropped, ""),
    "other data": (lambda x: image(generator(99), *x.shape) * (x.max() / 255), "data"),
    "noisy": (lambda x: x + x.std() * 0.1 * noise(x), "another way"),
    "a corner": (lambda x: np.where(moved(x * 0 + 1, 14, 12) > 0, x.mean(), x), "other"),
}
BATCHES = {
    "other order": (lambda x: np.roll(x, 1, 0), "axis 0"),
    "one for all": (lambda x: x[np.zeros(len(x), int)], "axis 0"),
    "one other": (
        lambda x: np.where(
            np.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1)) == 1, x + noise(x) * x.std(), x
        ),
        "other",
    ),
}
FLAT = {
    "scaled": (lambda x: x / 255, "times"),
    "normalised": (lambda x: (x - x.mean()) / x.std(), "times"),
    "reversed": (lambda x: x[:, ::-1], "flipped along axis 1"),
    "zeros": (lambda x: x * 0, "zeros"),
    "other data": (lambda x: noise(x) * x.std(), "data"),
    **BATCHES,
}
WORDS = {
    "other words": (lambda x: generator(4).integers(3, 290, x.shape), "other"),
    "shifted": (lambda x: np.concatenate([x[:, :1] * 0 + 101, x[:, :-1]], 1), "shifted by +1"),
    "shifted back": (lambda x: np.concatenate([x[:, 1:], x[:, :1] * 0], 1), "shifted by -1"),
    "padded at the left": (lambda x: np.stack([np.roll(r, (r == 0).sum()) for r in x]), "padded"),
    "other vocabulary": (lambda x: x + 4, "plus 4"),
    "reversed": (lambda x: x[:, ::-1], "flipped along axis 1"),
    "one word": (lambda x: np.where(np.arange(x.shape[1]) == 5, 7, x), "in 3 of 48 places"),
    "other order": (lambda x: np.roll(x, 1, 0), "axis 0"),
    "zeros": (lambda x: x * 0, "zeros"),
}


def noise(x: Array) -> Array:
    """Normal numbers of the shape of *x*."""
    return generator(77).normal(size=x.shape)


def relations(net: Net) -> Mapping[str, tuple[Callable[[Array], Array], str]]:
    """Those that fit the first input of *net*."""
    x = net.feeds["x"]
    if x.dtype.kind == "i":
        return WORDS
    if x.ndim == 2:
        return FLAT
    return {**IMAGES, **(BATCHES if len(x) > 1 else {})}


def faults(net: Net) -> Iterator[tuple[str, Weights, bool]]:
    """Faults of the first op as other weights, and whether some input makes the same."""
    weights = net.weights
    name = next(each for each in ("w", "e") if each in weights)
    value = weights[name]
    channels = 1 if value.ndim == 2 else 0
    one = np.arange(value.shape[channels]) == 3
    one = one.reshape([-1 if axis == channels else 1 for axis in range(value.ndim)])
    if "b" in weights:
        yield "no bias", weights | {"b": weights["b"] * 0}, False
        yield (
            "louder",
            weights | {"w": value * np.float32(1.5), "b": weights["b"] * np.float32(1.5)},
            False,
        )
        yield (
            "one offset",
            weights | {"b": weights["b"] + (np.arange(len(weights["b"])) == 2).astype(np.float32)},
            False,
        )
    yield (
        "one channel louder",
        weights | {name: np.where(one, value * np.float32(1.3), value)},
        False,
    )
    yield "one channel dead", weights | {name: np.where(one, 0, value).astype(np.float32)}, False
    off = value * (1 + 0.1 * noise(value))
    yield "other weights", weights | {name: off.astype(np.float32)}, net.free
    if value.ndim == 4:
        yield "flipped kernels", weights | {name: value[..., ::-1].copy()}, net.free
        yield "moved channels", weights | {name: np.roll(value, 1, 0)}, net.free
    if name == "e":
        yield "table louder", weights | {name: value * np.float32(1.1)}, False


@dataclass(frozen=True)
class Case:
    """A device run: its model's ``weights`` and inputs, what it does not dump, what is right."""

    name: str
    weights: Weights
    feeds: Feeds
    hidden: tuple[str, ...]
    right: set[Verdict]
    words: str = ""
    origin: str = ""


def cases(net: Net) -> Iterator[Case]:
    """All cases of a model."""
    hide_first = tuple(f"op_{each}" for each in net.first) if net.first != ("xm",) else ()
    names = tuple(net.feeds)
    ways = {"dumped": (), "undumped": names}
    if hide_first:
        ways["undumped, nor first"] = (*names, *hide_first)
    late = "tw" if "tw" in net.weights else "w2" if "w2" in net.weights else "o"
    other = net.weights | {late: net.weights[late] * np.float32(1.4)}
    for way, hidden in ways.items():
        yield Case(f"healthy, {way}", net.weights, net.feeds, hidden, OK)
        for name, (change, words) in relations(net).items():
            fed = {
                **net.feeds,
                "x": np.ascontiguousarray(change(net.feeds["x"])).astype(net.feeds["x"].dtype),
            }
            right = I if way == "dumped" else I | U
            said = words if way == "dumped" else ""
            yield Case(f"{name}, {way}", net.weights, fed, hidden, right, said)
            if name in ("bgr", "other words", "normalised"):
                yield Case(f"{name} and a late fault, {way}", other, fed, hidden, D, said, late)
        for name, weights, free in faults(net):
            first_seen = way != "undumped, nor first"
            right = D | U if way != "dumped" and (free or not first_seen) else D
            yield Case(f"fault: {name}, {way}", weights, net.feeds, hidden, right)


def ran(net: Net, case: Case, device: StandIn, folder: Path, golden: Path) -> RunData:
    """The comparison of a case; *golden* holds golden's model and dump."""
    folder.mkdir()
    given = saved(case.feeds, folder)
    healthy = golden / f"{device.value}.onnx"
    if device is StandIn.INT8:
        if not healthy.exists():
            calibrated_model(golden, net).replace(healthy)
        model = on_its_scales(healthy, case.weights, folder / "model.onnx")
        capture(CaptureRequest(model, folder / "run", given))
    else:
        model = net.save(folder / "model.onnx", case.weights)
        capture(CaptureRequest(model, folder / "run", given, device=device))
    for name in case.hidden:
        for file in (folder / "run").glob(f"{name}.0.*.npy"):
            file.unlink()
        for file in (folder / "run").glob(f"{name.removeprefix('op_')}.*.npy"):
            if name in case.feeds:
                file.unlink()
    if not healthy.exists():
        healthy.write_bytes(next((folder / "run").glob("*.onnx"), model).read_bytes())
    return compare(CompareRequest(golden / "model.onnx", golden / "run", healthy, folder / "run"))


def calibrated_model(golden: Path, net: Net) -> Path:
    """The model of a device in 8 bits, whose scales come from golden's inputs."""
    feeds = {name: golden / f"{name}.npy" for name in net.feeds}
    request = CaptureRequest(golden / "model.onnx", golden / "calibrated", feeds)
    capture(replace(request, device=StandIn.INT8))
    return next((golden / "calibrated").glob("*.onnx"))


def on_its_scales(healthy: Path, weights: Weights, path: Path) -> Path:
    """The model *healthy* with other weights, at *path*. Its scales stay: a device whose kernel or
    memory is at fault knows nothing of it, and what its sums give is bound by no range."""
    model = onnx.load(healthy)
    held = {each.name: each for each in model.graph.initializer}
    for node in list(model.graph.node):
        integers, scale = (*node.input, "", "")[:2]
        name = integers.removesuffix("_quantized")
        if node.op_type == "DequantizeLinear" and name in weights and integers in held:
            step = numpy_helper.to_array(held[scale])
            value = (np.rint(weights[name] / step) * step).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
            model.graph.node.remove(node)
        for each in set(node.input) & weights.keys() & held.keys():
            held[each].CopyFrom(numpy_helper.from_array(weights[each], each))
    onnx.save(model, path)
    return path


def golden_of(net: Net, folder: Path) -> Path:
    """Golden's model and dump in *folder*."""
    folder.mkdir()
    given = saved(net.feeds, folder)
    capture(CaptureRequest(net.save(folder / "model.onnx"), folder / "run", given))
    return folder


def saved(feeds: Feeds, folder: Path) -> dict[str, Path]:
    """The files of *feeds* in *folder*, by name."""
    files = {name: folder / f"{name}.npy" for name in feeds}
    for name, value in feeds.items():
        np.save(files[name], value)
    return files


def wrong(case: Case, device: StandIn, data: RunData) -> str:
    """What is wrong with an answer, "" if nothing is."""
    verdict = data.run.verdict
    if case.name.startswith("fault") and verdict in OK and not data.run.counts.over:
        return ""  # in a channel that is cut off, nobody sees it
    if case.name.startswith("fault") and verdict in OK and device is StandIn.INT8:
        return ""  # what steps of 8 bits hide is no matter of the inputs
    if verdict in OK and "undumped" in case.name and data.run.result.state is ResultState.RIGHT:
        return ""  # what changes no output by more than rounding does needs no answer
    if verdict not in case.right:
        return f"{verdict.value}, not {' or '.join(sorted(each.value for each in case.right))}"
    said = " ".join(each.relation for each in data.run.analysis.mismatches)
    if case.words not in said:
        return f"the relation is not told: {said!r}"
    if case.origin and not data.run.analysis.doubt:
        return "the inputs are not told"
    return ""


def main() -> None:
    """Run what is asked for and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(NETS))
    parser.add_argument("--devices", default="fp16,int8,fp32")
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--all", action="store_true", help="print every case")
    parser.add_argument("--seed", type=int, default=0, help="other weights and inputs")
    given = parser.parse_args()
    _SEED[0] = given.seed
    counts: Counter[str] = Counter()
    for model in given.models.split(","):
        for device in given.devices.split(","):
            start = time.process_time()
            with tempfile.TemporaryDirectory() as place:
                net = NETS[model]()
                golden = golden_of(net, Path(place) / "golden")
                for number, case in enumerate(cases(net)):
                    if given.only not in case.name:
                        continue
                    try:
                        data = ran(net, case, StandIn(device), Path(place) / str(number), golden)
                        bad = wrong(case, StandIn(device), data)
                        answer = data.run.verdict.value
                        relation = "; ".join(x.relation for x in data.run.analysis.mismatches)
                        first = ", ".join(x.op for x in data.origins[:2])
                    except Exception as error:  # noqa: BLE001 - counted as wrong, and named
                        bad, answer, relation, first = repr(error), "error", "", ""
                    counts["wrong" if bad else "right"] += 1
                    counts[f"{answer}"] += 1
                    if bad or given.all:
                        name = f"{'WRONG' if bad else 'right'} {model} {device} {case.name}"
                        print(f"{name}: {answer} [{relation}] {first} {bad}", flush=True)
            print(f"{model} {device}: {time.process_time() - start:.0f} CPU s", file=sys.stderr)
    print(dict(counts))
    sys.exit(bool(counts["wrong"]))


if __name__ == "__main__":
    main()
