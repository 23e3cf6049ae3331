"""``compare --ranks --steps`` as a job of a server: children, which share its limits."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_process import OVER, PATIENCE, ServerProcess

from divergraph.api.demo import demo_data
from graphstore.open_store import open_store

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
PLACES = [(rank, step) for rank in (0, 1) for step in (0, 3)]
BAD = (1, 3)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LeNet on two ranks, two steps each; rank 1 goes wrong in step 3."""
    root = tmp_path_factory.mktemp("places")
    shutil.copytree(demo_data().folder, root / "demo")
    for rank, step in PLACES:
        side = "fault" if (rank, step) == BAD else "clean"
        dump = root / "demo" / f"npu_{side}" / "dump"
        (folder,) = {path.parent for path in dump.rglob("*") if path.is_file()}
        model = folder.parents[1].name
        shutil.copytree(folder, root / "dump/20240101000000" / str(rank) / model / "61" / str(step))
    return root


def options(root: str, name: str) -> dict[str, object]:
    return {
        "golden": f"{root}demo/model.ckpt.meta",
        "golden-dump": f"{root}demo/golden",
        "device": f"{root}demo/npu_clean/graph",
        "device-dump": f"{root}dump",
        "method": "thresholds",
        "ranks": "all",
        "steps": "all",
        "run": name,
    }


@pytest.fixture
def server(dumps: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, "--root", f"data={dumps}", "--limit", "jobs=1") as started:
        yield started


def answer(server: ServerProcess, job: str) -> dict[str, object]:
    return dict(server.client.get(f"/v1/jobs/{job}/answer").raise_for_status().json())


def stored(store: str) -> dict[str, list[str]]:
    """The comparisons of each run, to the last digit, and where its error starts."""
    with open_store(store) as opened:
        runs = {run.name: opened.run_data(run.name) for run in opened.runs()}
    return {
        name: [repr(data.comparisons), repr(data.origins), repr(data.states)]
        for name, data in runs.items()
    }


def until_places_are_done(server: ServerProcess, job: str, least: int) -> dict[str, object]:
    """The job when so many of its places are compared, or it is over."""
    end = time.monotonic() + PATIENCE
    while True:
        found = server.job(job)
        known = found["stage"] == "comparing ranks and steps" and int(found["done"]) >= least
        if known or found["state"] in OVER:
            return found
        assert time.monotonic() < end, found
        time.sleep(0.02)


def test_children_give_what_the_command_gives(server, dumps, tmp_path, divergraph):
    """Also where the server is killed once some places are done."""
    job = server.ask("compare", options("data:", "ranks"))
    seen = until_places_are_done(server, job, 1)
    assert (seen["state"], seen["total"]) == ("running", len(PLACES))
    server.kill()
    server.start()
    found = server.until_over(job)
    assert (found["state"], found["exit_code"], found["attempts"]) == ("ended", 1, 1), found
    children = server.children(job)
    assert {child["state"] for child in children} == {"ended"}, children
    assert len(children) == 2
    assert sum(child["done"] for child in children) == len(PLACES), "no place twice"
    words = [f"--{name}={value}" for name, value in options(f"{dumps}/", "ranks").items()]
    printed = divergraph("compare", "--json", *words, "--store", tmp_path / "own")
    assert printed.code == 1
    assert answer(server, job) == printed.json
    assert stored(server.store) == stored(str(tmp_path / "own"))
    assert found["made"] == [f"ranks.rank{rank}.step{step}" for rank, step in PLACES]
    assert server.client.get("/v1/jobs").json()["jobs"] == [found], "children are listed apart"


@pytest.mark.exhaustive
def test_children_end_with_their_job(server):
    job = server.ask("compare", options("data:", "stopped"))
    until_places_are_done(server, job, 1)
    assert server.client.delete(f"/v1/jobs/{job}").status_code == 200
    assert server.until_over(job)["state"] == "stopped"
    children = [server.until_over(str(child["id"])) for child in server.children(job)]
    assert "stopped" in {child["state"] for child in children}
    assert server.client.get("/v1/runs").json()["runs"] == []
