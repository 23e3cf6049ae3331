"""The description says what the server does: its addresses, their parameters, their answers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import jsonschema
import numpy as np
import pytest
from analysed_runs import analysed_runs
from served import served

from divergraph.cli.main import run
from divergraph.jobs.background.job_files import ANSWER, PART
from divergraph.jobs.background.job_table import JobTable, QueuedState
from divergraph.server.openapi import openapi
from divergraph.server.settings import Limits, ServerSettings
from tests.made.recorded_ranks import write_ranks

pytestmark = pytest.mark.thorough

GIVEN = {
    "run": "bad",
    "old": "bad",
    "new": "worse",
    "op": "fc",
    "start": "act",
    "end": "turn",
    "at": "0,2:5",
    "bins": "7",
    "depth": "2",
    "against": "worse",
    "kind": "markdown",
}
DESCRIBED = json.loads(openapi())
ASKED = [path for path, methods in DESCRIBED["paths"].items() if "get" in methods]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A server whose runs were blamed and searched, with a baseline; its only job has an answer."""
    place = tmp_path_factory.mktemp("described")
    store = str(place / "store")
    analysed_runs(place, store)
    asked = ["blame", "bad"], ["minimize", "bad", "--budget", "3"], ["baseline", "set", "bad"]
    for words in asked:
        assert run([*words, "--store", store]) in (0, 1, 2)
    given = np.arange(6, dtype=np.float32)
    calls = [("Torch.mul.0.forward", [given, 2], {}, [given * 2])]
    for side in ("golden", "device"):
        write_ranks(place / side / "step0", {0: calls, 1: calls})
    sides = ["--golden", str(place / "golden"), "--device", str(place / "device")]
    assert run(["compare", *sides, "--run", "job", "--store", store]) == 0
    settings = ServerSettings(
        store, tokens=place / "none", state=place / "state", limits=Limits(jobs=0)
    )
    with served(settings) as client:
        job = {"command": "import", "options": {"path": str(place)}}
        GIVEN["job"] = name = client.post("/v1/jobs", json=job).json()["id"]
        sent = client.post("/v1/uploads?name=sent.npy", content=b"few")
        GIVEN["upload"] = sent.json()["id"]
        JobTable(place / "state" / "jobs.sqlite").change(name, QueuedState.ENDED)
        folder = place / "state" / "jobs" / name
        folder.mkdir(parents=True)
        (folder / ANSWER).write_text("{}\n")
        for part in (".net-of-a-killed-process", "net"):
            (folder / PART / part).mkdir(parents=True)
        yield client


def test_it_is_served(client: httpx.Client) -> None:
    assert client.get("/openapi.json").json() == DESCRIBED


@pytest.mark.parametrize("path", ASKED)
def test_answers_are_as_described(client: httpx.Client, path: str) -> None:
    operation = DESCRIBED["paths"][path]["get"]
    needed = {each["name"] for each in operation["parameters"] if each["required"]}
    place = {**GIVEN, "kind": "graphml"} if "/exports/" in path else GIVEN
    place = {**place, "run": "job"} if path.endswith("/ranks") else place
    in_path = {name for name in needed if f"{{{name}}}" in path}
    given = {name: GIVEN[name] for name in needed - in_path}
    answer = client.get(path.format(**place), params=given)
    assert answer.status_code == 200, answer.text
    content = operation["responses"]["200"]["content"]
    media_type = answer.headers["content-type"].partition(";")[0]
    if media_type == "application/json":
        components = {"components": DESCRIBED["components"]}
        jsonschema.validate(answer.json(), {**content[media_type]["schema"], **components})
    assert media_type in content
    for name in needed - in_path:
        less = {other: value for other, value in given.items() if other != name}
        assert client.get(path.format(**place), params=less).status_code == 400


def test_problems_are_as_described(client: httpx.Client) -> None:
    for path in ("/v1/runs/bat/ops", "/v1/runs/worse/blame", "/v1/runs/bad/reports/pdf"):
        problem = client.get(path).json()
        schema = DESCRIBED["components"]["schemas"]["Problem"]
        jsonschema.validate(problem, {**schema, "additionalProperties": False})
        assert problem["status"] == 404


def test_the_part_of_a_job_is_what_it_finished(client: httpx.Client) -> None:
    sent = client.get(f"/v1/jobs/{GIVEN['job']}/part.zip")
    assert 'filename="net.zip"' in sent.headers["content-disposition"]
