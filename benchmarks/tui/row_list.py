"""First frame and key-to-repaint of the virtual list, against a DataTable, in one run.

Run as ``python benchmarks/tui/row_list.py [ROWS]``. Times are CPU seconds of the whole
process (wall clocks of shared machines say little); the memory is what the rows add.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import sys
import time

from textual.app import App, ComposeResult
from textual.widget import Widget
from textual.widgets import DataTable

from graphstore.filter import parse_filter
from graphstore.model import Metric, MetricSet, OpState, Side
from graphstore.op_row import OpRow
from tui.render import op_table
from tui.render.op_table import OpTable, Order
from tui.style.glyphs import UNICODE
from tui.widgets.row_list import RowList

KEYS = ("j", "pagedown", "G", "g")
TABLE_KEYS = ("down", "pagedown", "ctrl+end", "ctrl+home")
BASELINE_ROWS = 2_000
REPEATS = 15


def made_rows(count: int) -> list[OpRow]:
    values = dict.fromkeys((metric.value for metric in Metric), 0.01)
    values["standard_deviation"] = (0.0, 1.0, 0.0, 1.0)
    rows = []
    for topo in range(count):
        values["cosine_similarity"] = 1.0 - (topo * 7919 % 1000) / 1e5
        rows.append(
            OpRow(
                topo=topo,
                id=f"model/layer_{topo // 40}/block_{topo % 40}/MatMul",
                name=f"model/layer_{topo // 40}/block_{topo % 40}/MatMul",
                type="MatMulV2",
                side=Side.DEVICE,
                subgraph="",
                dtype="float16",
                shape=(1, 12, 128, 128),
                layout="FRACTAL_NZ",
                fused=1 + topo % 3,
                originals=(),
                state=OpState.CLEAN,
                metrics=MetricSet(**values),
            )
        )
    return rows


class ListApp(App[None]):
    CSS_PATH = "../../tui/app.tcss"

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget
        self.animation_level = "none"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        from tui.style.theme import DARK_VARIABLES

        return DARK_VARIABLES

    def compose(self) -> ComposeResult:
        yield self.widget


class Baseline(DataTable[str]):
    def __init__(self, rows: OpTable) -> None:
        super().__init__(cursor_type="row")
        self.source = rows

    def on_mount(self) -> None:
        rows = self.source
        self.add_columns(*(column.title or " " for column in rows.columns))
        self.add_rows([cell.text for cell in rows.row(index)] for index in range(len(rows)))


async def measure(make: object, keys: tuple[str, ...]) -> dict[str, float]:
    before, memory = time.process_time(), peak()
    app = ListApp(make())  # type: ignore[operator]
    found: dict[str, float] = {}
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        found["first frame"] = time.process_time() - before
        found["memory MB"] = peak() - memory
        app.widget.focus()
        await pilot.pause()
        costs: dict[str, list[float]] = {key: [] for key in keys}
        for _ in range(REPEATS):
            for key in keys:
                start = time.process_time()
                await pilot.press(key)
                costs[key].append(time.process_time() - start)
        found |= {key: statistics.median(taken) for key, taken in costs.items()}
    return found


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(name: str, found: dict[str, float]) -> None:
    memory = found.pop("memory MB")
    times = "  ".join(f"{what} {seconds * 1e3:7.1f} ms" for what, seconds in found.items())
    print(f"{name:28} {times}  +{memory:.0f} MB")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    rows = made_rows(count)
    start = time.process_time()
    wanted = parse_filter("cos<0.995 type:MatMul*")
    fit = len(op_table.select(rows, range(count), wanted, lambda: False) or ())
    filtered = time.process_time() - start
    start = time.process_time()
    op_table.arrange(rows, range(count), Order("cos"))
    ordered = time.process_time() - start
    table = OpTable(rows, range(count), UNICODE, in_run=True)
    small = OpTable(rows[:BASELINE_ROWS], range(min(count, BASELINE_ROWS)), UNICODE, in_run=True)
    warm = OpTable(rows[:50], range(min(count, 50)), UNICODE, in_run=True)
    asyncio.run(measure(lambda: RowList(warm, UNICODE), KEYS[:1]))
    ours = asyncio.run(measure(lambda: RowList(table, UNICODE), KEYS))
    theirs = asyncio.run(measure(lambda: Baseline(small), TABLE_KEYS))
    ratio = theirs["first frame"] / ours["first frame"]
    show(f"virtual list, {count} rows", ours)
    show(f"DataTable, {len(small)} rows", theirs)
    print(f"first frame: DataTable with {len(small)} rows takes {ratio:.1f} times as long")
    times = f"filter {filtered * 1e3:.0f} ms, sort {ordered * 1e3:.0f} ms"
    print(f"{times}; {fit} rows fit")


if __name__ == "__main__":
    main()
