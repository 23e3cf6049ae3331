"""A made run of many ops in a real store, and how long the terminal UI takes on it.

``python benchmarks/tui/large_run.py make STORE [OPS]`` keeps a diverging run ``large`` in
the embedded store STORE (100,000 ops, about 60 % of them measured, if no number is given);
``python benchmarks/tui/large_run.py measure STORE`` opens the real app on it and prints
what every step takes, by wall clock and by CPU time of the process.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from graphstore.contract import GraphStore, RunData
from graphstore.model import (
    Comparison,
    DType,
    Framework,
    GraphKind,
    InputRef,
    Level,
    LineageLink,
    LineageRule,
    Method,
    Metric,
    MetricSet,
    ModelGraph,
    Op,
    Reason,
    Run,
    Tensor,
    TensorIO,
    TensorRef,
)
from graphstore.traverse.algorithms import first_diverging
from graphstore.traverse.measured_ops import measured_ops, over_ops
from graphstore.traverse.topological_order import graph_arrays

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui.app import DivergraphApp

NAME = "large"
LIMITS = {"cosine_similarity": 0.99, "relative_euclidean_distance": 0.05}
BLOCK = ("Query", "Key", "Value", "Scores", "Softmax", "Context", "Cast", "Add", "Norm", "Gelu")
READS = ((10, 3), (10, 3), (10, 3), (3, 2), (1,), (1, 4), (1,), (1, 10), (1,), (1, 2))
"""How far back in execution order each op of a block reads."""
TYPES = ("MatMul", "MatMul", "MatMul", "BatchMatMul", "Softmax", "BatchMatMul", "Cast", "Add")
MEASURED = 0.6
FAULTY_LAYERS = 40
"""One layer in so many has an op that adds an error of its own."""


def op_names(count: int) -> list[str]:
    """Names as exporters make them: ten ops a block, ten blocks a layer."""
    return [
        f"model/layer_{place // 100}/block_{place // 10 % 10}/{BLOCK[place % 10]}"
        for place in range(count)
    ]


def made_graph(names: list[str], kind: GraphKind) -> ModelGraph:
    """Chains with branches and residual adds, one output an op."""
    device = kind is GraphKind.DEVICE
    dtype = DType.FLOAT16 if device else DType.FLOAT32
    ops = []
    for place, name in enumerate(names):
        part = place % len(BLOCK)
        sources = [names[place - back] for back in READS[part] if place >= back]
        inserted = device and BLOCK[part] == "Cast"
        ops.append(
            Op(
                name,
                name,
                TYPES[part] if part < len(TYPES) else BLOCK[part],
                inputs=tuple(InputRef(f"{one}:0", TensorRef(one, 0)) for one in sources),
                outputs=(Tensor(f"{name}:0", dtype, (1, 12, 128, 64), "ND"),),
                attrs={"axis": -1} if BLOCK[part] == "Softmax" else {},
                original_names=(() if inserted else (name,)) if device else None,
                sequence=place,
            )
        )
    framework = Framework.ASCEND if device else Framework.ONNX
    sha256 = ("2" if device else "1") * 64
    return ModelGraph(f"large_{kind}", kind, framework, "made", tuple(ops), sha256=sha256)


def made_metrics(error: float) -> MetricSet:
    """Ten metrics that fit a relative error."""
    return MetricSet(
        cosine_similarity=1.0 - error**2 / 2,
        max_absolute_error=error * 3,
        accumulated_relative_error=error * 10,
        relative_euclidean_distance=error,
        kullback_leibler_divergence=error / 100,
        standard_deviation=(0.1, 0.9, 0.1, 0.9),
        mean_absolute_error=error / 4,
        root_mean_square_error=error / 3,
        max_relative_error=error * 4,
        mean_relative_error=error,
        elements=98304,
        device_nonfinite=7 if math.isnan(error) else 0,
    )


def made_comparison(name: str, error: float | None) -> Comparison:
    """The comparison of an op's only output; *error* None: its dump is missing."""
    if error is None:
        inserted = name.endswith("Cast")
        reason = Reason.INSERTED if inserted else Reason.NO_DEVICE_DUMP
        return Comparison(name, TensorIO.OUTPUT, 0, reason=reason)
    metrics = made_metrics(error)
    over = not error <= LIMITS["relative_euclidean_distance"]
    return Comparison(
        name,
        TensorIO.OUTPUT,
        0,
        golden=TensorRef(name, 0),
        rule=LineageRule.ORIGIN_OUTPUT,
        metrics=metrics,
        level=Level.FAIL if over else Level.WARN if error > 0.01 else Level.PASS,
        failed=(Metric.RELATIVE_EUCLIDEAN_DISTANCE,) if over else (),
        shape=(1, 12, 128, 64),
        device_dtype=DType.FLOAT16,
        golden_dtype=DType.FLOAT32,
        device_path=f"dump/{name.replace('/', '_')}.1.2.3",
        golden_path=f"golden/{name.replace('/', '_')}.npy",
    )


def made_errors(count: int, rng: random.Random) -> list[float | None]:
    """A relative error for each op: some layers add one, the next ones damp it out."""
    errors: list[float | None] = []
    carried = 0.0
    for place in range(count):
        layer, inside = divmod(place, 100)
        faulty = layer % FAULTY_LAYERS == FAULTY_LAYERS // 2
        carried = 0.3 if faulty and inside == 4 else carried * 0.999
        known = rng.random() < MEASURED / 0.9 and BLOCK[place % 10] != "Cast"
        error = 1e-4 * rng.uniform(0.5, 1.5) + carried
        errors.append(error if known or (faulty and inside == 4) else None)
    return errors


