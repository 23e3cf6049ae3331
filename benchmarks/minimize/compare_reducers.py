"""Calls of the oracle, size and correctness of minimal failing parts, beside Polygraphy.

    python benchmarks/minimize/compare_reducers.py --models FOLDER [--polygraphy PROGRAM]

FOLDER holds PP-OCR's ONNX models (of the wheel rapidocr-onnxruntime). Without Polygraphy
0.53.6 (with onnx, onnxruntime and onnx-graphsurgeon) only our side is measured.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import TensorProto, helper
from reducers import Net, Reduced, averaged, found_polygraphy, ours, polygraphy

from divergraph.submodel.minimize.space import Space

SHAPES = {
    "cls": ["x:[1,3,48,192]"],
    "det": ["x:[1,3,320,320]"],
    "rec": ["x:[1,3,48,320]"],
}


@dataclass(frozen=True)
class Case:
    """Faults in a net (each a set of units that only fail together), and what the dumps
    point at. ``rate``: how often a failing part fails."""

    net: Net
    faults: tuple[frozenset[int], ...]
    ranking: tuple[int, ...]
    rate: float = 1.0

    def best(self, space: Space) -> list[int]:
        """The smallest convex sets there are."""
        return sorted(len(space.hull(fault)) for fault in self.faults)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--polygraphy")
    parser.add_argument("--runs", type=int, default=20, help="of ours, for each model and kind")
    parser.add_argument("--peer-runs", type=int, default=1, help="... of Polygraphy")
    parser.add_argument("--nodes", type=int, nargs="*", default=[100, 1000, 5000])
    options = parser.parse_args()
    program = found_polygraphy(options.polygraphy)
    if program is None:
        print("Polygraphy is not installed: only our side is measured")
    print(f"{'case':34} {'reducer':11} runs  calls mean (max)   ops left    right  seconds")
    with tempfile.TemporaryDirectory() as place:
        nets = _nets(options.models, Path(place))
        for kind in ("single", "interaction", "three", "flaky"):
            for name, net in nets.items():
                cases = list(_cases(kind, net, options.runs))
                _measure(f"{kind}, PP-OCR {name}", cases, program, options.peer_runs, SHAPES[name])
        for count in options.nodes:
            net = Net(_branches(Path(place) / f"b{count}.onnx", 8, count // 8), Path(place) / "n")
            bad = net.arrays.number[f"op{count // 3}_"]
            cases = [Case(net, (frozenset({bad}),), ranking) for ranking in ((bad,), ())]
            _measure(f"8 branches of {count} nodes", cases[:1], program, 1, ())
            _measure(f"8 branches of {count}, no ranking", cases[1:], None, 0, ())
        net = Net(_branches(Path(place) / "pair.onnx", 2, 50), Path(place) / "n")
        ends = [net.arrays.number[f"op{n}_"] for n in (49, 99, 100)]
        case = Case(net, (frozenset(ends),), (ends[2],))
        _measure("pair in two branches and its join", [case], program, 1, ())
    _large()


def _nets(folder: Path, place: Path) -> dict[str, Net]:
    (place / "n").mkdir()
    found = {}
    for name in SHAPES:
        (path,) = sorted(folder.glob(f"*_{name}_*.onnx"))
        found[name] = Net(path, place / "n")
    return found


def _cases(kind: str, net: Net, count: int) -> Iterator[Case]:
    space = net.space()
    units = sorted(space.everything)
    for seed in range(count):
        chance = random.Random(f"{kind} {net.path.name} {seed}")
        bad = chance.choice(units)
        # In one of six runs a healthy op looks suspicious too (algorithm study: tau = 6).
        healthy = [chance.choice(units)] if chance.random() < 0.16 else []
        if kind == "interaction":
            levels = space.above({bad})[:7]
            if not levels:
                continue
            other = chance.choice(chance.choice(levels))
            yield Case(net, (frozenset({bad, other}),), (bad, *healthy))
        elif kind == "three":
            three = chance.sample(units, 3)
            yield Case(net, tuple(frozenset({unit}) for unit in three), (*three, *healthy))
        else:
            rate = 0.6 if kind == "flaky" else 1.0
            yield Case(net, (frozenset({bad}),), (bad, *healthy), rate)


def _measure(
    what: str, cases: Sequence[Case], program: str | None, peers: int, shapes: Sequence[str]
) -> None:
    rows, best = [], 0
    for seed, case in enumerate(cases):
        space = case.net.space()
        found = ours(space, case.faults, case.ranking, case.rate, seed)
        best += sorted(found.sizes) == case.best(space)
        rows.append(found)
    _print(what, "divergraph", rows, f"{best} of {len(rows)} optimal")
    if program is None:
        return
    rows = []
    for case in cases[:peers]:
        space = case.net.space()
        names = [[n for unit in fault for n in space.ops([unit])] for fault in case.faults]
        rows.append(polygraphy(program, case.net.path, names, case.rate, shapes))
    if rows:
        notes = sorted({row.note for row in rows if row.note})
        _print(what, "polygraphy", rows, ", ".join(notes))


def _print(what: str, who: str, rows: Sequence[Reduced], note: str) -> None:
    calls = averaged(rows, lambda row: row.calls)
    most = max(row.calls for row in rows)
    sizes = averaged(rows, lambda row: sum(row.sizes))
    right = 100 * averaged(rows, lambda row: row.hit)
    seconds = averaged(rows, lambda row: row.seconds)
    print(
        f"{what:34} {who:11} {len(rows):4}  {calls:6.1f} ({most:3})  {sizes:12.1f}  {right:5.0f} %"
        f"  {seconds:7.2f}  {note}",
        flush=True,
    )


def _branches(path: Path, count: int, length: int) -> Path:
    """Chains of *length* ops side by side, summed up at the end."""
    nodes, ends = [], []
    for _ in range(count):
        last = "x"
        for _ in range(length):
            name = f"t{len(nodes)}"
            nodes.append(helper.make_node("Neg", [last], [name]))
            last = name
        ends.append(last)
    nodes.append(helper.make_node("Sum", ends, ["y"]))
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph(nodes, "branches", tensors[:1], tensors[1:])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    return path


def _large() -> None:
    """The search's own time on 100,000 ops, oracle left out."""
    import time

    from graphstore.traverse.arrays import arrays_from_edges

    size = 100_000
    shapes = {
        "chain, pair 70,000 apart": [(n, n + 1) for n in range(size - 1)],
        "blocks with skips, pair far apart": [
            (n - back, n) for n in range(1, size) for back in (1, 4) if n >= back
        ],
    }
    for what, edges in shapes.items():
        started = time.process_time()
        arrays = arrays_from_edges(
            [str(n) for n in range(size)],
            ([source for source, _ in edges], [target for _, target in edges]),
        )
        space = Space(arrays)
        made = time.process_time() - started
        for ranking, how in (((90_000,), ""), ((), ", no ranking")):
            found = ours(space, [frozenset({20_000, 90_000})], ranking)
            print(
                f"100,000 ops, {what}{how}: {found.calls} calls, {sum(found.sizes)} ops left, "
                f"{found.seconds:.2f} s of CPU (graph {made:.2f} s)"
            )


if __name__ == "__main__":
    main()
