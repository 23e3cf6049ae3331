"""Both reducers on one job: ours in this process, Polygraphy's real command line beside it.

The oracle is the same: a part fails if it holds all ops of one of the faults. Polygraphy
gets it as a shell script that looks for the ops' names in the model it is handed.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from divergraph.graphs.matching.constants import constant_ops
from divergraph.submodel.minimize.prober import Prober, SearchLimits
from divergraph.submodel.minimize.search import PartSearch, SuspectUnits
from divergraph.submodel.minimize.space import Space
from graphstore.model import OracleAnswer, PartVerdict
from graphstore.traverse.topological_order import graph_arrays
from importers.registry import read_graph

SECONDS = 300


@dataclass(frozen=True)
class Reduced:
    """How a reducer did: calls of the oracle, ops left, whether a fault is among them."""

    calls: int
    sizes: tuple[int, ...]
    hit: bool
    seconds: float
    note: str = ""


class Net:
    """A model in which every node has a name that no other name holds."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = folder / path.name
        model = onnx.load(str(path))
        for place, node in enumerate(model.graph.node):
            node.name = f"op{place}_"
        onnx.save(model, str(self.path))
        self.nodes = len(model.graph.node)
        self.graph = read_graph(self.path)
        self.arrays = graph_arrays(self.graph)

    def space(self) -> Space:
        """What can be cut out of it."""
        return Space(self.arrays, (), constant_ops(self.graph))


def ours(
    space: Space,
    faults: Sequence[frozenset[int]],
    ranking: Sequence[int],
    rate: float = 1.0,
    seed: int = 0,
) -> Reduced:
    """Search with the units of *ranking* as suspects; failing parts fail at *rate*."""
    chance = random.Random(seed)

    def ask(part: frozenset[int], _: object) -> OracleAnswer:
        fails = any(fault <= part for fault in faults) and chance.random() < rate
        return OracleAnswer(PartVerdict.FAIL if fails else PartVerdict.PASS)

    prober = Prober(space, ask, SearchLimits(flaky=rate < 1.0))
    suspects = [
        SuspectUnits((unit,), str(unit), 1000.0 / (place + 1), True)
        for place, unit in enumerate(ranking)
    ]
    started = time.process_time()
    outcome = PartSearch(space, prober, suspects).run()
    taken = time.process_time() - started
    parts = [found.units for found in outcome.found]
    hit = all(any(fault <= part for part in parts) for fault in faults)
    return Reduced(prober.calls, tuple(map(len, parts)), hit and bool(parts), taken, outcome.note)


def polygraphy(
    program: str,
    model: Path,
    faults: Sequence[Sequence[str]],
    rate: float = 1.0,
    shapes: Sequence[str] = (),
) -> Reduced:
    """``polygraphy debug reduce`` with its default search."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        check, calls = folder / "check.sh", folder / "calls"
        tests = [
            " && ".join(f"grep -qa {name} polygraphy_debug.onnx" for name in fault)
            for fault in faults
        ]
        dice = "" if rate >= 1.0 else f"[ $((RANDOM % 100)) -lt {round(100 * rate)} ] || exit 0\n"
        lines = "".join(f"if {test}; then exit 1; fi\n" for test in tests)
        check.write_text(f"#!/bin/bash\necho x >>{calls}\n{dice}{lines}exit 0\n")
        check.chmod(0o755)
        command = [program, "debug", "reduce", str(model), "-o", "reduced.onnx"]
        command += ["--model-input-shapes", *shapes] if shapes else []
        started = time.monotonic()
        try:
            done = subprocess.run(
                [*command, "--check", str(check)],
                cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False,
                env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
            )  # fmt: skip
            said = [line for line in done.stderr.splitlines() if line.strip()][-1:]
            note = "" if done.returncode == 0 else " ".join(["crashed:", *said])[:120]
        except subprocess.TimeoutExpired:
            note = f"stopped after {SECONDS} s"
        taken = time.monotonic() - started
        asked = len(calls.read_text().split()) if calls.exists() else 0
        result = folder / "reduced.onnx"
        if not result.exists():
            return Reduced(asked, (), False, taken, note or "no result")
        left = [node.name for node in onnx.load(str(result)).graph.node]
        hit = any(all(name in left for name in fault) for fault in faults)
        return Reduced(asked, (len(left),), hit, taken, note)


def found_polygraphy(given: str | None) -> str | None:
    """Its program, if it is there."""
    return shutil.which(given or "polygraphy")


def averaged(rows: Sequence[Reduced], of: Callable[[Reduced], float]) -> float:
    """The mean of something over runs."""
    return sum(map(of, rows)) / len(rows)
