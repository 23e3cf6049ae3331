"""The results as tables."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from cause_verdicts import SURE


def tables(results: Path) -> str:
    """The tables of a file of results, in Markdown."""
    if not results.exists():
        return ""
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    rows = [
        "| device | healthy | diverged | guilty | suspects | tensors | faults | guilty first "
        "| first | causes right | weak | wrong | wrong and sure | peak MiB |"
    ]
    for device in dict.fromkeys(line["device"] for line in lines):
        mine = [line for line in lines if line["device"] == device]
        healthy = [line for line in mine if not line["kind"] and "ranking" in line]
        faulty = [line for line in mine if line["kind"] and line.get("tensor")]
        ranks = [each for line in healthy for each in line["ranking"]]
        guilty = sum(each[2] for each in ranks)
        first = [line for line in faulty if line.get("rank") == 1]
        called = [line for line in first if line["verdict"] == "diverged"]
        causes = [line["cause"] for line in faulty if line.get("cause")]
        told = Counter(cause[0] for cause in causes)
        sure = sum(cause[0] == "wrong" and cause[2] >= SURE for cause in causes)
        peak = max((line.get("peak_mib", 0) for line in mine), default=0)
        rows.append(
            f"| {device} | {len(healthy)} | {sum(x['verdict'] == 'diverged' for x in healthy)} "
            f"| {guilty} | {len(ranks) - guilty} | {sum(x['judged'] for x in healthy)} "
            f"| {len(faulty)} | {len(called)} | {len(first)} "
            f"| {told['right']} | {told['weak']} | {told['wrong']} | {sure} | {peak:.0f} |"
        )
    return "\n".join(rows)
