"""The shipped JSON Schemas are those of the declarations, and every command has one."""

from __future__ import annotations

import json

import jsonschema
import pytest

from divergraph.cli.main import cli
from divergraph.present.schema import commands, schema_text, shipped_schema
from graphstore.errors import UnknownNameError


def test_every_command_has_one():
    run_others = {"completion", "mcp", "precision-tool", "shell"}
    assert set(commands()) == set(cli.list_commands(None)) - run_others


@pytest.mark.parametrize("command", commands())
def test_the_shipped_one_is_that_of_the_declarations(command):
    shipped = shipped_schema(command)
    assert shipped == schema_text(command), "python -m divergraph.present.schema --write"
    jsonschema.Draft202012Validator.check_schema(json.loads(shipped))


def test_metrics_splits_and_figures_are_those_of_their_records(divergraph):
    found = json.loads(divergraph("schema", "diff").out)["$defs"]
    assert found["MetricSet"]["properties"]["standard_deviation"] == {"type": ["string", "null"]}
    assert found["Figures"]["properties"]["device"] == {"$ref": "#/$defs/SideFigures"}
    split = json.loads(divergraph("schema", "roles").out)["$defs"]["ErrorSplit"]
    group = split["properties"]["group"]
    assert (group["type"], group["items"]) == ("array", {"type": "string"})
    assert {"role", "suspicion", "infinite"} <= set(split["required"])


def test_what_a_schema_forbids():
    schema = json.loads(shipped_schema("store"))
    jsonschema.validate({"done": [], "damaged": ["a"]}, schema)
    for wrong in ({"done": []}, {"done": [], "damaged": [1]}, {"done": [], "damaged": [], "x": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_all_of_them_as_json(divergraph):
    assert set(divergraph("schema", "--json").json["schemas"]) == set(commands())
    assert divergraph("schema").out.split() == list(commands())


def test_no_such_command(divergraph):
    ended = divergraph("schema", "oops")
    assert (ended.code, "oops" in ended.err) == (2, True)
    with pytest.raises(UnknownNameError):
        shipped_schema("../schema")