def made_run(count: int) -> RunData:
    """A run of *count* device ops with its real origins, states and verdict."""
    from divergraph.thresholds import verdicts

    names = op_names(count)
    device, golden = made_graph(names, GraphKind.DEVICE), made_graph(names, GraphKind.ORIGINAL)
    errors = made_errors(count, random.Random(7))
    comparisons = tuple(map(made_comparison, names, errors))
    links = tuple(
        LineageLink(name, name, LineageRule.ORIGIN_OUTPUT, 0, 0)
        for name in names
        if not name.endswith("Cast")
    )
    arrays = graph_arrays(device)
    measured, over = measured_ops(arrays, comparisons), over_ops(arrays, comparisons)
    first = [arrays.ids[number] for number in first_diverging(arrays, measured, over).tolist()]
    outputs = verdicts.outputs_by_op(comparisons)
    origins = verdicts.describe_origins(first, device.op_index(), outputs, links)
    counts = verdicts.count(count, comparisons)
    run = Run(
        name=NAME,
        golden=golden.id,
        device=device.id,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        verdict=verdicts.verdict(counts, origins, comparisons),
        method=Method.THRESHOLDS,
        counts=counts,
        thresholds=LIMITS,
    )
    states = verdicts.op_states(arrays.ids, outputs, frozenset(first))
    return RunData(run, golden, device, links, comparisons, states, origins)


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


Act: TypeAlias = Callable[[], Awaitable[object]]


def resident_mib() -> float:
    """Memory of the process at present."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


async def watch(store_url: str) -> None:
    """Open the app on the run and time what a user does."""
    from graphstore.open_store import open_store
    from tui.app import DivergraphApp
    from tui.screens.ops import OpsScreen
    from tui.session import Session
    from tui.settings import Settings
    from tui.widgets.filter_bar import FilterBar
    from tui.widgets.row_list import RowList

    def connect() -> GraphStore:
        return open_store(store_url)

    app = DivergraphApp(Session(connect, store_url), Settings(), NAME)
    async with app.run_test(size=(120, 40)) as pilot:
        print(f"{'first frame':28} {seconds_alive():6.3f} s since the process began")

        async def until(done: Callable[[], bool]) -> None:
            while not done():
                await asyncio.sleep(0.002)
            await pilot.pause()

        async def timed(what: str, act: Act) -> None:
            wall, cpu = time.perf_counter(), time.process_time()
            await act()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            print(f"{what:28} {wall:6.3f} s  CPU {cpu:6.3f} s  {resident_mib():4.0f} MiB")

        def listed(pane: str) -> int:
            found = app.screen.query(pane).results(RowList)
            return max((len(each.source) for each in found), default=0)

        def rows() -> RowList:
            return app.screen.query_one("#ops", RowList)

        def shown(before: object = None) -> bool:
            if not isinstance(app.screen, OpsScreen):
                return False
            return len(rows().source) > 0 and rows().source is not before

        async def keys(view: str, *pressed: str) -> None:
            for key in pressed:
                await timed(f"{view}, key {key}", lambda key=key: pilot.press(key))

        async def settled(what: str, *pressed: str) -> None:
            await timed(what, lambda: press_and_settle(app, pilot, *pressed))

        await timed("verdict and origins readable", lambda: until(lambda: listed("#origins") > 0))
        await keys("while loading", "j", "tab", "k")
        await timed("all rows usable", lambda: until(lambda: listed("#reasons") > 0))
        await pilot.press("2")
        await timed("ops open", lambda: until(shown))
        await keys("ops", "j", "pagedown", "G", "g")
        await timed("detail of an op", lambda: settle(app, pilot))
        await pilot.press("slash")
        bar = app.screen.query_one(FilterBar)
        for key in "soft":
            before = rows().source
            await pilot.press(key)
            bar.flush()
            await timed(f"filter, {key} typed", lambda old=before: until(lambda: shown(old)))
        await pilot.press("escape", "right", "right")
        await settle(app, pilot)
        await settled("sort", "s")
        await settled("sort, reversed", "S")
        await settled("next origin", "f", "e")
        await settled("lineage open", "3")
        await keys("lineage", "j", "pagedown", "tab", "j", "u", "pagedown", "o")
        await timed("... linked ops only", lambda: settle(app, pilot))
        await settled("lineage, name spaces folded", "minus")
        await settled("propagation open", "4")
        await keys("propagation", "j", "pagedown")
        await settled("query open", "7")
        await settled("query, its result", "f5")
        await pilot.press("escape", "5")
        await timed("submodel open, list", lambda: until(lambda: listed("#part-ops") > 0))
        await timed("submodel, graphs and dumps looked for", lambda: settle(app, pilot))
        await keys("submodel", "j", "pagedown", "b", "u", "b", "pagedown")
        for key in ("B", "o"):
            await keys("submodel", key)
            await timed("... its part", lambda: settle(app, pilot))
        await keys("submodel", "G", "B")
        await timed("... nearly all as part", lambda: settle(app, pilot))
        await keys("submodel", "k", "pageup")


async def settle(app: DivergraphApp, pilot: Pilot[None]) -> None:
    while getattr(app.screen, "waiting", False):
        await pilot.pause(0.002)
    await app.workers.wait_for_complete()
    await pilot.pause()


async def press_and_settle(app: DivergraphApp, pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await settle(app, pilot)


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
