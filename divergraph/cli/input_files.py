"""The options that say what goes into a model that is run here."""

from __future__ import annotations

from pathlib import Path

import click

from graphstore.errors import InputError

inputs_option = click.option(
    "--inputs",
    "-i",
    "inputs",
    multiple=True,
    metavar="NAME=FILE",
    help="Value of an input: .npy, raw .bin, ONNX .pb, or a file that names its tensors (.npz, "
    "Polygraphy's JSON). NAME= may be left out of such, or if there is one input. random:SEED "
    "makes it up.",
)
seed_option = click.option(
    "--random", "seed", type=int, metavar="SEED", help="Make up the other inputs."
)


def input_files(inputs: tuple[str, ...]) -> dict[str, Path]:
    """The file of each input; "" stands for the only one.

    Raises:
        InputError: one names no file, or one input is given twice.
    """
    files: dict[str, Path] = {}
    for text in inputs:
        name, sign, file = text.rpartition("=")
        if not file:
            raise InputError(f"{text!r} names no file", hint="--inputs NAME=FILE")
        if name in files:
            raise InputError(f"two values for input {name!r}" if sign else "two nameless inputs")
        files[name] = Path(file)
    return files
