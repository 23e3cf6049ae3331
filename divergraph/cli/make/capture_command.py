"""``divergraph capture``."""

from __future__ import annotations

import math
from pathlib import Path

import click

from divergraph.cli.capture_text import say_doubts, say_left_out
from divergraph.cli.input_files import input_files, inputs_option, seed_option
from divergraph.cli.options import print_record
from divergraph.cli.say import say
from divergraph.text.words import counted
from graphstore.errors import InputError

_path = click.Path(path_type=Path, readable=False)  # the readers say it in one line
_PRECISIONS = ("float32", "float64")
_DEVICES = ("fp32", "fp16", "int8", "optimized", "cpu", "cuda", "npu")
_TYPES = ("bf16", "fp16", "fp32", "fp64")


@click.command("capture")
@click.argument("model", type=_path)
@inputs_option
@click.option("--output", "-o", type=_path, metavar="DIR", help="Where to write.")
@click.option(
    "--coverage",
    "only_coverage",
    is_flag=True,
    help="Say which ops of a Caffe, TensorFlow or Ascend model can be run here, and write nothing.",
)
@click.option(
    "--device",
    type=click.Choice(_DEVICES),
    default="fp32",
    show_default=True,
    help="Run the model as it is, or a stand-in for a device; with --torch: where to run it.",
)
@click.option(
    "--torch",
    "is_torch",
    is_flag=True,
    help="MODEL is script.py:NAME, a torch.nn.Module or a function: record each of its calls.",
)
@click.option(
    "--dtype",
    type=click.Choice(_TYPES),
    help="With --torch: the type of parameters and inputs (default: as the script says).",
)
@click.option(
    "--precision",
    type=click.Choice(_PRECISIONS),
    help="Compute as the model says, or in float64, each result rounded once to its own type.",
)
@seed_option
@click.option(
    "--from-device",
    nargs=2,
    type=_path,
    metavar="GRAPH DUMP",
    help="Take the other inputs from a device's dump: a golden side for a device run without one.",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=SIZES",
    help="Shape of an input that is made up: x=1,3,224,224.",
)
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="[NAME=]LOW..HIGH",
    help="Values of an input that is made up, or of all: x=0..255.",
)
@click.option(
    "--memory",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    metavar="MIB",
    help="Tensors held at once, weights not counted.",
)
@click.option(
    "--weights",
    type=_path,
    metavar="FILE",
    help="Caffe: the .caffemodel (default: the one next to the net, with its name).",
)
@click.option(
    "--checkpoint",
    metavar="PREFIX",
    help="TensorFlow: the checkpoint with the variables (default: the one next to the model).",
)
@click.option(
    "--variables",
    type=_path,
    metavar="DIR",
    help="TensorFlow: a dump with the variables' values before the step.",
)
@click.option(
    "--train-op",
    metavar="NAME",
    help="TensorFlow: the op that ends a training step (default: the collection train_op).",
)
@click.option(
    "--write-tfdbg-driver",
    type=_path,
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, file: _write_driver(context, file),
    help="Write a script that dumps a TensorFlow 1 step through tfdbg, and do nothing else.",
)
@click.option("--replace", "replace_it", is_flag=True, help="Write over an earlier capture.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def capture_command(
    model: Path,
    inputs: tuple[str, ...],
    output: Path | None,
    only_coverage: bool,
    device: str,
    is_torch: bool,
    dtype: str | None,
    precision: str | None,
    seed: int | None,
    from_device: tuple[Path, Path] | None,
    shapes: tuple[str, ...],
    ranges: tuple[str, ...],
    memory: int,
    weights: Path | None,
    checkpoint: str | None,
    variables: Path | None,
    train_op: str | None,
    replace_it: bool,
    as_json: bool,
) -> None:
    """Run MODEL here and write every tensor it makes: a golden dump.

    With --device, a stand-in for a device is made of an ONNX model, run and kept in the
    folder, so that the whole tool can be tried without an accelerator:

    \b
    divergraph capture model.onnx --random 1 -o golden
    divergraph capture model.onnx --random 1 -o fp16 --device fp16
    divergraph compare --golden model.onnx --golden-dump golden
        --device fp16/model.fp16.onnx --device-dump fp16

    With --torch, PyTorch runs a model or a step of a script:

    \b
    divergraph capture --torch net.py:model --inputs image=image.npy -o golden
    """
    from divergraph.api.capture import TORCH_DEVICES, capture, capture_torch

    if only_coverage:
        _show_coverage(model, as_json=as_json)
        return
    if output is None:
        raise click.UsageError("Missing option '--output' / '-o'.")
    if not is_torch and (dtype or device in TORCH_DEVICES):
        raise click.UsageError(f"{dtype or device} is for models of PyTorch: --torch")
    if is_torch:
        result = capture_torch(
            str(model),
            output,
            input_files(inputs),
            device="cpu" if device == _DEVICES[0] else device,
            dtype=dtype,
            seed=seed,
            replace=replace_it,
        )
    else:
        result = capture(
            model,
            output,
            input_files(inputs),
            seed=seed,
            from_device=from_device,
            shapes=_shapes(shapes),
            ranges=_ranges(ranges),
            device=device,
            precision=precision,
            memory=memory,
            weights=weights,
            checkpoint=checkpoint,
            variables=variables,
            train_op=train_op,
            replace=replace_it,
            progress=True,
        )
    if as_json:
        print_record(result)
        return
    say_left_out(result)
    say_doubts(result)
    say(
        f"{result.folder}: {counted(result.tensors, 'tensor')}, {result.bytes / 1e6:.1f} MB, "
        f"of {result.model} run by {result.executor}"
    )


