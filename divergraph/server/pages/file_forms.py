"""The forms that ask for files and begin a job with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class PathField(NamedTuple):
    """A path that a form asks for; ``name`` is the option."""

    name: str
    label: str
    needed: bool
    meaning: str


class TextField(NamedTuple):
    """A text that a form asks for, which may be left empty."""

    name: str
    label: str
    meaning: str


@dataclass(frozen=True, slots=True)
class FileForm:
    """The page ``/COMMAND``: what its job is called there and needs."""

    command: str
    title: str
    button: str
    paths: tuple[PathField, ...]
    texts: tuple[TextField, ...]


COMPARE = FileForm(
    "compare",
    "Compare two dumps",
    "Compare",
    (
        PathField("golden", "Golden model", True, "its file or folder: ONNX, TensorFlow, Caffe"),
        PathField("golden-dump", "Golden dump", True, "the folder of its tensors"),
        PathField("device", "Device model", True, "what it ran: a graph or an offline model"),
        PathField("device-dump", "Device dump", True, "the folder of its tensors"),
        PathField("weights", "Weights", False, "if they are in a file of their own"),
    ),
    (TextField("name", "Name of the run", ""),),
)
DIFF = FileForm(
    "diff",
    "Compare tensors by name, without models",
    "Compare",
    (
        PathField("device", "Device", True, "a folder of tensors, or one file"),
        PathField("golden", "Golden", True, "the same of what is right"),
    ),
    (
        TextField("tensor", "Only tensors whose name fits", "as *conv1*"),
        TextField("dtype", "Element type of raw files", "as bfloat16"),
        TextField("shape", "Shape of raw files", "as 1,3,224,224"),
    ),
)
