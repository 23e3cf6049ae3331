"""The commands of docs/explanation/propagation.md, on the demo's runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from divergraph.cli.main import run

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "propagation.md").read_text(
    encoding="utf-8"
)
BLOCKS = re.findall(r"^```(bash|text)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, lenet: Path) -> Path:
    """A folder whose store has the runs ``demo`` and ``good``."""
    place: Path = tmp_path_factory.mktemp("spread")
    store = ["--store", str(place / ".divergraph")]
    assert run(["demo", *store]) == 0
    sides = ["--golden", "model.ckpt.meta", "--golden-dump", "golden"]
    sides += ["--device", "npu_clean/graph", "--device-dump", "npu_clean/dump"]
    paths = [each if each.startswith("--") else str(lenet / each) for each in sides]
    assert run(["compare", *paths, "--run", "good", *store]) == 0
    return place


@pytest.fixture
def runs(folder, monkeypatch, capsys):
    """The working folder has the runs in its store."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("DIVERGRAPH_STORE", raising=False)
    capsys.readouterr()


def test_the_commands_print_what_the_page_shows(runs, capsys):
    printed, shown = "", 0
    for kind, text in BLOCKS:
        if kind == "bash":
            assert run(text.split()[1:]) == (1 if "compare-runs" in text else 0)
            printed = capsys.readouterr().out
        else:
            # how far above its floor differs from machine to machine
            any_number = re.sub(r"\d+x", r"\\S+x", re.escape(text.rstrip("\n")))
            assert re.search(any_number, printed), printed
            shown += 1
    assert shown == 5


@pytest.mark.parametrize(
    "where", re.findall(r"--where '?([^`']+)'?`", PAGE), ids=lambda where: where
)
def test_the_filters_of_the_page_are_right(runs, where):
    assert run(["roles", "demo", "--where", where]) == 0
    assert run(["ops", "demo", "--where", where]) == 0
