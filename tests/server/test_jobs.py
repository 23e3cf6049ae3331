"""Jobs of a server: real processes, asked for and followed over HTTP."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from full_run import sample_run
from served import served

from divergraph.api.demo import demo_data
from divergraph.inputs.kept_paths import FILES
from divergraph.jobs.background.job_files import REQUEST, write_json
from divergraph.jobs.background.job_table import JobTable, QueuedState
from divergraph.jobs.background.shelf import store_key
from divergraph.server.app import make_app
from divergraph.server.jobs.requests import paths_read, request_of
from divergraph.server.jobs.runner import JobRunner
from divergraph.server.roots import Roots
from divergraph.server.settings import Limits, ServerSettings, limits_of
from divergraph.server.tokens import TokenFile, UserRole
from graphstore.errors import InputError, StoreError
from graphstore.open_store import open_store
from graphstore.private_folder import private_folder

pytestmark = pytest.mark.thorough

PATIENCE = 120.0
REQUEST_OF_ANYTHING = {"words": [], "store": "", "directory": "", "asked": 1.0}
GRAPH = {"command": "import", "options": {"path": "data:device_graph", "name": "net"}}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerSettings:
    """A server for one's own machine that reads below the folder ``data`` only; its own folders are
    named as somebody does who stands beside them."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "data"

    shutil.copytree(demo_data().device, place / "device_graph")
    (place / "text").write_text("no graph")
    return ServerSettings(
        "store",
        tokens=tmp_path / "tokens",
        state=Path("state"),
        roots=(("data", place),),
    )


@pytest.fixture
def own(settings: ServerSettings) -> Iterator[httpx.Client]:
    """A client of it."""
    with served(settings) as client:
        yield client


def until_over(client: httpx.Client, job: str) -> dict[str, object]:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = client.get(f"/v1/jobs/{job}").json()
        if found["ended"] is not None:
            return found
        time.sleep(0.1)
    raise AssertionError(f"it does not end: {found}")


def events(client: httpx.Client, job: str, seen: str | None = None) -> list[dict[str, str]]:
    """The events of a job until the stream ends."""
    headers = {} if seen is None else {"Last-Event-ID": seen}
    text = client.get(f"/v1/jobs/{job}/events", headers=headers).text
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


def watching(settings: ServerSettings, more: dict[str, object]) -> dict[str, object]:
    """The request to watch the demo's dump, which has no end by itself."""
    shutil.copytree(demo_data().folder, settings.roots[0][1] / "demo")
    sides = {"golden": "model.ckpt.meta", "golden-dump": "golden"}
    sides |= {"device": "npu_fault/graph", "folder": "npu_fault/dump"}
    options = {name: f"data:demo/{path}" for name, path in sides.items()}
    return {"command": "watch", "options": options | more}


@pytest.mark.slow
def test_a_growing_folder_is_watched(own: httpx.Client, settings: ServerSettings) -> None:
    asked = own.post("/v1/jobs", json=watching(settings, {"settle": 0.1, "until-guilty": True}))
    assert asked.status_code == 202, asked.text
    found = until_over(own, asked.json()["id"])
    assert (found["state"], found["exit_code"]) == ("ended", 1), found
    told = own.get(f"/v1/jobs/{found['id']}/answer").json()
    assert found["made"] == [told["first"]["run"]]


@pytest.mark.slow
def test_a_graph_is_imported_and_its_end_is_told(
    own: httpx.Client, settings: ServerSettings
) -> None:
    asked = own.post("/v1/jobs", json=GRAPH)
    assert asked.status_code == 202
    job = asked.json()["id"]
    assert asked.headers["location"] == f"/v1/jobs/{job}"
    told = events(own, job)
    assert told[-1] == {"event": "end", "data": "ended"}
    assert any(json.loads(each["data"]).get("kept") == "net" for each in told[:-1])
    assert events(own, job, told[0]["id"]) == told[1:], "a client that comes back misses nothing"
    found = until_over(own, job)
    assert (found["state"], found["exit_code"], found["made"]) == ("ended", 0, ["net"])
    assert own.get("/v1/graphs/net/ops?limit=1").status_code == 200
    assert own.get(f"/v1/jobs/{job}/answer").json()["graph"] == "net"
    assert [each["id"] for each in own.get("/v1/jobs").json()["jobs"]] == [job]
    wrong = {"command": "import", "options": {"path": "data:text"}}
    failed = until_over(own, own.post("/v1/jobs", json=wrong).json()["id"])
    assert failed["exit_code"] == 2
    assert own.get(f"/v1/jobs/{failed['id']}/answer").status_code == 404
    assert str(failed["error"]).startswith("data:text at byte 0: ")
    assert str(settings.roots[0][1]) not in str(events(own, failed["id"]))
    for number in (b"\xb2", b"9" * 30, b"9" * 5000, b"-1", b"0x1"):
        given = {"Last-Event-ID": number}
        assert own.get(f"/v1/jobs/{job}/events", headers=given).status_code == 400


