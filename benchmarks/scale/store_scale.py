"""What a store takes for a run on graphs of 10 thousand to a million ops.

``python -m benchmarks.scale.store_scale [OPS ...]`` measures, for made model graphs
(:mod:`benchmarks.scale.model_graphs`), the embedded store, the same questions on networkx
and rustworkx graphs in memory, and, with ``--neo4j``, a Neo4j it starts for that size
(5.26 LTS with 1 GiB of heap, warmed up by a small run). Every way runs in a process of its
own; prints tables in Markdown, and ``--write`` puts them between the markers in
``benchmarks/README.md``. On a busy machine compare CPU seconds, those of the server too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.scale.model_graphs import made_run
from benchmarks.scale.tables import NAMED, Facts, tables
from graphstore.contract import GraphStore
from graphstore.cypher.queries import list_queries
from graphstore.model import Side

RUN = "large"
WARM = 20_000
"""Ops of the run that warms a server up."""
_REACHED = "neo4j.json"
_ENDS = "ends.json"
SEARCHED = "layer_7/output/LayerNorm"
LONG = 2.0
"""Seconds after which a question is not asked again."""
README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- scale/store_scale.py begin -->", "<!-- scale/store_scale.py end -->"


def main() -> None:
    """Measure what the command line names, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--neo4j", type=int, default=0, metavar="OPS", help="up to so many ops")
    parser.add_argument("--write", action="store_true", help="write the tables to README.md")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        way, size, place = options.one
        print(json.dumps(WAYS[way](int(size), place)))
        return
    loads = os.getloadavg()
    found = {size: _measured(size, with_neo4j=size <= options.neo4j) for size in options.sizes}
    made = (
        f"{tables(found)}\n\nTaken at load averages of {loads[0]:.1f} before and "
        f"{os.getloadavg()[0]:.1f} after."
    )
    print(made)
    if options.write:
        _write(made)


def _measured(size: int, *, with_neo4j: bool) -> dict[str, Facts]:
    """The facts of each way at one size."""
    found: dict[str, Facts] = {}
    with tempfile.TemporaryDirectory() as place:
        ways = ("embedded", "embedded-read", "embedded-commands")
        found["embedded"] = {k: v for way in ways for k, v in _child(way, size, place).items()}
        if with_neo4j:
            with _server(Path(place)):
                found["neo4j"] = _child("neo4j", size, place) | _child("neo4j-read", size, place)
        found["networkx"] = _child("networkx", size, place)
        if find_spec("rustworkx"):
            found["rustworkx"] = _child("rustworkx", size, place)
    return found


def _write(made: str) -> None:
    text = README.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    README.write_text(f"{head}{BEGIN}\n{made}\n{END}{tail}", encoding="utf-8")


def _child(way: str, size: int, place: str) -> Facts:
    command = [sys.executable, "-m", "benchmarks.scale.store_scale", "--one", way, str(size), place]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    facts: Facts = json.loads(done.stdout.splitlines()[-1])
    return facts


def _embedded(size: int, place: str) -> Facts:
    from graphstore.embedded import EmbeddedStore

    root = Path(place) / "store"
    data = made_run(size, name=RUN)
    facts: Facts = {"graph in memory, MiB": _peak()}
    with EmbeddedStore(root) as store, _timed(facts, "import"):
        store.save_run(data)
    facts["import peak, MiB"] = _peak()
    with EmbeddedStore(root) as store, _timed(facts, "first question"):
        store.states(RUN)
    facts["disk, MiB"] = sum(p.stat().st_size for p in root.rglob("*") if p.is_file()) / 2**20
    return facts


