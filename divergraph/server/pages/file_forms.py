"""The forms that ask for files and begin a job with them, and the answer of a `diff` as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from divergraph.present.declared_answer import AnswerTable
from divergraph.text.numbers import short
from divergraph.text.words import shape_text
from graphstore.model import Level, Metric


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
_SHOWN = (
    Metric.COSINE_SIMILARITY,
    Metric.RELATIVE_EUCLIDEAN_DISTANCE,
    Metric.MAX_ABSOLUTE_ERROR,
)
_WORST_FIRST = (Level.FAIL.value, Level.WARN.value, None, Level.PASS.value)


def diff_table(answer: Mapping[str, Any]) -> AnswerTable:
    """The pairs of what ``diff --json`` printed, the worst first."""

    def rank(pair: Mapping[str, Any]) -> tuple[int, float]:
        error = (pair["metrics"] or {}).get(Metric.RELATIVE_EUCLIDEAN_DISTANCE.value)
        # null where values that are not finite stand behind it
        return _WORST_FIRST.index(pair["level"]), -math.inf if error is None else -error

    pairs = sorted(answer["pairs"], key=rank)
    names = ("tensor", "level", *(metric.label for metric in _SHOWN), "shape", "why")
    return AnswerTable("pairs", names, list(map(_cells, pairs)), (0,) * len(pairs), frozenset())


def _cells(pair: Mapping[str, Any]) -> list[str]:
    metrics = pair["metrics"] or {}
    numbers = [metrics.get(metric.value) for metric in _SHOWN]
    texts = [short(one, ".6g") if isinstance(one, float) else str(one or "") for one in numbers]
    shape = "" if pair["shape"] is None else shape_text(tuple(pair["shape"]))
    why = pair["limit"] or ": ".join(filter(None, (pair["reason"], pair["detail"])))
    return [pair["name"], pair["level"] or "not compared", *texts, shape, why]
