"""What the pages in docs/ say once more than the code is the same there."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from divergraph.metrics.limits.defaults import DEFAULT_FAIL, DEFAULT_WARN
from divergraph.text.words import STATE_MARKS
from graphstore.model import Level, LineageRule, Metric, OpState, Verdict
from tui.style.glyphs import UNICODE

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])


def page(name: str) -> str:
    (path,) = ROOT.glob(f"docs/*/{name}")
    return path.read_text(encoding="utf-8")


def rows(text: str, heading: str) -> list[list[str]]:
    """The table whose first heading is *heading*, code marks taken off."""
    lines = text.split(f"\n| {heading} |")[1].splitlines()[2:]
    table = itertools.takewhile(bool, lines)
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in table]


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        name, _, place = target.partition("#")
        linked = path.parent / name if name else path
        assert linked.exists(), target
        if place:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert place in map(anchor, headings), target


def test_folders_of_the_architecture_are_there():
    for cell, *_ in rows(page("architecture.md"), "folder"):
        names = [name.strip("` ") for name in cell.split(",")]
        folder = (ROOT / names[0]).parent
        for name in names:
            assert (ROOT / name).exists() or (folder / name).exists(), name


def test_evidence():
    assert {row[0] for row in rows(page("architecture.md"), "evidence")} == set(LineageRule)


def test_metrics_and_their_limits():
    text = page("metrics.md")
    assert [row[0] for row in rows(text, "metric")] == list(Metric)
    limits = rows(text.split("## Limits")[1], "metric")
    assert {row[0] for row in limits} == set(DEFAULT_FAIL) == set(DEFAULT_WARN)
    for name, fail, warn in limits:
        side = "below" if name == Metric.COSINE_SIMILARITY else "above"
        assert fail == f"{side} {DEFAULT_FAIL[name]}"
        assert warn == f"{side} {DEFAULT_WARN[name]}"


def test_words_of_the_glossary():
    text = page("glossary.md")
    table = rows(text, "word")
    values = {word.strip("*"): set(re.findall(r"\w[\w ]*", said)) for word, _, said, _ in table}
    assert values["verdict"] >= set(Verdict)
    assert values["level"] >= set(Level)
    assert values["state"] >= set(OpState)
    marks = {row[0]: (row[1], row[2]) for row in rows(text, "state")}
    assert marks == {state.value: (UNICODE.state(state), STATE_MARKS[state]) for state in OpState}
