"""The results as tables, which stand in the README between two markers."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cause_verdicts import SURE

Line = Mapping[str, Any]


def tables(results: Path) -> str:
    """The tables of a file of results, in Markdown; the last line of each case counts."""
    if not results.exists():
        return ""
    read = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    lines = list({key(line): line for line in read}.values())
    return "\n".join([*_healthy(lines), "", *_faults(lines, "device"), "", *_faults(lines, "kind")])


def key(line: Line) -> tuple[Any, ...]:
    """What tells one case from another."""
    return tuple(line[name] for name in ("model", "device", "kind", "seed"))


def known(results: Path) -> set[tuple[Any, ...]]:
    """The cases of a file that need not be run again."""
    if not results.exists():
        return set()
    found = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    return {key(line) for line in found if "error" not in line}


def _healthy(lines: Sequence[Line]) -> Iterator[str]:
    yield (
        "| device | healthy runs | diverged | guilty | suspects | tensors | CPU s | golden runs "
        "| most | peak MiB |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for device, mine in _by(lines, "device"):
        healthy = [line for line in mine if not line["kind"] and "ranking" in line]
        if not healthy:
            continue
        ranks = [each for line in healthy for each in line["ranking"]]
        guilty = sum(each[2] for each in ranks)
        runs = [line["cpu"] / line["golden_cpu"] for line in healthy]
        diverged = sum(line["verdict"] == "diverged" for line in healthy)
        yield (
            f"| {device} | {len(healthy)} | {diverged} | {guilty} | {len(ranks) - guilty} "
            f"| {sum(line['judged'] for line in healthy)} "
            f"| {statistics.median(line['cpu'] for line in healthy):.1f} "
            f"| {statistics.median(runs):.1f} | {max(runs):.1f} "
            f"| {max(line['peak_mib'] for line in healthy):.0f} |"
        )


def _faults(lines: Iterable[Line], by: str) -> Iterator[str]:
    yield f"| {by} | faults | first | first and guilty | right cause | weak | wrong | wrong, sure |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    faulty = [line for line in lines if line["kind"] and line.get("tensor")]
    for value, mine in _by(faulty, by):
        first = [line for line in mine if line.get("rank") == 1]
        guilty = sum(line["verdict"] == "diverged" for line in first)
        causes = [line["cause"] for line in mine if line.get("cause")]
        told = Counter(cause[0] for cause in causes)
        sure = sum(cause[0] == "wrong" and cause[2] >= SURE for cause in causes)
        yield (
            f"| {value} | {len(mine)} | {len(first)} | {guilty} | {told['right']} "
            f"| {told['weak']} | {told['wrong']} | {sure} |"
        )


def _by(lines: Iterable[Line], name: str) -> Iterable[tuple[str, list[Line]]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line[name], []).append(line)
    return found.items()