@pytest.mark.parametrize(
    ("request_", "status", "said"),
    [
        ({"command": "serve"}, 400, "no job does that"),
        ({"command": "minimize", "options": {"oracle": "sh"}}, 400, "no such option for a job"),
        ({"command": "compare", "options": {"html": "/tmp/x"}}, 400, "no such option for a job"),
        ({"command": "import", "options": {"path": {}}}, 400, "a text, a number"),
        ({"command": "import", "options": {"name": "a\0b"}}, 400, "a text, a number"),
        ({"command": "import", "options": {}}, 400, "Missing argument"),
        ({"command": "import", "options": {"path": False}}, 400, "a text, a number"),
        ({"command": "import", "options": {"replace": "no"}}, 400, "true or false"),
        ({"command": "import", "options": {"path": "/etc/passwd"}}, 403, "start with a root"),
        ({"command": "import", "options": {"path": "data:../../x"}}, 403, "none of the server"),
        ({"command": "compare", "options": {"golden": "other:x"}}, 403, "start with a root"),
        ({"command": "blame", "options": {"run": "nobody"}}, 404, "nobody"),
        ({"command": "analyse", "options": {"thresholds": "/x.toml"}}, 403, "start with a root"),
        ([], 400, "object"),
    ],
)
def test_what_no_job_does(own: httpx.Client, request_: object, status: int, said: str) -> None:
    answer = own.post("/v1/jobs", json=request_)
    assert answer.status_code == status, answer.text
    assert said in answer.text
    assert own.get("/v1/jobs").json() == {"jobs": []}


def test_who_may_ask_and_stop(settings: ServerSettings) -> None:
    file = TokenFile(settings.tokens)
    roles = {"ann": UserRole.ANALYST, "bob": UserRole.ANALYST, "eve": UserRole.READER}
    known = {name: f"Bearer {file.add(name, role)}" for name, role in roles.items()}
    team = ServerSettings(
        settings.store,
        tokens=settings.tokens,
        state=settings.state,
        roots=settings.roots,
        behind_proxy=True,
        limits=Limits(jobs=0, waiting=1),
    )
    with served(team) as client:

        def ask(name: str, method: str, url: str, **more: object) -> httpx.Response:
            return client.request(method, url, headers={"Authorization": known[name]}, **more)

        assert ask("eve", "POST", "/v1/jobs", json=GRAPH).status_code == 403
        job = ask("ann", "POST", "/v1/jobs", json=GRAPH).json()["id"]
        assert ask("ann", "POST", "/v1/jobs", json=GRAPH).status_code == 429
        replacing = {"command": "import", "options": {**GRAPH["options"], "replace": True}}
        assert ask("bob", "POST", "/v1/jobs", json=replacing).status_code == 403
        assert ask("bob", "DELETE", f"/v1/jobs/{job}").status_code == 403
        assert ask("eve", "GET", f"/v1/jobs/{job}").json()["owner"] == "ann"
        assert ask("ann", "DELETE", f"/v1/jobs/{job}").json() == {"stopped": job}
        assert ask("ann", "GET", f"/v1/jobs/{job}").json()["state"] == "stopped"
        assert ask("eve", "GET", "/v1/jobs/none/events").status_code == 404


