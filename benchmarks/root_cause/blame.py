"""Which rankings find the ops to keep in higher precision, proved by really keeping them.

    python benchmarks/root_cause/blame.py [--models yolox,cls] [--devices int8,fp16x] [--keep 10]
    python benchmarks/root_cause/blame.py --inputs 0,1,2 --held-out 10,11,12 --devices int8

Prints the outputs' error with the first k ops of each list exact, over the error with none; with
inputs held out, what the lists of each of the other inputs and of all of them leave there.
The product reads the models and dumps from disk as it does for a user. "Keeping" an op is a new
run of the device in which the op is computed as in the original model; nothing of it comes from
the prediction.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from analysed import Golden, analyse
from devices import DEVICES, Device
from faults import Array
from measured import graph_outputs, relative_error, write_dump
from models import feeds, prepared
from op_runner import OpRunner, float_outputs

from divergraph.blame.attribution import Blame
from divergraph.blame.keep_lists import block_list_lines
from divergraph.blame.run import BlameChoice, blame_run
from divergraph.jobs.progress import NO_PROGRESS
from divergraph.rootcause.options import RootCauseOptions
from graphstore.contract import RunData
from importers.registry import read_graph

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


def introduced_errors(golden: OpRunner, values: Mapping[str, Array]) -> dict[str, float]:
    """The relative size of d - f(d_in) of every float tensor, *values* being the device's."""
    found = {}
    for number in float_outputs(golden, values):
        name = golden.nodes[number].output[0]
        reference = golden._outputs(number, {**values, **golden.constants})[name]
        with np.errstate(invalid="ignore"):
            error = np.where(np.isfinite(reference), values[name] - reference, np.float32(0))
        size = float(np.linalg.norm(reference.astype(np.float64))) or 1.0
        relative = float(np.linalg.norm(error.astype(np.float64))) / size
        if relative:
            found[name] = relative
    return found


@dataclass(frozen=True)
class Asked:
    """What the product says, and the tensors its picks and largest shares are about."""

    data: RunData
    found: Blame
    picks: tuple[tuple[str, ...], ...]
    shares: tuple[tuple[str, ...], ...]
    cpu: float


def ask(
    path: Path,
    golden: OpRunner,
    clean: Mapping[str, Array],
    device: Device,
    values: Mapping[str, Array],
    folder: Path,
    keep: int,
) -> Asked:
    """Dump both sides, compare, blame."""
    dump = folder / "golden_dump"
    write_dump(dump, read_graph(path), Device("golden", path, golden), clean, set())
    data = analyse(Golden(path, dump), device, values, set(), folder).data
    return ask_again([data], keep)


def ask_again(runs: Sequence[RunData], keep: int) -> Asked:
    """Blame runs compared before, all together."""
    data, *others = runs
    start = time.process_time()
    found = blame_run(data, RootCauseOptions(), BlameChoice(keep), NO_PROGRESS, others)
    seconds = time.process_time() - start
    made = {op.name: op.outputs[0].name for op in data.golden.ops}
    picks = tuple(
        tuple(made[name] for name in block_list_lines(data, [each])) for each in found.keep
    )
    return Asked(data, found, picks, tuple((each.tensor,) for each in found.shares), seconds)


def final(
    outputs: Sequence[str], values: Mapping[str, Array], golden: Mapping[str, Array]
) -> float:
    """The root of the summed squares of the outputs' relative errors."""
    errors = [relative_error(values[name], golden[name]) for name in outputs]
    return float(np.linalg.norm(errors))


