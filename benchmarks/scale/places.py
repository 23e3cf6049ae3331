"""What many ranks of one model take, compared together and each by itself.

``python -m benchmarks.scale.places [PLACES [OPS]]`` makes an ONNX chain of OPS nodes, the GE
graph of it, and Ascend-named dumps of PLACES ranks with tensors of 4 KB; every fourth rank
diverges. Then, each in a process of its own: all ranks by ``compare_many``; a few of them by
``compare``, each its own run, of which the others are reckoned; questions over all ranks and about
some; ``runs`` over a store of ``--runs`` runs. Prints a table with ratios.
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
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.scale.tables import Facts

R = TypeVar("R")

ELEMENTS = 1024
ALONE = 8
"""So many ranks are compared one by one; more would only take longer."""
ASKED = 16
"""So many ranks are asked the named questions."""
OVER_ALL = {
    "tensors over a limit": "MATCH (m:Metric {over: true}) RETURN m.run, count(*)",
    "worst tensors": (
        "MATCH (m:Metric {io: 'output', compared: true})-[:OF]->(o:Op) "
        "RETURN m.run, o.name, m.relative_euclidean_distance AS error "
        "ORDER BY error DESC LIMIT 20"
    ),
    "origins": (
        "MATCH (r:Run)-[:COMPARED]->(m:Metric)-[:AGAINST]->(o:Op) "
        "WHERE m.origin_rank IS NOT NULL RETURN o.name, count(DISTINCT r.name)"
    ),
}
_STAMP = "20240101000000"
_MODEL = "chain"


def main() -> None:
    """Measure what the command line names, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="?", type=int, default=256)
    parser.add_argument("ops", nargs="?", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=10_000, help="runs of the long listing")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        way, root = options.one
        print(json.dumps(WAYS[way](Path(root), options.places, options.runs)))
        return
    with tempfile.TemporaryDirectory() as place:
        make(Path(place), options.places, options.ops)
        found = {way: _child(way, place, options.places, options.runs) for way in WAYS}
    print(f"{options.places} ranks, {options.ops} ops, 4 KB a tensor\n")
    print(_table(found, options.places))


def make(root: Path, places: int, ops: int) -> None:
    """Write the model, its GE graph and all dumps. Files of equal ranks are links to one."""
    import onnx
    from onnx import TensorProto, helper

    from divergraph.conversion.graph_files import GraphFormat, convert_file

    kinds = ("Relu", "Add", "Neg", "Mul", "Abs")
    nodes, before = [], ["x", "x"]
    for number in range(ops):
        kind = kinds[number % len(kinds)]
        inputs = before if kind in ("Add", "Mul") else before[-1:]
        name = f"block_{number // 10}/{kind.lower()}_{number}"
        nodes.append(helper.make_node(kind, inputs, [f"{name}:0"], name=name))
        before = [before[-1], f"{name}:0"]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        _MODEL,
        [value("x", TensorProto.FLOAT, [ELEMENTS])],
        [value(before[-1], TensorProto.FLOAT, [ELEMENTS])],
        value_info=[value(node.output[0], TensorProto.FLOAT, [ELEMENTS]) for node in nodes[:-1]],
    )
    onnx.save(helper.make_model(graph), root / "model.onnx")
    convert_file(root / "model.onnx", GraphFormat.GE_PROTO, root / "graph.txt")
    rng = np.random.default_rng(0)
    golden = root / "golden"
    golden.mkdir()
    sides = [_leaf(root, rank) for rank in (0, 1)]
    for number, node in enumerate(nodes):
        flat = node.name.replace("/", "_")
        values = rng.standard_normal(ELEMENTS).astype(np.float32)
        np.save(golden / f"{flat}.0.1700000000.npy", values)
        rough = values.astype(np.float16).astype(np.float32)
        off = rough * np.float32(1.3) if number > ops // 2 else rough
        for side, found in zip(sides, (rough, off), strict=True):
            np.save(side / f"{node.op_type}.{flat}.{number}.1.1700000000.output.0.npy", found)
    for rank in range(2, places):
        leaf = _leaf(root, rank)
        for entry in os.scandir(sides[rank % 4 == 1]):
            os.link(entry.path, leaf / entry.name)


def _leaf(root: Path, rank: int) -> Path:
    leaf = root / "dump" / _STAMP / str(rank) / _MODEL / "1" / "0"
    leaf.mkdir(parents=True)
    return leaf


def _child(way: str, root: str, places: int, runs: int) -> Facts:
    command = [sys.executable, "-m", "benchmarks.scale.places", str(places)]
    command += ["--runs", str(runs), "--one", way, root]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    facts: Facts = json.loads(done.stdout.splitlines()[-1])
    return facts


