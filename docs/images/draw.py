"""Draws the pictures of this folder from a fresh run of the demo.

python docs/images/draw.py

The page of the server needs Chromium; without it that picture stays.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from textual.pilot import Pilot
from textual.worker import WorkerCancelled

from divergraph.comparison.demo import demo_request
from divergraph.comparison.keep_run import compare_into
from graphstore.contract import GraphStore
from graphstore.open_store import open_store
from tui.app import DivergraphApp
from tui.session import Session
from tui.settings import Settings

FOLDER = Path(__file__).resolve().parent
STORE = ".divergraph"
SIZE = (120, 36)
PICTURES = {
    "overview.svg": (),
    "ops.svg": ("2", "f"),
    "lineage.svg": ("3", "enter"),
    "tensor.svg": ("6",),
    "submodel.svg": ("2", "f", "b", "5", "j", "j", "j", "B"),
}
"""Each picture and the keys that lead to it."""


def main() -> None:
    """Write all pictures; the store is a relative folder, so no path of a machine shows."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open_store(STORE) as store:
            compare_into(store, demo_request(), name="demo")
        if (browser := shutil.which("chromium")) is not None:
            draw_page(browser)
        for name, keys in PICTURES.items():
            picture = asyncio.run(drawn(keys))
            (FOLDER / name).write_text(picture, encoding="utf-8")


def draw_page(browser: str) -> None:
    """The page of the demo's origin, as a browser shows it."""
    words = ["serve", "--store", STORE, "--state", "state", "--port", "0", "--json"]
    command = [sys.executable, "-m", "divergraph", *words]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=nothing) as server:  # noqa: S603
        assert server.stdout is not None
        said = ""
        while not said.endswith("}\n"):
            said += server.stdout.readline().decode()
        address = f"{json.loads(said)['url']}/runs/demo/op?op=LeNet/conv2/Conv2DRelu"
        look = ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--window-size=1100,1280")
        picture = f"--screenshot={FOLDER / 'page.png'}"
        look_at = [browser, *look, picture, address]
        subprocess.run(look_at, check=True, stderr=nothing)  # noqa: S603 - all of it is ours
        server.terminate()


async def drawn(keys: tuple[str, ...]) -> str:
    """The screen after *keys* as SVG."""

    def connect() -> GraphStore:
        return open_store(STORE)

    session = Session(connect, STORE)
    session.jumps.places.clear()
    app = DivergraphApp(session, Settings(state_dir=Path("state")), "demo")
    async with app.run_test(size=SIZE) as pilot:
        await at_rest(pilot)
        for key in keys:
            await pilot.press(key)
            await at_rest(pilot)
        return app.export_screenshot(title="divergraph")


async def at_rest(pilot: Pilot[None]) -> None:
    """Wait until no answer and no delayed question is under way."""
    calm = 0
    while calm < 5:
        with suppress(WorkerCancelled):  # an answer that a newer question made needless
            await pilot.app.workers.wait_for_complete()
        await pilot.pause(0.05)
        calm = 0 if getattr(pilot.app.screen, "waiting", False) else calm + 1


if __name__ == "__main__":
    main()
