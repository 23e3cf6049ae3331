"""Devices whose linear layers read eight bits or fewer: is none of their ops blamed for that, and
still the one that is wrong?

    python benchmarks/root_cause/narrow_formats.py [--formats e4m3-row,int4] [--models transformer]
        [--seeds 1] [--faults 4] [--every 3]

Formats are written here once more, in NumPy and ml_dtypes, and not taken from the product. All else
of the device is bfloat16 (or float32 with ``--held fp32``); the last product stays as it is.
``--every`` leaves only every k-th tensor in the dump, and the faulty one.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from faults import VALUE_FAULTS, Array, Context, faulty_values
from generated import GENERATED
from op_runner import OpRunner, float_outputs

from divergraph.comparison import CompareRequest, compare
from divergraph.rootcause.options import MethodChoice

Rounded = Callable[[Array], Array]
"""[rows, terms of the sum] as the multiplier reads them."""
_SEEN = 1.0
"""Faults below so many times the op's own error in the device's arithmetic are not asked for."""


def bf16(value: Array) -> Array:
    """Rounded to bfloat16, in float32."""
    return np.asarray(value.astype(ml_dtypes.bfloat16).astype(np.float32))


def scaled(
    element: type | int,
    largest: float,
    size: int = 0,
    *,
    axes: tuple[int, ...] = (2, 3),
    tile: int = 1,
    power: bool = False,
    held: type | None = None,
) -> Rounded:
    """Values over a scale that takes the largest of those that share it to *largest*.

    *size* terms share one (0: all), and *tile* rows; *axes* of [row blocks, term blocks, rows,
    terms] are those that share: (0, 1, 2, 3) is the tensor, (0, 2) a column.
    """

    def rounded(rows: Array) -> Array:
        terms = size or rows.shape[1]
        more = [(0, -rows.shape[0] % tile), (0, -rows.shape[1] % terms)]
        wide = np.pad(rows, more)
        cut = wide.reshape(wide.shape[0] // tile, tile, -1, terms).transpose(0, 2, 1, 3)
        scale = np.abs(cut).max(axis=axes, keepdims=True) / np.float32(largest)
        if power:
            scale = np.exp2(np.ceil(np.log2(np.maximum(scale, 1e-30)))).astype(np.float32)
        if held is not None:
            scale = scale.astype(held).astype(np.float32)
        scale = np.where(scale > 0, scale, np.float32(1))
        if isinstance(element, int):
            made = np.clip(np.round(cut / scale), -element, element)
        else:
            made = np.clip(cut / scale, -largest, largest).astype(element).astype(np.float32)
        back = (made * scale).transpose(0, 2, 1, 3).reshape(wide.shape)
        return np.asarray(back[: rows.shape[0], : rows.shape[1]])

    return rounded


def unscaled(element: type, largest: float) -> Rounded:
    """The values themselves in a short type."""
    return lambda rows: np.clip(rows, -largest, largest).astype(element).astype(np.float32)


def grouped(size: int, bits: int = 4) -> Rounded:
    """Integers from 0 or the least to the largest of a group, scales and results in bfloat16."""

    def rounded(rows: Array) -> Array:
        wide = np.pad(rows, [(0, 0), (0, -rows.shape[1] % size)])
        cut = wide.reshape(len(rows), -1, size)
        low, high = (np.minimum(cut.min(2), 0)[..., None], np.maximum(cut.max(2), 0)[..., None])
        scale = bf16((high - low) / np.float32(2**bits - 1))
        scale = np.where(scale > 0, scale, np.float32(1))
        zero = np.round(-low / scale)
        steps = np.clip(np.round(cut / scale) + zero, 0, 2**bits - 1) - zero
        return bf16((steps * scale).reshape(wide.shape)[:, : rows.shape[1]])

    return rounded


def hif8(rows: Array) -> Array:
    """The nearest number of HiF8, of all 256: Ascend's tapered 8 bits."""
    numbers = {0.0, *(2.0**e for e in range(-22, -15))}
    for exponent in range(-15, 16):
        bits = 3 if abs(exponent) <= 3 else 2 if abs(exponent) <= 7 else 1
        numbers |= {2.0**exponent * (1 + k / 2**bits) for k in range(2**bits)}
    grid = np.array(sorted(numbers))
    above = np.searchsorted((grid[1:] + grid[:-1]) / 2, np.abs(rows), side="right")
    return np.asarray(np.copysign(grid[above], rows), np.float32)


