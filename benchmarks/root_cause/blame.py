"""Which rankings find the ops to keep in higher precision, proved by really keeping them.

    python benchmarks/root_cause/blame.py [--models yolox,cls] [--devices int8,fp16x] [--keep 10]

Prints the outputs' error with the first k ops of each list exact, over the error with none.
The device is an emulated one, so "keeping" an op is a new run of the device in which the
op is computed as in the original model; nothing of it comes from the prediction.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from devices import DEVICES, Device
from faults import Array
from measured import graph_outputs, relative_error
from models import feeds, prepared
from op_runner import OpRunner, float_outputs

from divergraph.execution.onnxruntime_executor import OnnxRuntimeExecutor
from divergraph.root_cause.blame import Blame, Introduced, blame
from importers.onnx_model.importer import OnnxImporter

_FAILS = 0.14
"""The relative error at which the cosine falls below 0.99."""


def run_keeping(
    device: Device, golden: OpRunner, given: Mapping[str, Array], exact: Collection[str]
) -> dict[str, Array]:
    """The device's run with the ops that make tensors *exact* computed as in the original."""
    runner = device.runner
    original = {node.output[0]: number for number, node in enumerate(golden.nodes)}
    values = {"": np.zeros(0), **runner.constants, **given}
    for number, node in enumerate(runner.nodes):
        name = node.output[0]
        if name in exact:
            held = {each: v for each, v in values.items() if each not in golden.constants}
            values.update(golden._outputs(original[name], {**held, **golden.constants}))
        else:
            values.update(runner._outputs(number, values))
    return values


def introduced_errors(golden: OpRunner, values: Mapping[str, Array]) -> list[Introduced]:
    """d - f(d_in) of every float tensor, *values* being the device's."""
    found = []
    for number in float_outputs(golden, values):
        name = golden.nodes[number].output[0]
        reference = golden._outputs(number, {**values, **golden.constants})[name]
        with np.errstate(invalid="ignore"):
            error = np.where(np.isfinite(reference), values[name] - reference, np.float32(0))
        size = float(np.linalg.norm(reference.astype(np.float64))) or 1.0
        relative = float(np.linalg.norm(error.astype(np.float64))) / size
        if relative:
            given = partial(_given, error)
            found.append(Introduced(name, 0, name, (name,), relative, 1.0, given))
    return found


def _given(value: Array) -> Array:
    return value


def final(
    outputs: Sequence[str], values: Mapping[str, Array], golden: Mapping[str, Array]
) -> float:
    """The root of the summed squares of the outputs' relative errors."""
    errors = [relative_error(values[name], golden[name]) for name in outputs]
    return float(np.linalg.norm(errors))


def rankings(
    found: Blame,
    introduced: Sequence[Introduced],
    values: Mapping[str, Array],
    golden: OpRunner,
    clean: Mapping[str, Array],
) -> dict[str, list[str]]:
    """The lists to compare, by name; "worst tensor" and "first over" are what tables show."""
    made = {node.output[0] for node in golden.nodes}
    names = [each.tensor for each in introduced]
    compared = [name for name in clean if clean[name].dtype.kind == "f" and name in made]
    worst = sorted(compared, key=lambda name: -relative_error(values[name], clean[name]))
    over = [name for name in compared if relative_error(values[name], clean[name]) > _FAILS]
    local = sorted(introduced, key=lambda each: -each.error)
    mixed = np.random.default_rng(3).permutation(names).tolist()
    return {
        "blame": [each.tensor for each in found.keep],
        "largest contribution": [each.tensor for each in found.shares],
        "introduced error": [each.tensor for each in local],
        "worst tensor": worst,
        "first over": over,
        "random": mixed,
    }


def study(
    model: str, kind: str, keep: int, seed: int, folder: Path, show: Callable[[str], None]
) -> float:
    """Print the table of one model on one device; what blame's list leaves."""
    path, given = prepared(model), feeds(model, seed)
    golden = OpRunner.of(path)
    clean = golden.run(given)
    device = DEVICES[kind](path, clean, folder)
    values = device.runner.run(given)
    introduced = introduced_errors(golden, values)
    outputs = [name for name in graph_outputs(golden.model) if clean[name].dtype.kind == "f"]
    executor = OnnxRuntimeExecutor(path, OnnxImporter().read(path))
    start = time.process_time()
    tensors = [each.tensor for each in introduced]
    open_model = executor.with_additions(given, tensors, outputs)
    found = blame(open_model, introduced, {name: values[name] for name in outputs}, keep=keep)
    seconds = time.process_time() - start
    base = final(outputs, values, clean)
    show(f"\n{model} on {kind}, input {seed}: {len(introduced)} ops err, outputs off by {base:.3g}")
    signed = sum(each.share for each in found.shares)
    show(f"  shares sum to {signed:.2f}; all errors together leave {found.unexplained:.2g} open;")
    show(f"  {found.runs} runs, {seconds:.1f} s of CPU")
    counts = sorted({1, 3, keep // 2, keep})
    lefts: dict[str, float] = {}
    show(f"  {'kept exact':<22}" + "".join(f"{count:>8}" for count in counts))
    for name, listed in rankings(found, introduced, values, golden, clean).items():
        left = [
            final(outputs, run_keeping(device, golden, given, set(listed[:count])), clean) / base
            for count in counts
        ]
        lefts[name] = left[-1]
        show(f"  {name:<22}" + "".join(f"{each:>8.2f}" for each in left))
    predicted = [each.left for each in found.keep]
    shown = [predicted[min(count, len(predicted)) - 1] for count in counts]
    show(f"  {'(blame, as predicted)':<22}" + "".join(f"{each:>8.2f}" for each in shown))
    return lefts["blame"]


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="yolox,cls,det,magika")
    parser.add_argument("--devices", default="int8,fp16x")
    parser.add_argument("--keep", type=int, default=10)
    parser.add_argument("--inputs", default="0", help="seeds of the inputs, with commas")
    options = parser.parse_args()
    for model in options.models.split(","):
        for kind in options.devices.split(","):
            left = []
            for seed in map(int, options.inputs.split(",")):
                with tempfile.TemporaryDirectory() as folder:
                    left.append(study(model, kind, options.keep, seed, Path(folder), print))
            if len(left) > 1:
                print(f"\n{model} on {kind}: blame leaves {np.mean(left):.2f} in the mean")


if __name__ == "__main__":
    main()
