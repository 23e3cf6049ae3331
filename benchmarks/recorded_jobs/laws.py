"""Calls between ranks, healthy and faulty, as statistics alone: which break a law?

    python benchmarks/recorded_jobs/laws.py [--calls 10000] [--seed 1]

Ranks 2 to 64; bfloat16, float16, float32; sums in ring order, one after the other or as a tree,
each step rounded; values spread, shifted, sparse, few-valued, constant, tiny or with a few large
ones. Not one healthy call may break a law; of faulty ones it is printed by fault how many do.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from divergraph.thresholds.recorded.laws import broken_laws
from divergraph.values.array_types import Array
from importers.msprobe.job_index import job_graph, scan_job

TYPES = {
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
    "float32": np.dtype(np.float32),
}
SUMS = ("all_reduce", "reduce_mean", "all_reduce_max")
OTHERS = ("all_gather_into_tensor", "broadcast", "all_to_all_single")
TOGETHER = 100
"""Calls of one job."""
FAULTS = {
    "mean for sum": SUMS[:1],
    "sum for mean": SUMS[1:2],
    "a rank is missing": SUMS,
    "own values only": SUMS,
    "a chunk is lost": SUMS,
    "the result before": (*SUMS, *OTHERS),
    "largest for sum": SUMS[:1],
    "half of it on one rank": (*SUMS, *OTHERS),
}


class Calls:
    """Calls of one job of *ranks*, drawn by *draw*."""

    def __init__(self, draw: np.random.Generator, ranks: int, kind: str) -> None:
        self.draw, self.ranks, self.type = draw, ranks, TYPES[kind]
        self.kind = kind
        self.data: list[dict[str, Any]] = [{} for _ in range(ranks)]
        self.count: Counter[str] = Counter()

    def add(self, flow: str, fault: str = "") -> None:
        """A call of *flow*; rank 1 gets what is wrong, or all do."""
        size = int(self.ranks * self.draw.integers(1, 1 + 4096 // self.ranks))
        own = [self._values(size) for _ in range(self.ranks)]
        results = self._results(flow, own)
        if fault:
            results = self._spoilt(flow, fault, own, results)
        name = {"reduce_mean": "all_reduce", "all_reduce_max": "all_reduce"}.get(flow, flow)
        call = f"Distributed.{name}.{self.count[name]}.forward"
        self.count[name] += 1
        operation = {"reduce_mean": "AVG", "all_reduce_max": "MAX"}.get(flow)
        said = {"type": "torch.distributed.ReduceOp", "value": f"RedOpType.{operation}"}
        keywords: dict[str, Any] = {} if operation is None else {"op": said}
        if flow == "broadcast":
            keywords = {"src": {"type": "int", "value": 0}}
        for rank in range(self.ranks):
            read = _leaf(own[rank], self.kind)
            first = [None, read] if flow in (OTHERS[0], OTHERS[2]) else [read]
            self.data[rank][call] = {
                "input_args": first,
                "input_kwargs": keywords,
                "output": [_leaf(results[rank], self.kind)],
            }

    def broken(self) -> dict[str, str]:
        """The calls that break a law."""
        with tempfile.TemporaryDirectory() as folder:
            for rank, data in enumerate(self.data):
                place = Path(folder) / "step0" / f"rank{rank}"
                place.mkdir(parents=True)
                content = {"task": "statistics", "level": "L1", "framework": "pytorch"}
                (place / "dump.json").write_text(json.dumps(content | {"data": data}))
            graph = job_graph(Path(folder) / "step0")
            return broken_laws(graph, scan_job(Path(folder) / "step0", graph).tensors)

    def _values(self, size: int) -> Array:
        draw = self.draw
        values = draw.standard_normal(size)
        match int(draw.integers(7)):
            case 1:
                values += draw.normal() * 3
            case 2:
                values *= draw.random(size) < 0.02
            case 3:
                values = draw.choice([0.1, -0.3, 0.7], size)
            case 4:
                values = np.full(size, draw.normal())
            case 5:
                values *= 1e-6
            case 6:
                values *= np.where(draw.random(size) < 0.01, 300.0, 1.0)
        return values.astype(self.type)

    def _results(self, flow: str, own: list[Array]) -> list[Array]:
        if flow == OTHERS[0]:
            return [np.concatenate(own)] * self.ranks
        if flow == "broadcast":
            return [own[0]] * self.ranks
        if flow == OTHERS[2]:
            parts = [np.split(each, self.ranks) for each in own]
            return [np.concatenate([each[rank] for each in parts]) for rank in range(self.ranks)]
        if flow == "all_reduce_max":
            return [np.max([each.astype(np.float32) for each in own], 0).astype(self.type)] * (
                self.ranks
            )
        total = self._sum(own)
        if flow == "reduce_mean":
            total = self._rounded(total.astype(np.float32) / self.ranks)
        return [total] * self.ranks

    def _rounded(self, values: Array) -> Array:
        return values.astype(self.type)

    def _sum(self, own: list[Array]) -> Array:
        """Added up in the job's type, in one of three orders."""

        def add(one: Array, other: Array) -> Array:
            return self._rounded(one.astype(np.float32) + other.astype(np.float32))

        match int(self.draw.integers(3)):
            case 0:
                total = own[0]
                for each in own[1:]:
                    total = add(total, each)
                return total
            case 1:
                level = list(own)
                while len(level) > 1:
                    pairs = [add(*level[at : at + 2]) for at in range(0, len(level) - 1, 2)]
                    level = pairs + level[len(pairs) * 2 :]
                return level[0]
        chunks = []
        for number, chunk in enumerate(zip(*(np.split(e, self.ranks) for e in own), strict=True)):
            total = chunk[number]
            for step in range(1, self.ranks):
                total = add(total, chunk[(number + step) % self.ranks])
            chunks.append(total)
        return np.concatenate(chunks)

    def _spoilt(self, flow: str, fault: str, own: list[Array], results: list[Array]) -> list[Array]:
        wide = [each.astype(np.float32) for each in own]
        right = results[0].astype(np.float32)
        everywhere: dict[str, Callable[[], Array]] = {
            "mean for sum": lambda: right / self.ranks,
            "sum for mean": lambda: right * self.ranks,
            "largest for sum": lambda: np.max(wide, 0),
        }
        if fault in everywhere:
            return [self._rounded(everywhere[fault]())] * self.ranks
        if fault == "a rank is missing":
            others = own[:1] + own[2:]
            return self._results(flow, others * 2 if self.ranks == 2 else [*others, others[0] * 0])
        wrong = results[1].copy()
        if fault == "own values only":
            wrong = own[1]
        elif fault == "a chunk is lost":
            part = slice(wrong.size // 2, wrong.size // 2 + max(1, wrong.size // 4))
            wrong[part] = own[1][part]
        elif fault == "the result before":
            wrong = self._results(flow, [self._values(each.size) for each in own])[1]
        else:
            wrong[: wrong.size // 2] = 0
        return [results[0], wrong, *results[2:]]


def _leaf(values: Array, kind: str) -> dict[str, Any]:
    wide = values.astype(np.float32)
    rounded = TYPES[kind]
    mean = np.float32(wide.mean(dtype=np.float32))
    norm = np.float32(np.linalg.norm(wide))
    return {
        "type": "torch.Tensor",
        "dtype": f"torch.{kind}",
        "shape": list(values.shape),
        "Max": float(wide.max()),
        "Min": float(wide.min()),
        "Mean": float(mean.astype(rounded)),
        "Norm": float(norm.astype(rounded)),
    }


def jobs(draw: np.random.Generator, count: int) -> Iterator[Calls]:
    """Empty jobs of all types and numbers of ranks, for *count* calls."""
    for _ in range(-(-count // TOGETHER)):
        ranks = int(draw.choice([2, 3, 4, 8, 16, 64], p=[0.3, 0.15, 0.25, 0.2, 0.08, 0.02]))
        yield Calls(draw, ranks, str(draw.choice(list(TYPES))))


def main() -> None:
    """Print how many calls break a law."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    draw = np.random.default_rng(chosen.seed)
    wrong = total = 0
    for job in jobs(draw, chosen.calls):
        for _ in range(TOGETHER):
            job.add(str(draw.choice([*SUMS, *OTHERS])))
        broken = job.broken()
        total += TOGETHER
        wrong += len(broken)
        for op, said in broken.items():
            print(f"healthy, {job.ranks} ranks, {job.kind}: {op}: {said}", flush=True)
    print(f"{wrong} of {total} healthy calls break a law")
    for fault, flows in FAULTS.items():
        named = count = 0
        for job in jobs(draw, TOGETHER * 4):
            for _ in range(TOGETHER):
                job.add(str(draw.choice(list(flows))), fault)
            named += len(job.broken())
            count += TOGETHER
        print(f"{fault}: {named} of {count} break a law")


if __name__ == "__main__":
    main()
