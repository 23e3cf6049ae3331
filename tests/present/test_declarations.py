"""What ``answers.txt`` says of a record is what is written, and what its schema says."""

from __future__ import annotations

from pathlib import Path

from divergraph.present.declarations import object_of
from divergraph.present.declared_answer import answer_json
from graphstore.model import Comparison, Finding, FindingKind, TensorIO
from importers.device_log import LogEvent, LogKind


def types(record: type) -> dict[str, str]:
    return {field.name: field.type for field in object_of(record).fields}


def test_fields_of_a_record_are_written_by_their_types():
    event = LogEvent(LogKind.ERROR, Path("logs/a.log"), 7, "", "", "no memory", ("conv",), 3, None)
    assert answer_json(event) == {
        "kind": "error",
        "path": "logs/a.log",
        "line": 7,
        "time": None,  # an empty text: nothing says it
        "module": None,
        "text": "no memory",
        "names": ["conv"],
        "task": 3,
        "stream": None,
    }
    assert types(LogEvent)["time"] == "str?"
    assert types(LogEvent)["names"] == "[str]"


def test_a_field_may_have_another_name_and_be_computed():
    whole_op = Finding(FindingKind.ADVICE, "label", "a sentence", "conv")
    fed = Finding(FindingKind.ADVICE, "label", "a sentence", "conv", TensorIO.INPUT, 1)
    ports = [(found["output"], found["input"]) for found in map(answer_json, (whole_op, fed))]
    assert ports == [(None, None), (None, 1)]
    assert types(Finding)["output"] == "int?"


def test_what_stands_beside_the_record_is_given_with_it():
    item = Comparison("conv", TensorIO.OUTPUT, 0)
    printed = answer_json(item, types={"conv": "Conv2D"})
    assert (printed["type"], printed["golden"], printed["notes"]) == ("Conv2D", [], {})
    assert answer_json(item, types={})["type"] is None