def _show_coverage(model: Path, *, as_json: bool) -> None:
    from divergraph.api.capture import coverage

    answer = coverage(model)
    if as_json:
        print_record(answer)
        return
    say(
        f"{model}: {answer.translated} of {counted(answer.ops, 'op')} and "
        f"{answer.translated_types} of {counted(answer.types, 'type')} can be run here"
    )
    for kind, count in answer.without.items():
        say(f"  {count:6}  {kind}: no translation")


def _write_driver(context: click.Context, file: Path | None) -> None:
    if file is None or context.resilient_parsing:
        return
    from divergraph.api.capture import write_tfdbg_driver

    write_tfdbg_driver(file)
    say(f"{file}: copy it to the machine with TensorFlow 1; --help says how it is used")
    context.exit()


def _shapes(texts: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for text in (text for several in texts for text in several.split(";")):
        name, sizes = _named(text) if "=" in text or "[" in text else text.rpartition(":")[::2]
        parts = [part.strip() for part in sizes.strip("[]()").replace("x", ",").split(",")]
        parts = [part for part in parts if part]
        if not name or not all(part.isdecimal() and len(part) < 10 for part in parts):
            raise InputError(f"{text!r} is no shape", hint="--shape NAME=1,3,224,224")
        shapes[name] = tuple(map(int, parts))
    return shapes


def _ranges(texts: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    ranges: dict[str, tuple[float, float]] = {}
    for text in texts:
        name, ends = _named(text)
        bracketed = ends.startswith("[")
        low, _, high = ends.strip("[]").partition("," if bracketed else "..")
        try:
            ranges[name] = float(low), float(high)
        except ValueError:
            raise InputError(f"{text!r} is no range", hint="--range NAME=0..255") from None
        if not -math.inf < ranges[name][0] <= ranges[name][1] < math.inf:
            raise InputError(f"{text!r} is no range", hint="--range NAME=0..255")
    return ranges


def _named(text: str) -> tuple[str, str]:
    """The name and what is said of it: ``NAME=…``, or ``NAME:[…]`` as Polygraphy writes it."""
    name, sign, range_text = text.rpartition(":[")
    if sign:
        return name, f"[{range_text}"
    name, _, range_text = text.rpartition("=")
    return name, range_text
