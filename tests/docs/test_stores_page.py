"""The commands of docs/how-to/stores.md, one after the other in one folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from divergraph.cli.main import run

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "stores.md"
COMMANDS = re.findall(r"^divergraph (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.exhaustive
def test_every_command_of_the_page_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DIVERGRAPH_STORE", raising=False)
    said = {}
    for command in COMMANDS:
        assert run(command.split()) == 0, command
        said[command] = capsys.readouterr()
    assert len(said) == 11
    assert "fault is now" not in said["rename demo fault"].err
    assert "demo is now fault" in said["rename demo fault"].err
    assert said["copy fault --to team"].err == "run fault: added\n"
    assert said["copy --all --to team"].err == "run fault: unchanged\n"
    assert said["restore week.backup fault --store elsewhere"].err == "run fault: unchanged\n"
    assert "holds    1 run, 0 graphs" in said["store info"].out
    assert "nothing to repair" in said["store repair"].err
    folder = tmp_path / ".divergraph" / "runs" / "fault"
    # demo asks blame, which writes the run anew, into a file of another name
    assert {path.suffix for path in folder.iterdir()} == {".json", ""}