def rankings(
    asked: Asked,
    introduced: Mapping[str, float],
    values: Mapping[str, Array],
    golden: OpRunner,
    clean: Mapping[str, Array],
) -> dict[str, Sequence[tuple[str, ...]]]:
    """The lists to compare, by name; "worst tensor" and "first over" are what tables show."""
    made = {node.output[0] for node in golden.nodes}
    compared = [name for name in clean if clean[name].dtype.kind == "f" and name in made]
    worst = sorted(compared, key=lambda name: -relative_error(values[name], clean[name]))
    over = [name for name in compared if relative_error(values[name], clean[name]) > _FAILS]
    local = sorted(introduced, key=lambda name: -introduced[name])
    mixed = np.random.default_rng(3).permutation(list(introduced)).tolist()
    single = {"introduced error": local, "worst tensor": worst, "first over": over, "random": mixed}
    return {
        "blame": asked.picks,
        "largest contribution": asked.shares,
        **{name: [(each,) for each in listed] for name, listed in single.items()},
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
    asked = ask(path, golden, clean, device, values, folder, keep)
    found = asked.found
    base = final(outputs, values, clean)
    show(f"\n{model} on {kind}, input {seed}: {len(introduced)} ops err, outputs off by {base:.3g}")
    signed = sum(each.share for each in found.shares)
    show(f"  shares sum to {signed:.2f}; all errors together leave {found.unexplained:.2g} open;")
    show(f"  {found.runs} runs, {asked.cpu:.1f} s of CPU")
    counts = sorted({1, 3, keep // 2, keep})
    lefts: dict[str, float] = {}
    show(f"  {'kept exact':<22}" + "".join(f"{count:>8}" for count in counts))
    for name, listed in rankings(asked, introduced, values, golden, clean).items():
        exact = [{each for pick in listed[:count] for each in pick} for count in counts]
        left = [
            final(outputs, run_keeping(device, golden, given, each), clean) / base for each in exact
        ]
        lefts[name] = left[-1]
        show(f"  {name:<22}" + "".join(f"{each:>8.2f}" for each in left))
    for name, told in (
        ("(blame, as predicted)", [each.left for each in found.keep]),
        ("(on other inputs)", [each.anew for each in found.keep]),
    ):
        shown = [told[min(count, len(told)) - 1] for count in counts] if told else []
        show(f"  {name:<22}" + "".join(f"{each:>8.2f}" for each in shown))
    return lefts["blame"]


def study_held_out(
    model: str, kind: str, keep: int, inputs: Sequence[int], held_out: Sequence[int], folder: Path
) -> None:
    """Print what lists of single inputs and that of all leave on inputs held out."""
    path = prepared(model)
    golden = OpRunner.of(path)
    clean = {seed: golden.run(feeds(model, seed)) for seed in (*inputs, *held_out)}
    # Scales that fit all but the inputs held out.
    widest = {
        name: max((clean[seed][name] for seed in inputs), key=_width)
        if clean[inputs[0]][name].dtype.kind == "f"
        else clean[inputs[0]][name]
        for name in clean[inputs[0]]
    }
    device = DEVICES[kind](path, widest, folder)
    values = {seed: device.runner.run(feeds(model, seed)) for seed in clean}
    outputs = [name for name in graph_outputs(golden.model) if widest[name].dtype.kind == "f"]
    base = {seed: final(outputs, values[seed], clean[seed]) for seed in clean}

    def show(label: str, asked: Asked) -> None:
        exact = {each for pick in asked.picks for each in pick}
        left = {
            seed: final(outputs, run_keeping(device, golden, feeds(model, seed), exact), wanted)
            / base[seed]
            for seed, wanted in clean.items()
        }
        told = asked.found.keep[-1]
        print(f"  {label:<14}" + "".join(f"{each:>7.2f}" for each in left.values()), end="")
        print(f"   told {told.left:.2f} {told.anew:.2f}, {asked.cpu:.1f} s of CPU", flush=True)

    print(f"\n{model} on {kind}: {keep} ops, inputs {inputs}, held out {held_out}")
    runs = []
    for seed in inputs:
        place = folder / str(seed)
        place.mkdir()
        asked = ask(path, golden, clean[seed], device, values[seed], place, keep)
        runs.append(replace(asked.data, run=replace(asked.data.run, name=str(seed))))
        show(f"by input {seed}", asked)
    show("by all", ask_again(runs, keep))


def _width(value: Array) -> float:
    return float(np.max(np.abs(value), initial=0.0))


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="yolox,cls,det,magika")
    parser.add_argument("--devices", default="int8,fp16x")
    parser.add_argument("--keep", type=int, default=10)
    parser.add_argument("--inputs", default="0", help="seeds of the inputs, with commas")
    parser.add_argument("--held-out", default="", help="seeds of inputs to try the lists on")
    options = parser.parse_args()
    inputs = list(map(int, options.inputs.split(",")))
    for model in options.models.split(","):
        for kind in options.devices.split(","):
            if options.held_out:
                held_out = list(map(int, options.held_out.split(",")))
                with tempfile.TemporaryDirectory() as folder:
                    study_held_out(model, kind, options.keep, inputs, held_out, Path(folder))
                continue
            left = []
            for seed in inputs:
                with tempfile.TemporaryDirectory() as folder:
                    left.append(study(model, kind, options.keep, seed, Path(folder), print))
            if len(left) > 1:
                print(f"\n{model} on {kind}: blame leaves {np.mean(left):.2f} in the mean")


if __name__ == "__main__":
    main()
