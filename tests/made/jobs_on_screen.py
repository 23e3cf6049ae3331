"""The app on a store of its own with jobs as real processes; jobs of the past as files."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from browsing import Browser
from onnx import TensorProto, helper, save

from divergraph.api.demo import demo_data
from divergraph.jobs.background.job_files import PROCESS, read_json
from divergraph.jobs.background.shelf import BackgroundState, JobShelf, store_key
from graphstore.contract import GraphStore
from graphstore.open_store import open_store
from tui.app import DivergraphApp
from tui.session import Session
from tui.settings import Settings
from tui.style.glyphs import SETS

PATIENCE = 60.0
NOW = 1_767_225_600.0
"""The time in pictures."""


def jobs_app(
    url: str,
    folder: Path,
    glyphs: str = "unicode",
    theme: str = "dark",
    start: str | None = None,
) -> DivergraphApp:
    """The app on the store *url*, as if it was started in *folder*."""

    def connect() -> GraphStore:
        return open_store(url)

    settings = Settings(
        glyphs=SETS[glyphs], theme=theme, export_dir=folder, state_dir=folder / "state"
    )
    return DivergraphApp(Session(connect, url), settings, start)


def shelf_of(folder: Path) -> JobShelf:
    """The jobs of such an app."""
    return JobShelf(folder / "state" / "jobs")


@contextmanager
def paused(folder: Path, at: str = "") -> Iterator[None]:
    """The jobs that run stand still meanwhile: none ends before what is pressed arrives. They are
    waited for until one is *at* a stage."""
    end = time.monotonic() + PATIENCE
    while at and not any(at in _progress(job.folder) for job in shelf_of(folder).jobs()):
        assert time.monotonic() < end, f"no job is ever at {at!r}"
        time.sleep(0.002)
    jobs = [job for job in shelf_of(folder).jobs() if job.state is BackgroundState.RUNNING]
    running = [read_json(job.folder / PROCESS)["pid"] for job in jobs]
    for pid in running:
        os.killpg(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in running:
            with suppress(ProcessLookupError):  # it was told to stop
                os.killpg(pid, signal.SIGCONT)


def _progress(folder: Path) -> str:
    file = folder / "progress.jsonl"
    return file.read_text() if file.exists() else ""


def one_op_model(path: Path, ops: Sequence[str] = ("relu",)) -> Path:
    """An ONNX model of one op, or of a few in a row."""
    tensors = ["x", *(f"after_{op}" for op in ops)]
    nodes = [
        helper.make_node("Relu", [tensors[n]], [tensors[n + 1]], op) for n, op in enumerate(ops)
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
        for name in (tensors[0], tensors[-1])
    )
    save(helper.make_model(helper.make_graph(nodes, "net", [x], [y])), path)
    return path


def demo_words(url: str) -> list[str]:
    """The command line that compares the demo's data."""
    data = demo_data()
    sides = ["--golden", data.golden, "--golden-dump", data.golden_dump]
    sides += ["--device", data.device, "--device-dump", data.device_dump]
    return ["compare", *map(str, sides), "--run", "lenet", "--store", url]


async def until(b: Browser, condition: Callable[[], bool]) -> None:
    """Wait, while the app goes on."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never comes"
        await b.pilot.pause(0.05)
    await b.settle(b.pilot)


async def until_ended(b: Browser) -> None:
    """Wait until no job runs, and the app knows."""
    await until(b, lambda: bool(b.app.looks) and not any(look.runs for look in b.app.looks))


async def until_stage(b: Browser, text: str) -> None:
    """Wait until a job is at a stage, and the app knows."""
    await until(b, lambda: any(text in s.text for look in b.app.looks for s in look.told.stages))


def states(folder: Path) -> list[BackgroundState]:
    """The states of all jobs, newest first."""
    return [job.state for job in shelf_of(folder).jobs()]


def past_job(
    folder: Path,
    number: int,
    words: list[str],
    lines: list[dict[str, object]],
    code: int | None,
    store: str | Path = ".divergraph",
) -> Path:
    """A job as files, begun *number* minutes ago; without *code* its process left no word."""
    asked = NOW - 60 * number
    place = folder / "state" / "jobs" / f"20260101-{100 - number:06}-000000-0000"
    place.mkdir(parents=True)
    request = {
        "words": words,
        "store": store_key(str(store)),
        "directory": "/models",
        "asked": asked,
    }
    (place / "request.json").write_text(json.dumps(request))
    told = [{"at": asked + 1, "attempt": 1}]
    told += [{"at": asked + 1 + n, **line} for n, line in enumerate(lines)]
    (place / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in told))
    (place / "log").write_text("what it printed\n")
    if code is not None:
        ended = {"exit_code": code, "at": asked + 2 + len(lines)}
        (place / "ended.json").write_text(json.dumps(ended))
    return place


STAGES: list[dict[str, object]] = [
    {"stage": "reading graphs", "total": None},
    {"stage": "linking ops", "total": None},
    {"stage": "comparing tensors", "total": 612},
]


def jobs_of_the_past(folder: Path, store: str | Path = ".divergraph") -> None:
    """One that runs if its lock is held, one that found something, a failed and a lost one."""
    sides = ["--golden", "bert.onnx", "--golden-dump", "golden", "--device", "graph"]
    words = ["compare", *sides, "--device-dump", "dump", "--run"]
    slow = [*STAGES, *({"done": 90 * n, "note": "214 MB/s"} for n in range(1, 5))]
    slow += [{"problem": "conv_77:0: dump file is damaged (12 bytes short)"}]
    past_job(folder, 1, [*words, "bert"], slow, None, store)
    done = [*STAGES, {"done": 612, "note": ""}, {"stage": "writing the run", "total": None}]
    past_job(folder, 20, [*words, "bert-1"], [*done, {"kept": "bert-1"}], 1, store)
    failed = "bert.onnx: no such file; check --golden"
    past_job(folder, 25, ["import", "bert.onnx"], [{"failed": failed}], 2, store)
    past_job(folder, 40, ["minimize", "bert-1"], STAGES[:2], None, store)