E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
E2M1, E3M2 = ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e3m2fn
WHOLE, COLUMN = (0, 1, 2, 3), (0, 2)


def as_it_is(rows: Array) -> Array:
    """Nothing is rounded."""
    return rows


FORMATS: Mapping[str, tuple[Rounded, Rounded]] = {
    "bf16": (as_it_is, as_it_is),
    "e4m3-tensor": (scaled(E4M3, 448, axes=WHOLE), scaled(E4M3, 448, axes=WHOLE)),
    "e4m3-row": (scaled(E4M3, 448), scaled(E4M3, 448)),
    "e4m3-128": (scaled(E4M3, 448, 128), scaled(E4M3, 448, 128, tile=128)),
    "e5m2-e4m3": (unscaled(E5M2, 57344), scaled(E4M3, 448)),
    "mxfp8": (scaled(E4M3, 448, 32, power=True), scaled(E4M3, 448, 32, power=True)),
    "mxfp4": (scaled(E2M1, 6, 32, power=True), scaled(E2M1, 6, 32, power=True)),
    "nvfp4": (scaled(E2M1, 6, 16, held=E4M3), scaled(E2M1, 6, 16, held=E4M3)),
    "int8-row": (scaled(127, 127), scaled(127, 127)),
    "int4-32": (as_it_is, grouped(32)),
    "w4a8": (scaled(127, 127), grouped(64)),
    # Not looked at before the rest was done:
    "e4m3-column": (scaled(E4M3, 448, axes=COLUMN), scaled(E4M3, 448)),
    "e4m3-64": (scaled(E4M3, 448, 64), scaled(E4M3, 448, 64)),
    "mxfp6": (scaled(E3M2, 28, 32, power=True), scaled(E3M2, 28, 32, power=True)),
    "hif8": (hif8, hif8),
    "int4-128": (as_it_is, grouped(128)),
    "e4m3-row-bf16": (
        scaled(E4M3, 448, held=ml_dtypes.bfloat16),
        scaled(E4M3, 448, held=ml_dtypes.bfloat16),
    ),
}

IN_WORDS: Mapping[str, str] = {
    "bf16": "bf16",
    "e4m3-tensor": "bf16/e4m3 by tensor",
    "e4m3-row": "bf16/e4m3 by row",
    "e4m3-128": "bf16/e4m3 by 128 x e4m3 by 128x128",
    "e5m2-e4m3": "bf16/e5m2 x e4m3 by row",
    "mxfp8": "bf16/e4m3 by 32, power of two, up",
    "mxfp4": "bf16/e2m1 by 32, power of two, up",
    "nvfp4": "bf16/e2m1 by 16, e4m3 alone",
    "int8-row": "bf16/int8 by row",
    "int4-32": "bf16/plain x int4 by 32, from the least, held in bf16",
    "w4a8": "bf16/int8 by row x int4 by 64, from the least, held in bf16",
    "e4m3-column": "bf16/e4m3 by column x e4m3 by row",
    "e4m3-64": "bf16/e4m3 by 64",
    "mxfp6": "bf16/e3m2 by 32, power of two, up",
    "hif8": "bf16/hif8",
    "int4-128": "bf16/plain x int4 by 128, from the least, held in bf16",
    "e4m3-row-bf16": "bf16/e4m3 by row, held in bf16",
}
"""What a run says of a device in bfloat16 with each of the formats."""


class NarrowRunner(OpRunner):
    """Products by a constant read both factors rounded, but for the last, which stays plain."""

    activation: Rounded = staticmethod(as_it_is)
    weight: Rounded = staticmethod(as_it_is)

    def _outputs(self, number: int, values: Mapping[str, Array]) -> dict[str, Array]:
        node = self.nodes[number]
        plain = [n for n, each in enumerate(self.nodes) if each.op_type == "MatMul"][-1]
        linear = node.op_type == "MatMul" and node.input[1] in self.constants and number != plain
        if not linear:
            return super()._outputs(number, values)
        x, w = (values[name] for name in node.input)
        first = self.activation(x.reshape(-1, x.shape[-1]))
        made = first @ self.weight(np.ascontiguousarray(w.T)).T
        return self._after(node, {node.output[0]: made.reshape(*x.shape[:-1], -1)})


