"""Comparisons that are started, followed and stopped on pages."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from page_forms import seal_of

from divergraph.api.diff import diff
from divergraph.jobs.background.job_files import ANSWER, PROGRESS
from divergraph.jobs.background.job_table import JobTable, QueuedState
from divergraph.jobs.background.progress_file import ProgressFile
from divergraph.present.diff_text import diff_json_text
from divergraph.server.tokens import UserRole

FORM = {
    "golden": "data:net.onnx",
    "golden-dump": "data:golden",
    "device": "data:net.onnx",
    "device-dump": "data:device",
    "weights": "",
    "name": "again",
}


def sent(client: httpx.Client, url: str, **fields: str) -> httpx.Response:
    return client.post(url, data=fields | {"seal": seal_of(client.get("/compare"))})


def test_a_comparison_is_queued_shown_and_stopped(own: httpx.Client, place) -> None:
    answer = sent(own, "/compare", **FORM)
    assert answer.status_code == 303
    way = answer.headers["location"]
    page = own.get(way)
    assert "Waiting for its turn" in page.text
    assert '<noscript><meta http-equiv="refresh" content="3"></noscript>' in page.text
    assert f'data-events="/v1{way}/events"' in page.text
    assert "<code>--golden-dump=data:golden</code>" in page.text
    assert "<code>--run=again</code>" in page.text
    assert str(place) not in page.text
    listed = own.get("/jobs").text
    assert f'href="{way}"' in listed
    assert "<td>compare</td><td>again</td>" in listed
    assert own.post(f"{way}/stop", data={"seal": "x"}).status_code == 403
    assert sent(own, f"{way}/stop").headers["location"] == way
    page = own.get(way)
    assert ">stopped</span>" in page.text
    assert "refresh" not in page.text
    assert "data-events" not in page.text
    table = JobTable(place / "state" / "jobs.sqlite")
    table.change(way.rpartition("/")[2], QueuedState.ENDED, exit_code=2)
    page = own.get(way)
    assert ">failed</span>" in page.text, "that is no matter of colour alone"
    assert "compare failed" in page.text.partition("</title>")[0]


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"golden": ""}, 400, "golden"),
        ({"golden": "/etc/passwd"}, 403, "paths start with a root: data:"),
        ({"device": "data:nosuch"}, 400, "no such file or folder"),
        ({"device": "data:../../x"}, 403, "none of the server"),
        ({"oracle": "sh"}, 400, "no such option for a job"),
        ({"device-dump": "data:a\0b"}, 400, "a text, a number"),
    ],
)
def test_what_cannot_be_compared_is_told_in_the_form(
    own: httpx.Client, changed: dict[str, str], code: int, said: str
) -> None:
    before = own.get("/jobs").text.count("<tr>")
    page = sent(own, "/compare", **{**FORM, **changed})
    assert page.status_code == code
    assert said in page.text
    assert 'value="data:golden"' in page.text, "what was typed stays"
    assert own.get("/jobs").text.count("<tr>") == before


def test_a_diff_is_a_table_on_the_page_of_its_job_the_worst_pair_first(
    own: httpx.Client, place: Path
) -> None:
    answer = sent(own, "/diff", device="data:device", golden="data:golden")
    assert answer.status_code == 303
    way = answer.headers["location"]
    job = way.rpartition("/")[2]
    table = JobTable(place / "state" / "jobs.sqlite")
    assert table.job(job).words[-2:] == (str(place / "device"), str(place / "golden"))
    folder = place / "state" / "jobs" / job
    folder.mkdir(parents=True, exist_ok=True)
    compared = diff(place / "device", place / "golden")
    text = "\n".join(diff_json_text(compared.result, compared.look))
    (folder / ANSWER).write_text(text, encoding="utf-8")
    with closing(ProgressFile(folder / PROGRESS)) as progress:
        progress.kept("first")
    table.change(job, QueuedState.ENDED, exit_code=1)
    page = own.get(way).text.replace("<wbr>", "")
    rows = re.findall("<tr><td>(.*?)</td><td>(.*?)</td>", page)
    assert len(rows) == len(compared.pairs)
    assert rows[0] == (compared.worst(1)[0].name, "fail")
    assert str(place) not in page
    assert 'class="verdict diverged"' in page, "what came of a run that a job kept"


def test_a_job_of_somebody_else_is_not_stopped(team: httpx.Client, tokens, log_in) -> None:
    analyst, admin = (log_in(tokens[role]) for role in (UserRole.ANALYST, UserRole.ADMIN))
    form = FORM | {"seal": seal_of(team.get("/", headers=admin))}
    way = team.post("/compare", data=form, headers=admin).headers["location"]
    assert "Stop it" in team.get(way, headers=admin).text
    assert "Stop it" not in team.get(way, headers=analyst).text
    own_seal = {"seal": seal_of(team.get("/", headers=analyst))}
    assert team.post(f"{way}/stop", data=own_seal, headers=analyst).status_code == 403
