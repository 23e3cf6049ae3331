"""What the graph's page costs in a real browser: until the first picture, and while it is moved.

    python benchmarks/server/canvas.py STORE [STORE …]

Serves each store, opens ``/runs/RUN/graph`` of its first run in a headless Chromium without a GPU,
and prints a row of a table: CPU seconds of the server, seconds until both sides are drawn, frames a
second while the picture is dragged, and the memory of the page's script and of the server. Opens
the page twice: a server that was just started, and one that knows the run.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "made"))
from headless_browser import Browser, Page, browser_of_tests

from graphstore.open_store import open_store

READY = "document.querySelector('[data-graph]')?.dataset.ready"
DRAGGED = """
(async () => {
  const canvas = document.querySelector('.pane canvas'), box = canvas.getBoundingClientRect();
  const send = (kind, x) => canvas.dispatchEvent(new PointerEvent(kind,
    {pointerId: 1, button: 0, buttons: 1, clientX: x, clientY: box.y + 80, bubbles: true}));
  canvas.setPointerCapture = () => {};
  send('pointerdown', box.x + 80);
  const start = performance.now();
  let frames = 0;
  while (performance.now() - start < 2000) {
    send('pointermove', box.x + 80 + (frames % 40) * 4);
    await new Promise(requestAnimationFrame);
    frames++;
  }
  send('pointerup', box.x + 80);
  window.frameRate = frames / (performance.now() - start) * 1000;
})(); null
"""


def main() -> None:
    """A row for each store."""
    print("| ops | server CPU s, first | known | first picture s, first | known |", end="")
    print(" frames/s | script MB | server MB |\n|---|---|---|---|---|---|---|---|")
    with browser_of_tests() as browser:
        for store in sys.argv[1:]:
            print(measured(browser, store), flush=True)


def measured(browser: Browser, store: str) -> str:
    """The row of *store*."""
    with open_store(store) as opened:
        run = opened.runs()[0]
    command = [sys.executable, "-m", "divergraph", "serve", "--port", "0", "--store", store]
    with (
        tempfile.TemporaryDirectory() as state,
        subprocess.Popen(
            [*command, "--state", state],
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.STDOUT,
        ) as server,
    ):
        assert server.stdout is not None
        said = iter(server.stdout.readline, "")
        address = next(found[0] for line in said if (found := re.search(r"http://[\d.:]+", line)))
        way = f"{address}/runs/{quote(run.name)}/graph"
        times, costs = [], []
        for _ in range(2):
            before, begun = cpu_seconds(server.pid), time.monotonic()
            with browser.page(1500, 900) as page:
                page.visit(way)
                page.until(READY)
                times.append(time.monotonic() - begun)
                costs.append(cpu_seconds(server.pid) - before)
                rate, heap = moved(page)
        held = memory(server.pid)
        server.terminate()
    cells = (
        *(f"{run.counts.ops:,}", *(f"{cost:.1f}" for cost in costs)),
        *(*(f"{seconds:.1f}" for seconds in times), f"{rate:.0f}", f"{heap:.0f}", f"{held:.0f}"),
    )
    return f"| {' | '.join(cells)} |"


def moved(page: Page) -> tuple[float, float]:
    """Frames a second while the picture is dragged, and megabytes of the script."""
    page.run(DRAGGED)
    page.until("window.frameRate")
    heap = page.run("performance.memory.usedJSHeapSize")
    return float(page.run("window.frameRate")), float(heap) / 1e6


def cpu_seconds(process: int) -> float:
    """What a process and its children have used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / 100


def memory(process: int) -> float:
    """Megabytes a process has had at most."""
    status = Path(f"/proc/{process}/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+)", status)
    assert peak is not None
    return int(peak[1]) / 1000


if __name__ == "__main__":
    main()
