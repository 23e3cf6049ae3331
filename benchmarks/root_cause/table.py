"""The results as tables, printed or written into the README between two markers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import asked

START, END = "<!-- root cause: start -->", "<!-- root cause: end -->"
REPORTED = "<!-- reported faults: start -->", "<!-- reported faults: end -->"

_BROKEN = 0.5
"""Final error from which a device without an injected fault counts as one that fails by itself."""
_KEY = ("model", "device", "variant", "kind", "seed")
_METHODS = ("first cos < 0.99", "DAG frontier", "gain")


def write_table(results: Path, *, into_readme: bool, reported: bool = False) -> None:
    """Print the tables; with *into_readme* also put them between the markers."""
    start, end = REPORTED if reported else (START, END)
    lines = _latest(map(json.loads, results.read_text(encoding="utf-8").splitlines()))
    rows = [*_ranks(lines), "", *_by_kind(lines)]
    if not reported:
        rows = [*_ranks(lines), "", *_clean(lines), "", *_natural(lines)]
    text = "\n".join(rows)
    print(text)
    if into_readme:
        asked.into_readme(start, end, text)


def _latest(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last line of each case, sorted by device."""
    found = {tuple(line[name] for name in _KEY): line for line in lines}
    return sorted(found.values(), key=lambda line: (line["device"], line["variant"]))


def _ranks(lines: Iterable[dict[str, Any]]) -> Iterable[str]:
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in lines:
        if line["kind"] and line["visible"]:
            cells.setdefault((line["device"], line["variant"]), []).append(line)
    yield "| device | measured | faults | ours | called guilty | " + " | ".join(_METHODS) + " |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for (device, variant), found in cells.items():
        ours = _share([each["rank"] for each in found])
        guilty = 100 * sum(each["verdict"] == "diverged" for each in found) / len(found)
        others = [_share([each["baselines"][method] for each in found]) for method in _METHODS]
        yield (
            f"| {device} | {variant} | {len(found)} | {ours} | {guilty:.0f} | "
            + " | ".join(others)
            + " |"
        )


def _by_kind(lines: Iterable[dict[str, Any]]) -> Iterable[str]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        if line["kind"] and line["visible"]:
            kinds.setdefault(line["kind"], []).append(line)
    yield "| kind of fault | faults | first / first three | called guilty |"
    yield "| --- | --- | --- | --- |"
    for kind, found in kinds.items():
        guilty = 100 * sum(each["verdict"] == "diverged" for each in found) / len(found)
        yield f"| {kind} | {len(found)} | {_share([x['rank'] for x in found])} | {guilty:.0f} |"


def _clean(lines: Iterable[dict[str, Any]]) -> Iterable[str]:
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in lines:
        if not line["kind"] and not _fails_by_itself(line):
            cells.setdefault((line["device"], line["variant"]), []).append(line)
    yield "| device | measured | runs | tensors judged | guilty | suspect | golden runs of time |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for (device, variant), found in cells.items():
        judged, guilty, suspect = (
            sum(each[name] for each in found) for name in ("judged", "guilty", "suspects")
        )
        times = [each["extra_cpu"] / max(each["golden_cpu"], 1e-3) for each in found]
        middle = sorted(times)[len(times) // 2]
        yield (
            f"| {device} | {variant} | {len(found)} | {judged} | {guilty} | {suspect} "
            f"| {middle:.0f} |"
        )


def _fails_by_itself(line: dict[str, Any]) -> bool:
    error = float(line["clean"])
    return int(line["guilty"]) > 0 and error > _BROKEN


def _natural(lines: Iterable[dict[str, Any]]) -> Iterable[str]:
    yield "| fails without an injected fault | measured | final error | named first |"
    yield "| --- | --- | --- | --- |"
    for line in lines:
        if not line["kind"] and _fails_by_itself(line):
            error = line["clean"] if line["clean"] == "inf" else f"{line['clean']:.2g}"
            first = "/".join(line["top"][0][0].split(";")[0].split("/")[-2:])
            yield f"| {line['model']}, {line['device']} | {line['variant']} | {error} | `{first}` |"


def _share(ranks: Sequence[int | None]) -> str:
    """Per cent ranked first, and among the first three."""
    first = sum(rank == 1 for rank in ranks) / len(ranks)
    three = sum(rank is not None and rank <= 3 for rank in ranks) / len(ranks)
    return f"{100 * first:.0f} / {100 * three:.0f}"
