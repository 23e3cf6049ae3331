"""How long the terminal UI takes on a made run of many ops in a real store, view by view.

``python benchmarks/tui/large_run.py make STORE [OPS]`` keeps a diverging run ``large`` in
the embedded store STORE (100,000 ops, about 60 % of them measured, if no number is given);
``python benchmarks/tui/large_run.py measure STORE`` opens the real app on it, visits every view
and prints what each step takes beside its limit: CPU seconds of the process; of a key those of the
thread that draws, and wall seconds while rows load, which want a quiet machine.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from made_large_run import NAME, made_run

from graphstore.contract import GraphStore

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui.app import DivergraphApp

Act: TypeAlias = Callable[[], Awaitable[object]]
MANY = 300_000
"""Ops from which on the limits for a million hold."""
LIMITS = {
    "first frame": (0.9, 0.9),
    "verdict": (1.5, 2.5),
    "rows": (3.0, 25.0),
    "key, median": (0.05, 0.05),
    "key, worst": (0.15, 0.2),
    "filter": (0.1, 0.6),
    "sort": (0.3, 3.0),
    "open": (1.5, 10.0),
    "memory": (300.0, 1228.8),
}
"""For 100,000 and for a million ops: CPU seconds, MiB."""


def make(store_url: str, count: int) -> None:
    """Keep the made run in the store."""
    from graphstore.open_store import open_store

    start = time.monotonic()
    data = made_run(count)
    with open_store(store_url) as store:
        store.save_run(data, replace=True)
    counts, took = data.run.counts, time.monotonic() - start
    print(f"{counts.ops} ops, {counts.compared} compared, {counts.over} over, ", end="")
    print(f"{len(data.origins)} origins: made and kept in {took:.1f} s")


def resident_mib() -> float:
    """Memory of the process at present."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


class Table:
    """What was measured, beside the limits for so many ops."""

    def __init__(self) -> None:
        self.many = False
        self.keys: list[float] = []
        self.missed: list[str] = []

    def line(self, what: str, took: float, limit: str = "", more: str = "") -> None:
        """Print one figure, and its *limit*."""
        allowed = LIMITS[limit][self.many] if limit else 0.0
        over = bool(limit) and took > allowed
        if over:
            self.missed.append(what)
        beside = f"of {allowed:7.2f} {'MISSED' if over else ''}" if limit else ""
        print(f"{what:40} {took:8.3f} {beside:18} {more}".rstrip())

    def end(self) -> None:
        """Print what holds for all keys, and what missed its limit."""
        self.line("all keys, UI thread, median", statistics.median(self.keys), "key, median")
        self.line("all keys, UI thread, worst", max(self.keys), "key, worst")
        self.line("memory after all views", resident_mib(), "memory")
        print("missed:", "; ".join(self.missed) or "nothing")


