"""docs/how-to/team-memory.md: its query passes its own check, its commands work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from divergraph.api.query_packs import check_queries
from divergraph.cli.main import run

PAGE = (Path(__file__).parents[2] / "docs/how-to/team-memory.md").read_text(encoding="utf-8")
QUERY = re.findall(r"^```cypher\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line.removeprefix("divergraph ")
    for block in re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


def test_the_query_of_the_page_does_what_it_says(tmp_path):
    (tmp_path / "loud_ops.cypher").write_text(QUERY[0])
    assert not check_queries(tmp_path)


@pytest.mark.thorough
def test_every_command_of_the_page_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DIVERGRAPH_STORE", raising=False)
    said = {}
    for command in COMMANDS:
        assert run(shlex.split(command)) == 0, command
        said[command] = capsys.readouterr().out
    assert said["note list demo"].count("model.ckpt@") == 2
    assert "known: the compiler drops the bias" in said["ops demo --where conv2"]
    assert "the baseline" in said["runs"]