def runner(model: Path, name: str, held: str) -> NarrowRunner:
    """The device that reads the format *name* and holds values in *held*."""

    def after(_node: onnx.NodeProto, _name: str, value: Array) -> Array:
        return bf16(value) if held == "bf16" and value.dtype == np.float32 else value

    found = NarrowRunner(onnx.load_model(str(model)), after)
    found.activation, found.weight = FORMATS[name]
    if held == "bf16":
        for each, value in found.constants.items():
            if value.dtype == np.float32 and np.abs(value).max(initial=0) > 0:
                found.constants[each] = bf16(value)
    return found


def dump(folder: Path, runs: OpRunner, values: Mapping[str, Array], names: list[str]) -> Path:
    """The tensors *names* as a dump."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    makers = {out: (node.name, port) for node in runs.nodes for port, out in enumerate(node.output)}
    for number, name in enumerate(names):
        op, port = makers.get(name, (name, 0))
        np.save(folder / f"{op}.{port}.{1_700_000_000_000_000 + number}.npy", values[name])
    return folder


def case(
    folder: Path, made: str, name: str, seed: int, args: argparse.Namespace
) -> tuple[int, int, int]:
    """Runs one model on one device: (guilty of the healthy run, faults, found first)."""
    model, feeds = GENERATED[made](seed)
    for node in model.graph.node:
        node.name = node.output[0]
    path = folder / "model.onnx"
    onnx.save_model(model, str(path))
    golden, device = OpRunner.of(path), runner(path, name, args.held)
    right, healthy = golden.run(feeds), device.run(feeds)
    outputs = [node.output[0] for node in golden.nodes if node.op_type != "Constant"]
    sides = dump(folder / "golden", golden, right, [*feeds, *outputs])
    shown = [*feeds, *outputs[:: args.every]]

    def analysed(values: Mapping[str, Array], names: list[str]) -> list[str]:
        there = dump(folder / "device", device, values, list(dict.fromkeys(names)))
        request = CompareRequest(path, sides, path, there, method=MethodChoice.ROOT_CAUSE)
        data = compare(request)
        if args.list:
            said = data.run.analysis.arithmetic.operands
            print("   ", data.run.verdict, dict(said), data.run.analysis.doubt)
        return [origin.op for origin in data.origins]

    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    blamed = analysed(healthy, shown)
    cost = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
    draw = np.random.default_rng(seed)
    places = list(float_outputs(device, healthy))
    faults = first = 0
    for _ in range(20 * args.faults):
        if faults == args.faults:
            break
        number = int(draw.choice(places))
        tensor = device.nodes[number].output[0]
        kind = list(VALUE_FAULTS)[draw.integers(len(VALUE_FAULTS))]
        value = healthy[tensor]
        wrong = faulty_values(VALUE_FAULTS[kind], value, draw, Context(node=device.nodes[number]))
        if wrong is None or not np.isfinite(value).all():
            continue
        own = np.linalg.norm(golden_of(golden, number, healthy) - value)
        if not np.linalg.norm(np.nan_to_num(wrong) - value) > _SEEN * own:
            continue
        changed = rerun(device, healthy, number, wrong)
        found = analysed(changed, [*shown, tensor])
        faults += 1
        first += found[:1] == [tensor]
        if args.list and found[:1] != [tensor]:
            print(f"    missed: {kind} in {tensor} ({device.nodes[number].op_type}): {found[:3]}")
    guilty = len(blamed)
    print(
        f"{made:12} {name:14} seed {seed}: guilty {guilty}, first {first} of {faults}, {cost:.1f} s"
    )
    return guilty, faults, first


def golden_of(golden: OpRunner, number: int, values: Mapping[str, Array]) -> Array:
    """What the original op makes of the device's *values*."""
    node = golden.nodes[number]
    return golden._outputs(number, {**values, **golden.constants})[node.output[0]]


def rerun(device: OpRunner, values: Mapping[str, Array], number: int, wrong: Array) -> dict:
    """The run from the *wrong* output of a node on."""
    new = {**values, device.nodes[number].output[0]: wrong}
    for later in range(number + 1, len(device.nodes)):
        new.update(device._outputs(later, new))
    return new


def main() -> None:
    """Count over all that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--models", default="transformer")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--faults", type=int, default=3)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--held", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    total = np.zeros(3, int)
    blamed = runs = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in args.formats.split(","):
            for made in args.models.split(","):
                for seed in map(int, args.seeds.split(",")):
                    found = case(Path(folder), made, name, seed, args)
                    total += found
                    blamed, runs = blamed + (found[0] > 0), runs + 1
    print(f"healthy runs with guilty ops {blamed} of {runs}; faults first {total[2]} of {total[1]}")


if __name__ == "__main__":
    main()