class Watch:
    """One user in front of the app."""

    def __init__(self, app: DivergraphApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot, self.table = app, pilot, Table()

    async def until(self, done: Callable[[], bool]) -> None:
        while not done():
            await asyncio.sleep(0.002)

    async def settle(self) -> None:
        while getattr(self.app.screen, "waiting", False):
            await self.pilot.pause(0.002)
        await self.app.workers.wait_for_complete()
        await self.pilot.pause()

    async def timed(self, what: str, act: Act, limit: str = "") -> float:
        wall, cpu = time.perf_counter(), time.process_time()
        await act()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.table.line(what, cpu, limit, f"wall {wall:.3f} s, {resident_mib():.0f} MiB")
        return cpu

    async def opened(self, view: str, *pressed: str) -> None:
        """Go to a view and wait until it shows all."""

        async def act() -> None:
            await self.pilot.press(*pressed)
            await self.settle()

        await self.timed(f"{view} open", act, "open")

    async def keys(self, view: str, *pressed: str) -> None:
        """Press keys one after the other; what they ask for may still come."""
        for key in pressed:
            drawing = time.thread_time()
            await self.timed(f"{view}, key {key}", lambda key=key: self.pilot.press(key))
            self.table.keys.append(time.thread_time() - drawing)

    def listed(self, pane: str) -> int:
        from tui.widgets.row_list import RowList

        found = self.app.screen.query(pane).results(RowList)
        return max((len(each.source) for each in found), default=0)

    async def moved_meanwhile(self, done: Callable[[], bool]) -> None:
        """Move the cursor to and fro until *done*; the time from each key to its repaint."""
        from tui.widgets.row_list import RowList

        took: list[float] = []
        while not done():
            focused = self.app.focused
            if not isinstance(focused, RowList) or len(focused.source) < 2:
                await asyncio.sleep(0.002)
                continue
            start, cursor, drawn = time.perf_counter(), focused.cursor, asyncio.Event()
            self.app.simulate_key("k" if cursor else "j")
            await self.until(lambda rows=focused, at=cursor: rows.cursor != at)
            focused.call_after_refresh(drawn.set)
            await drawn.wait()
            took.append(time.perf_counter() - start)
            await asyncio.sleep(0.25)  # or the keys themselves keep the rows from coming
        if took:
            self.table.line("while loading, a key, median (wall)", statistics.median(took))
            self.table.line("while loading, a key, worst (wall)", max(took), "key, worst")


async def watch(store_url: str) -> None:
    """Open the app on the run and time what a user does."""
    from graphstore.open_store import open_store
    from tui.app import DivergraphApp
    from tui.session import Session
    from tui.settings import Settings

    def connect() -> GraphStore:
        return open_store(store_url)

    app = DivergraphApp(Session(connect, store_url), Settings(), NAME)
    async with app.run_test(size=(120, 40)) as pilot:
        first, wall = time.process_time(), seconds_alive()
        seen = Watch(app, pilot)
        await seen.until(lambda: app.session.target != "")
        seen.table.many = app.session.first_look().run.counts.ops > MANY
        seen.table.line("first frame, since the start", first, "first frame", f"wall {wall:.3f} s")
        await loading(seen)
        await ops(seen)
        await other_views(seen)
        await submodel(seen)
        await seen.opened("runs", "0")
        await seen.keys("runs", "j", "k")
        seen.table.end()


async def loading(seen: Watch) -> None:
    await seen.until(lambda: seen.listed("#origins") > 0)
    seen.table.line("verdict and origins, since the start", time.process_time(), "verdict")
    await seen.moved_meanwhile(lambda: seen.listed("#reasons") > 0)
    await seen.settle()
    more = f"{resident_mib():.0f} MiB"
    seen.table.line("all rows usable, since the start", time.process_time(), "rows", more)


async def ops(seen: Watch) -> None:
    from tui.screens.ops import OpsScreen
    from tui.widgets.filter_bar import FilterBar
    from tui.widgets.row_list import RowList

    app, pilot = seen.app, seen.pilot

    def source() -> object:
        return app.screen.query_one("#ops", RowList).source

    def shown(before: object = None) -> bool:
        there = isinstance(app.screen, OpsScreen) and seen.listed("#ops") > 0
        return there and source() is not before

    await seen.opened("ops", "2")
    await seen.keys("ops", "j", "pagedown", "G", "g")
    await seen.timed("detail of an op", seen.settle)
    await pilot.press("slash")
    bar = app.screen.query_one(FilterBar)

    async def listed_anew(key: str) -> None:
        before = source()
        await pilot.press(key)
        bar.flush()
        await seen.until(lambda: shown(before))

    for key in "soft":
        await seen.timed(f"filter, {key} typed", lambda key=key: listed_anew(key), "filter")
    await pilot.press("escape", "right", "right")
    await seen.settle()
    for what, key in (("sort", "s"), ("sort, reversed", "S")):
        await seen.timed(what, lambda key=key: listed_anew(key), "sort")
    await seen.settle()
    await seen.keys("ops", "f", "e")


async def other_views(seen: Watch) -> None:
    await seen.opened("tensor", "6")
    await seen.keys("tensor", "a", "j")
    await seen.opened("lineage", "3")
    await seen.keys("lineage", "j", "pagedown", "tab", "j", "u", "pagedown", "o")
    await seen.timed("... linked ops only", seen.settle)
    await seen.keys("lineage", "minus")
    await seen.timed("... name spaces folded", seen.settle)
    await seen.opened("propagation", "4")
    await seen.keys("propagation", "j", "pagedown", "u", "pagedown", "G", "u", "n")
    await seen.opened("query", "7")
    await seen.opened("query, its result", "f5")
    await seen.keys("query", "escape", "j", "pagedown")
    if "jobs" in seen.app.MODES:
        await seen.opened("jobs", "8")
        await seen.keys("jobs", "j")


async def submodel(seen: Watch) -> None:
    await seen.opened("submodel", "5")
    await seen.keys("submodel", "j", "pagedown", "b", "u", "b", "pagedown")
    for key in ("B", "o"):
        await seen.keys("submodel", key)
        await seen.timed("... its part", seen.settle)
    await seen.keys("submodel", "G", "B")
    await seen.timed("... nearly all as part", seen.settle)
    await seen.keys("submodel", "k", "pageup")


def seconds_alive() -> float:
    """How long ago this process began (Linux)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    up = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    return up - float(fields[19]) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] not in ("make", "measure"):
        raise SystemExit(__doc__)
    if sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 100_000)
        return
    asyncio.run(watch(sys.argv[2]))


if __name__ == "__main__":
    main()