def _together(root: Path, places: int, runs: int) -> Facts:  # noqa: ARG001 - one signature for all
    import divergraph as dg

    with _measured() as facts, dg.open_store(root / "together") as store:
        found = dg.compare_many(
            *_paths(root), store=store, ranks="all", name="net", method="thresholds"
        )
    if sum(run.kept for run in found.runs) != places:
        raise SystemExit(str(next(run for run in found.runs if not run.kept)))
    return facts | {"MB on disk": _disk(root / "together")}


def _alone(root: Path, places: int, runs: int) -> Facts:  # noqa: ARG001
    import divergraph as dg

    some = min(ALONE, places)
    with _measured() as facts, dg.open_store(root / "alone") as store:
        for rank in range(some):
            dg.compare(
                *_paths(root), store=store, rank=rank, name=f"net.rank{rank}", method="thresholds"
            )
    facts["MB on disk"] = _disk(root / "alone")
    return {name: n if "peak" in name else n * places / some for name, n in facts.items()}


def _paths(root: Path) -> tuple[Path, Path, Path, Path]:
    return root / "model.onnx", root / "golden", root / "graph.txt", root / "dump"


def _questions(root: Path, places: int, runs: int) -> Facts:  # noqa: ARG001
    """Questions over all places, the first time and again, and those about one of many."""
    from divergraph.ask.questions.recurring import RecurringQuestion
    from graphstore.contract import QueryParameters
    from graphstore.cypher.queries import list_queries
    from graphstore.embedded import EmbeddedStore

    facts: Facts = {}
    with EmbeddedStore(root / "together") as store:
        names = [run.name for run in store.runs()]
        for when in ("first", "then"):
            for what, text in OVER_ALL.items():
                ask = partial(store.query, text, QueryParameters())
                _timed(facts, f"{what} of all ranks, {when}, s", ask)
            _timed(facts, f"recurring origins, {when}, s", partial(RecurringQuestion().ask, store))
        arrays = store.arrays(names[0])
        values = {"op": arrays.ids[len(arrays.ids) // 2], "limit": 20, "times": 2.0}
        taken = []
        for query in list_queries():
            if query.parameters.keys() <= values.keys() and "original" not in query.name:
                params = {name: values[name] for name in query.parameters}
                begin = time.perf_counter()
                for name in names[:ASKED]:
                    store.named(query.name, name, params, limit=1000)
                taken.append((time.perf_counter() - begin) / ASKED)
        facts["slowest named question of one rank, s"] = max(taken)
        facts["median named question of one rank, s"] = sorted(taken)[len(taken) // 2]
    return facts


def _listing(root: Path, places: int, runs: int) -> Facts:  # noqa: ARG001
    """``divergraph runs`` over many runs: folders of one run under other names."""
    import shutil

    many = root / "listed"
    shutil.copytree(root / "alone", many)
    first = next((many / "runs").iterdir())
    for number in range(runs):
        copied = many / "runs" / f"copy-{number}"
        copied.mkdir()
        for path in first.iterdir():
            if path.suffix == ".json":
                shutil.copyfile(path, copied / path.name)
            else:
                os.link(path, copied / path.name)
    facts: Facts = {}
    command = [sys.executable, "-m", "divergraph", "runs", "--store", str(many)]
    for name in ("first `runs`, s", "next `runs`, s"):
        _timed(facts, name, lambda: subprocess.run(command, check=True, capture_output=True))
    return facts


@contextmanager
def _measured() -> Iterator[Facts]:
    """CPU seconds of this process and those it started, wall seconds, and peak memory."""
    facts: Facts = {}
    wall, used = time.perf_counter(), _cpu()
    yield facts
    own, others = (
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    facts |= {"CPU s": _cpu() - used, "wall s": time.perf_counter() - wall}
    facts |= {"peak MiB": own, "peak MiB of a worker": others}


def _cpu() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def _timed(facts: Facts, name: str, question: Callable[[], R]) -> R:
    begin = time.perf_counter()
    answer = question()
    facts[name] = time.perf_counter() - begin
    return answer


def _disk(root: Path) -> float:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) / 1e6


def _table(found: dict[str, Facts], places: int) -> str:
    together, alone = found["together"], found["alone"]
    rows = [f"| {places} ranks | together | each by itself | ratio |", "| --- | --- | --- | --- |"]
    for name, value in together.items():
        base = alone[name]
        ratio = f"{value / base:.2f}" if base else ""
        rows.append(f"| {name} | {value:,.1f} | {base:,.1f} | {ratio} |")
    rows += [
        f"| {name} | {value:.2f} | | |"
        for facts in (found["questions"], found["listing"])
        for name, value in facts.items()
    ]
    return "\n".join(rows)


WAYS: dict[str, Callable[[Path, int, int], Facts]] = {
    "together": _together,
    "alone": _alone,
    "questions": _questions,
    "listing": _listing,
}


if __name__ == "__main__":
    main()