def test_a_run_whose_files_lie_elsewhere_is_not_analysed(
    settings: ServerSettings, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").touch()
    data = sample_run("far")
    inputs = dict.fromkeys(FILES, str(tmp_path / "elsewhere"))
    with open_store(settings.store) as store:
        store.save_run(replace(data, run=replace(data.run, inputs=inputs)))
    with served(settings) as client:
        answer = client.post("/v1/jobs", json={"command": "analyse", "options": {"run": "far"}})
        assert answer.status_code == 403, answer.text


@pytest.mark.parametrize(
    ("state", "said"), [("/proc/none", "cannot be made"), ("data", "not a database")]
)
def test_a_folder_that_cannot_hold_a_queue_is_told(
    settings: ServerSettings, state: str, said: str
) -> None:
    Path("data", "jobs.sqlite").write_text("something else, long enough to be looked at")
    with open_store(settings.store) as store, pytest.raises(StoreError, match=said):
        make_app(replace(settings, state=Path(state)), store)


@pytest.fixture
def table(tmp_path: Path) -> JobTable:
    """An empty queue."""
    return JobTable(tmp_path / "jobs.sqlite")


def import_words(settings: ServerSettings) -> tuple[str, ...]:
    """The command line of the job ``GRAPH``."""
    graph = str(settings.roots[0][1] / "device_graph")
    return ("import", "--name=net", "--store", store_key(settings.store), "--", graph)


def test_children_of_what_is_over_are_not_begun(table: JobTable, tmp_path: Path) -> None:
    table.add("ann", "compare", ("compare",))
    parent = table.claim(1)
    assert parent is not None
    (child,) = table.add_children(parent, [[(0, None)]])
    table.change(parent.id, QueuedState.STOPPED, ended=time.time())
    runner = JobRunner(table, tmp_path / "jobs", str(tmp_path / "store"), Limits())
    runner.look()
    assert table.job(child.id).state is QueuedState.STOPPED


def test_a_link_that_came_while_a_job_waited_is_not_followed(
    table: JobTable, tmp_path: Path, settings: ServerSettings
) -> None:
    asked = {"run": "g", "device": "a", "inputs": ["x=b", "random:1"], "start": "/op"}
    (tmp_path / "a").mkdir()
    wish = request_of("minimize", asked, lambda text: tmp_path / text, "store")
    assert paths_read("minimize", wish.words) == [tmp_path / "a", tmp_path / "b"]
    words, roots = import_words(settings), Roots.of(settings)
    name = table.add("ann", "import", words).id
    Path(words[-1]).rename(tmp_path / "outside")
    Path(words[-1]).symlink_to(tmp_path / "outside")
    JobRunner(table, tmp_path / "jobs", settings.store, Limits(), roots).look()
    job = table.job(name)
    assert (job.state, "in none of the server's roots" in job.error) == (QueuedState.LOST, True)


def test_what_is_over_for_a_month_is_forgotten_with_its_children(
    table: JobTable, tmp_path: Path, settings: ServerSettings
) -> None:
    runner = JobRunner(table, tmp_path / "jobs", settings.store, Limits())
    now, month = time.time(), 31 * 24 * 3600.0
    kept, gone, open_ = (table.add("ann", "compare", ("compare",)) for _ in range(3))
    for job in (kept, gone, open_):
        for child in table.add_children(job, [[(0, None)], [(1, None)]]):
            table.change(child.id, QueuedState.ENDED, ended=now - month)
            private_folder(runner.shelf.root / child.id)
            write_json(runner.shelf.root / child.id / REQUEST, REQUEST_OF_ANYTHING)
        table.change(job.id, QueuedState.ENDED, ended=now if job is kept else now - month)
    table.add_children(open_, [[(2, None)]])
    runner.tidy()
    assert {job.id for job in table.jobs()} == {kept.id, open_.id}
    assert [len(table.children(job.id)) for job in (kept, gone, open_)] == [2, 0, 3]
    left = {path.name for path in runner.shelf.root.iterdir()}
    assert left == {job.id for of in (kept, open_) for job in table.children(of.id)[:2]}


@pytest.mark.slow
def test_what_ran_when_the_server_was_killed_is_seen_to_its_end(
    table: JobTable, tmp_path: Path, settings: ServerSettings
) -> None:
    """A server that is killed leaves its queue and its jobs' processes as they are."""
    first = JobRunner(table, tmp_path / "jobs", settings.store, Limits())
    job = table.add("ann", "import", import_words(settings))
    first.look()
    assert table.job(job.id).state is QueuedState.RUNNING
    second = JobRunner(
        JobTable(tmp_path / "jobs.sqlite"), tmp_path / "jobs", settings.store, Limits()
    )
    end = time.monotonic() + PATIENCE
    while table.job(job.id).ended is None:
        second.look()
        assert time.monotonic() < end
        time.sleep(0.05)
    found = table.job(job.id)
    assert (found.state, found.exit_code, found.attempts) == (QueuedState.ENDED, 0, 1)


@pytest.mark.slow
def test_a_killed_process_is_begun_again_and_a_claim_without_one_is_given_back(
    table: JobTable, tmp_path: Path, settings: ServerSettings
) -> None:
    runner = JobRunner(table, tmp_path / "jobs", settings.store, Limits(claim_seconds=0))
    shelf = runner.shelf
    job = table.add("ann", "import", import_words(settings))
    assert table.claim(1) is not None  # by a server that ended right then
    runner.look()
    end = time.monotonic() + PATIENCE
    killed = False
    while table.job(job.id).ended is None:
        process = shelf.named(job.id)
        if process is not None and not killed:
            shelf._signal(process, signal.SIGKILL)  # as the kernel does; asked, it may end well
            killed = True
        runner.look()
        assert time.monotonic() < end
        time.sleep(0.05)
    found = table.job(job.id)
    assert (found.state, found.exit_code, found.attempts) == (QueuedState.ENDED, 0, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "said"),
    [("job_memory=1", "it took more than 1 MiB of memory"), ("job_seconds=0.01", "longer than")],
)
def test_a_job_that_takes_too_much_is_ended(
    settings: ServerSettings, limit: str, said: str
) -> None:
    with served(replace(settings, limits=limits_of([limit]))) as client:
        asked = client.post("/v1/jobs", json=watching(settings, {}))
        found = until_over(client, asked.json()["id"])
    assert (found["state"], found["attempts"]) == ("stopped", 1)
    assert said in str(found["error"])


def test_limits_are_given_by_name() -> None:
    found = limits_of(["jobs=4", "rate=2.5", "upload_files=7"])
    assert (found.jobs, found.rate, found.uploads.files) == (4, 2.5, 7)
    for wrong in ("job=4", "jobs", "jobs=x", "jobs=-1", "rate=inf", "rate=nan", "uploads=1"):
        with pytest.raises(InputError):
            limits_of([wrong])