def _embedded_read(size: int, place: str) -> Facts:  # noqa: ARG001 - one signature for all
    from graphstore.embedded import EmbeddedStore

    facts: Facts = {}
    with _timed(facts, "open"):
        store = EmbeddedStore(Path(place) / "store")
        store.run(RUN)
    with store:
        ids = store.arrays(RUN).ids
        ends = [ids[len(ids) // 2 - 500], ids[len(ids) // 2]]
        (Path(place) / _ENDS).write_text(json.dumps(ends))
        return facts | _asked(store)


def _embedded_commands(size: int, place: str) -> Facts:  # noqa: ARG001
    """Commands that show a few ops, each a process of its own. This one is small: a process
    begins with the peak memory of who starts it."""
    start, end = json.loads((Path(place) / _ENDS).read_text())
    facts: Facts = {}
    for command in (["op", RUN, end], ["between", RUN, start, end], ["ops", RUN, "--limit", "20"]):
        words = ["-m", "divergraph", *command, "--store", f"{place}/store"]
        with subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{command} ended with {process.returncode}")
        facts[f"`{command[0]}` in a new process, CPU s"] = round(used.ru_utime + used.ru_stime, 2)
        facts[f"`{command[0]}` in a new process, peak MiB"] = used.ru_maxrss / 1024
    return facts


@contextmanager
def _server(place: Path) -> Iterator[None]:
    """A Neo4j, which a file in *place* says how to reach."""
    from benchmarks.scale.local_neo4j import LTS, local_server

    home = place / "neo4j"
    with local_server(home, version=LTS, heap="1g", quick_start=False) as server:
        reached = [server.url, server.user, server.password, server.pid]
        (place / _REACHED).touch(mode=0o600)
        (place / _REACHED).write_text(json.dumps(reached))
        yield


def _neo4j(size: int, place: str) -> Facts:
    data = made_run(size, name=RUN)
    facts: Facts = {"graph in memory, MiB": _peak()}
    with _neo4j_store(place) as (store, server):
        store.save_run(made_run(min(size, WARM), 1, "warm"))
        begin = _cpu_seconds(server)
        with _timed(facts, "import"):
            store.save_run(data)
        facts["import, server CPU s"] = round(_cpu_seconds(server) - begin, 2)
    facts["import peak, MiB"] = _peak()
    return facts


def _neo4j_read(size: int, place: str) -> Facts:  # noqa: ARG001
    facts: Facts = {}
    with _neo4j_store(place) as (store, _):
        with _timed(facts, "open"):
            store.run(RUN)
        return facts | _asked(store)


@contextmanager
def _neo4j_store(place: str) -> Iterator[tuple[GraphStore, int]]:
    """The store on the server of :func:`_server`, and the server's process id."""
    from graphstore.neo4j import Neo4jStore

    url, user, password, server = json.loads((Path(place) / _REACHED).read_text())
    with Neo4jStore(url, user, password) as store:
        yield store, server


def _cpu_seconds(process: int) -> float:
    """CPU time of another process of this user; 0 where there is no /proc."""
    path = Path(f"/proc/{process}/stat")
    if not path.exists():
        return 0.0
    # the name of the process is in brackets and may have blanks in it
    fields = path.read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _asked(store: GraphStore) -> Facts:
    """Each way of reading, cold where it says so, then each named query as front ends ask it."""
    facts: Facts = {}
    with _timed(facts, "arrays, both sides"):
        arrays = store.arrays(RUN)
        golden = store.arrays(RUN, Side.GOLDEN)
    middle = arrays.ids[len(arrays.ids) // 2]
    values: dict[str, object] = {
        "op": middle,
        "ops": [middle],
        "start_op": arrays.ids[len(arrays.ids) // 4],
        "end_op": arrays.ids[3 * len(arrays.ids) // 4],
        "text": SEARCHED,
        "limit": 20,
        "times": 2.0,
        "first": 0,
        "until": 1000,
        "before": RUN,
        "after": RUN,
    }
    for query in list_queries():
        params = {name: values[name] for name in query.parameters}
        if "op" in params and query.parameters["op"].startswith("original"):
            params["op"] = golden.ids[len(golden.ids) // 2]
        ask = partial(store.named, query.name, RUN, params, limit=1000)
        _best(facts, f"{NAMED}{query.name}, first", ask, times=1)
        _best(facts, f"{NAMED}{query.name}", ask)
    _best(facts, "one op whole", lambda: store.ops(RUN, [middle]))
    with _timed(facts, "states"):
        store.states(RUN)
    with _timed(facts, "listed ops"):
        for _ in store.listed_ops(RUN):
            pass
    facts["queries peak, MiB"] = _peak()
    with _timed(facts, "comparisons"):
        store.comparisons(RUN)
    with _timed(facts, "both graphs"):
        store.graph(RUN)
        store.graph(RUN, Side.GOLDEN)
    facts["all read, peak MiB"] = _peak()
    return facts


def _networkx(size: int, place: str) -> Facts:  # noqa: ARG001
    import networkx as nx

    data = made_run(size, name=RUN)
    before = _peak()
    facts: Facts = {}
    with _timed(facts, "import"):
        sides: list[Any] = [nx.DiGraph(_edges(graph)) for graph in (data.device, data.golden)]
        device = sides[0]
        for op in data.device.ops:
            device.add_node(op.id, type=op.type)
        for item in data.comparisons:
            device.nodes[item.op]["result"] = item
    facts["import peak, MiB"] = _peak() - before
    ids = [op.id for op in data.device.ops]
    middle, start, end = (ids[len(ids) * part // 4] for part in (2, 1, 3))
    _best(facts, f"{NAMED}ancestors", lambda: nx.ancestors(device, middle))
    _best(facts, f"{NAMED}descendants", lambda: nx.descendants(device, middle))
    _best(
        facts,
        f"{NAMED}ops_between",
        lambda: nx.descendants(device, start) & nx.ancestors(device, end),
    )
    _best(facts, f"{NAMED}op_search", lambda: [op for op in ids if SEARCHED.lower() in op.lower()])
    _best(facts, f"{NAMED}first_diverging", lambda: _first_diverging(device))
    return facts


def _rustworkx(size: int, place: str) -> Facts:  # noqa: ARG001
    import rustworkx as rx

    data = made_run(size, name=RUN)
    before = _peak()
    facts: Facts = {}
    with _timed(facts, "import"):
        numbers = {op.id: number for number, op in enumerate(data.device.ops)}
        device = rx.PyDiGraph()
        device.add_nodes_from(list(numbers))
        edges = [(numbers[a], numbers[b]) for a, b in _edges(data.device)]
        device.add_edges_from_no_data(edges)
    facts["import peak, MiB"] = _peak() - before
    middle, start, end = (len(numbers) * part // 4 for part in (2, 1, 3))
    _best(facts, f"{NAMED}ancestors", lambda: rx.ancestors(device, middle))
    _best(facts, f"{NAMED}descendants", lambda: rx.descendants(device, middle))
    _best(
        facts,
        f"{NAMED}ops_between",
        lambda: rx.descendants(device, start) & rx.ancestors(device, end),
    )
    return facts


def _first_diverging(device: Any) -> list[str]:
    import networkx as nx

    tainted: dict[str, bool] = {}
    found = []
    for op in nx.topological_sort(device):
        bad_before = any(tainted[source] for source in device.predecessors(op))
        result = device.nodes[op]["result"]
        if result.over and not bad_before:
            found.append(op)
        tainted[op] = result.over if result.compared else bad_before
    return found


def _edges(graph: Any) -> Iterator[tuple[str, str]]:
    for op in graph.ops:
        for ref in op.inputs:
            if ref is not None and ref.producer is not None:
                yield ref.producer.op, op.id


@contextmanager
def _timed(facts: Facts, name: str) -> Iterator[None]:
    wall, used = time.perf_counter(), sum(os.times()[:4])
    yield
    facts[f"{name}, s"] = round(time.perf_counter() - wall, 4)
    facts[f"{name}, CPU s"] = round(sum(os.times()[:4]) - used, 4)  # with processes that ended


def _best(facts: Facts, name: str, question: Callable[[], object], times: int = 3) -> None:
    """The best wall and CPU time of a few, fewer where one takes long."""
    taken: list[tuple[float, float]] = []
    while len(taken) < times and sum(wall for wall, _ in taken) < LONG:
        begin, used = time.perf_counter(), time.process_time()
        question()
        taken.append((time.perf_counter() - begin, time.process_time() - used))
    facts[f"{name}, ms"] = round(1000 * min(wall for wall, _ in taken), 3)
    facts[f"{name}, CPU ms"] = round(1000 * min(used for _, used in taken), 3)


def _peak() -> float:
    """Peak resident memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


WAYS: dict[str, Callable[[int, str], Facts]] = {
    "embedded": _embedded,
    "embedded-read": _embedded_read,
    "embedded-commands": _embedded_commands,
    "neo4j": _neo4j,
    "neo4j-read": _neo4j_read,
    "networkx": _networkx,
    "rustworkx": _rustworkx,
}


if __name__ == "__main__":
    main()
