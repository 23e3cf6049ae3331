"""The commands of docs/how-to/reports.md, and what the page says they print."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from divergraph.cli.main import run

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "reports.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^divergraph (.+)$", PAGE, re.MULTILINE)


@pytest.mark.thorough
def test_the_commands_write_what_the_page_says(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DIVERGRAPH_STORE", raising=False)
    for command in COMMANDS:
        capfd.readouterr()
        assert run(command.split()) in (0, 1), command
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    # With TensorFlow installed the demo is analysed further, and the table is wider.
    verdict, counts = shown.split("\n\n")[:2]
    printed = capfd.readouterr().out
    assert verdict in printed
    assert counts.split(":")[0] in printed
    assert {path.suffix for path in tmp_path.glob("demo.*")} == {
        *(".html", ".csv", ".parquet", ".xml", ".md")
    }
    named = set(re.findall(r"`(\w+)`", PAGE))
    sides = {"device", "golden"}
    for name in pq.read_schema(tmp_path / "demo.parquet").names:
        side, _, rest = name.partition("_")
        assert (
            name in named
            or (side in sides and rest in named)
            or name.endswith("_error")
            or (name in MORE_METRICS)
        ), name


MORE_METRICS = (
    "cosine_similarity",
    "relative_euclidean_distance",
    "kullback_leibler_divergence",
)
