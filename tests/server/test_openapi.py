"""The description says what the server does: its addresses, their parameters, their answers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import jsonschema
import pytest
from full_run import sample_run
from served import served

from divergraph.server.openapi import openapi
from divergraph.server.settings import Limits, ServerSettings
from graphstore.open_store import open_store

GIVEN = {"run": "first", "start": "conv", "end": "pool", "old": "first", "new": "second"}
DESCRIBED = json.loads(openapi())
ASKED = [path for path, methods in DESCRIBED["paths"].items() if "get" in methods]

NO_JSON = ("/tensor", "/events")
"""What needs the files of a run, and what is a stream."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    place = tmp_path_factory.mktemp("described")
    store = str(place / "store")
    with open_store(store) as opened:
        for name in ("first", "second"):
            opened.save_run(sample_run(name))
    settings = ServerSettings(
        store, tokens=place / "none", state=place / "state", limits=Limits(jobs=0)
    )
    with served(settings) as client:
        job = {"command": "import", "options": {"path": str(place)}}
        GIVEN["job"] = client.post("/v1/jobs", json=job).json()["id"]
        yield client


def test_it_is_served(client: httpx.Client) -> None:
    assert client.get("/openapi.json").json() == DESCRIBED


@pytest.mark.parametrize("path", [path for path in ASKED if not path.endswith(NO_JSON)])
def test_answers_are_as_described(client: httpx.Client, path: str) -> None:
    operation = DESCRIBED["paths"][path]["get"]
    needed = {each["name"] for each in operation["parameters"] if each["required"]}
    in_path = {name for name in needed if f"{{{name}}}" in path}
    given = {name: GIVEN.get(name, "conv") for name in needed - in_path}
    answer = client.get(path.format(**GIVEN), params=given)
    assert answer.status_code == 200
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.validate(answer.json(), {**schema, "components": DESCRIBED["components"]})
    for name in needed - in_path:
        less = {other: value for other, value in given.items() if other != name}
        assert client.get(path.format(**GIVEN), params=less).status_code == 400


def test_problems_are_as_described(client: httpx.Client) -> None:
    problem = client.get("/v1/runs/firs/ops").json()
    schema = DESCRIBED["components"]["schemas"]["Problem"]
    jsonschema.validate(problem, {**schema, "additionalProperties": False})
