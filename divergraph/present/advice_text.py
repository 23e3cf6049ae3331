"""The advice in words, and as the summary file that scripts for MindStudio read."""

from __future__ import annotations

from pathlib import Path

from divergraph.ask.advisor.advisor import (
    CONSISTENT,
    DOUBTFUL,
    NOT_COMPARED,
    OVERFLOW,
    PROBLEM_NODE,
    Advice,
)
from divergraph.ask.advisor.inputs import INPUT_INCONSISTENT
from divergraph.files.whole_files import whole_file
from divergraph.text.printable import printable
from graphstore.errors import InputError
from graphstore.model import Finding

SUMMARY_FILE = "advisor_summary.txt"

_DETECTIONS = {OVERFLOW: "FP16 Overflow", INPUT_INCONSISTENT: "Input Inconsistent"}
_GLOBAL = "Global Consistency"
_CLASSES = {
    PROBLEM_NODE: "problem node",
    CONSISTENT: "consistent",
    NOT_COMPARED: "nothing compared",
    DOUBTFUL: "doubtful",
}


def detection_type(finding: Finding) -> str:
    """The name of the detection: one of three."""
    return _DETECTIONS.get(finding.label, _GLOBAL)


def operator_index(finding: Finding) -> int | None:
    """The op's Index in the CSV report; None if no op is meant."""
    index = finding.evidence.get("index")
    return index if isinstance(index, int) else None


def summary(finding: Finding) -> str:
    """The three lines for one finding."""
    index = operator_index(finding)
    word = ""
    if finding.label not in _DETECTIONS:
        word = _CLASSES.get(finding.label, "single-point error") + ": "
    return (
        f"Detection Type: {detection_type(finding)}\n"
        f"Operator Index: {'NA' if index is None else index}\n"
        f"Expert Advice: {word}{printable(finding.sentence)}.\n"
    )


def write_summary(folder: Path, advice: Advice) -> Path:
    """Write the three lines of the first finding to ``advisor_summary.txt`` in *folder*,
    which is made if it is not there; returns the file's path.

    Raises:
        InputError: it cannot be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the folder cannot be made: {error.strerror}", where=str(folder)
        ) from error
    path = folder / SUMMARY_FILE
    with whole_file(path, "advice") as place:
        place.write_text(summary(advice.first), encoding="utf-8")
    return path
