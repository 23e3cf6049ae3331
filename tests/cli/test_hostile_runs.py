"""Runs all of whose texts are hostile: no command hands the terminal what it would obey."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from full_run import sample_run
from hostile_run import ACTS, hostile_throughout
from layered_run import analysed_run

from divergraph.cli import command_table
from divergraph.cli.main import run
from graphstore.open_store import open_store

pytestmark = pytest.mark.thorough

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
ESCAPES = re.compile("\\\\(x1b|u001b)")
CONV, POOL = f"conv{ACTS}", f"pool{ACTS}"
SOFTMAX = f"model/layer_2/Softmax{ACTS}"
COMMANDS = [
    ["graph", "full"],
    ["runs"],
    ["store", "info"],
    ["ops", "full", "--limit", "99"],
    ["ops", "layers"],
    ["ops", "full", "--where", f'type:"Conv2D{ACTS}"'],
    ["ops", "full", "--where", f"nonsense{ACTS}"],
    ["origins", "full"],
    ["origins", "layers"],
    ["roles", "full"],
    ["roles", "layers"],
    ["trace", "full", CONV],
    ["trace", "layers", SOFTMAX],
    ["lineage", "full", CONV],
    ["op", "full", CONV, "--all"],
    ["op", "full", CONV, "--depth", "2"],
    ["fusion", "full", CONV],
    ["precision-tool", "--run", "full", "ls"],
    ["between", "full", CONV, POOL],
    ["findings", "full"],
    ["recurring"],
    ["regressions", "--hours", "1e6"],
    ["model", "full"],
    ["blame", "layers"],
    ["advise", "full"],
    ["advise", "layers"],
    ["compare-runs", "full", "layers"],
    ["submodel", "full", "--start", CONV, "--end", POOL],
    ["minimize", "full", "-o", f"gone{ACTS}"],
    ["consistency", f"gone{ACTS}", "--graph", f"gone{ACTS}"],
    ["query", "MATCH (o:Op) RETURN o"],
    ["query", "MATCH (a)-[r:FUSES]->(b) RETURN a, b"],
    ["report", "full", "--markdown", "-"],
    ["report", "full", "--junit", "-"],
    ["report", "layers", "--markdown", "-"],
    ["report", "full", "--csv", "-"],
    ["report", "full", "--csv", f"gone{ACTS}/run.csv"],
    ["detect", f"gone{ACTS}"],
    ["dumps", f"gone{ACTS}"],
    ["diff", f"gone{ACTS}", f"gone{ACTS}"],
    ["capture", f"gone{ACTS}", "-o", "out"],
    ["import", f"gone{ACTS}"],
    ["convert", f"gone{ACTS}", "-o", "out"],
    ["delete", f"gone{ACTS}"],
    ["rename", "full", f"gone{ACTS}"],
    ["copy", f"gone{ACTS}", "--to", "other"],
    ["export", "full", "-o", f"gone{ACTS}.json"],
    ["gate", "full", "--baseline", "layers"],
    ["gate", "full", "--baseline", f"gone{ACTS}"],
    ["gate", "full", "--baseline", f"base{ACTS}", "--update"],
    ["tensor", "full", CONV],
    ["tensor", f"gone{ACTS}"],
    ["note", "add", "full", CONV, f"known{ACTS}"],
    ["note", "list"],
    ["baseline", "set", "full"],
    ["baseline", "list"],
    *(["precision-tool", "--run", "full", *rest] for rest in (["ni", CONV], ["vcs"])),
    *([command, f"gone{ACTS}"] for command in ("logs", "open", "ranks", "replay", "verify")),
    ["analyse", f"gone{ACTS}"],
    ["watch", f"gone{ACTS}", "--golden", f"gone{ACTS}"],
    [f"gone{ACTS}"],
]
SAY_NO_NAMES = (
    *(["runs"], ["store", "info"], ["blame", "layers"], ["roles", "full"]),
    ["recurring"],  # nothing is guilty in both
)
OF_NO_RUN = ("completion", "demo", "doctor", "dump-config", "neo4j", "schema")
TRIED_ELSEWHERE = (
    *("backup", "compare", "mcp", "npu-dump", "npu-overflow", "restore"),
    *("serve", "shell", "tf-dump", "tui"),
)
WITH_JSON = (
    *("runs", "ops", "op", "fusion", "origins", "roles", "trace", "lineage", "between"),
    *("query", "advise"),
)


@pytest.fixture(scope="module")
def strangers_store(tmp_path_factory) -> Path:
    store = tmp_path_factory.mktemp("strangers") / "store"
    with open_store(str(store)) as opened:
        opened.save_run(hostile_throughout(sample_run("full")))
        opened.save_run(hostile_throughout(analysed_run("layers")))
        opened.save_graph(hostile_throughout(sample_run("full")).device, "graph")
    # each list has something to say, whichever tests ran before
    assert run(["note", "add", "full", CONV, f"known{ACTS}", "--store", str(store)]) == 0
    assert run(["baseline", "set", "full", "--store", str(store)]) == 0
    return store


@pytest.mark.slow
@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda given: " ".join(given)[:24])
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_no_command_says_what_a_terminal_obeys(
    divergraph, strangers_store, tmp_path, monkeypatch, arguments, as_json
):
    if as_json and arguments[0] not in WITH_JSON:
        pytest.skip("has no JSON, or says the same in it")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIVERGRAPH_STORE", str(strangers_store))
    ended = divergraph(*arguments, *(["--json"] if as_json else []))
    assert ended.code in (0, 1, 2)
    assert OBEYED.search(ended.out.replace("\r\n", "\n") + ended.err) is None
    if ended.code == 0 and arguments not in SAY_NO_NAMES:
        assert ESCAPES.search(ended.out + ended.err), "the hostile texts were not said at all"
    if as_json and ended.code in (0, 1):
        json.loads(ended.out)


def test_every_command_is_tried_or_says_nothing_of_a_run():
    tried = {arguments[0] for arguments in COMMANDS}
    assert tried >= set(command_table.command_names()) - {*OF_NO_RUN, *TRIED_ELSEWHERE}


@pytest.mark.parametrize(
    "arguments", [["ops", "full"], ["trace", "full", CONV]], ids=lambda a: a[0]
)
def test_a_terminal_gets_our_own_styles_only(strangers_store, arguments):
    """Through a pseudo-terminal, where Click keeps styles: bold on, bold off."""
    main, other = pty.openpty()
    command = [sys.executable, "-m", "divergraph", *arguments, "--store", str(strangers_store)]
    with subprocess.Popen(command, stdout=other, stderr=other, stdin=other) as started:
        os.close(other)
        said = b""
        while True:
            try:
                part = os.read(main, 65536)
            except OSError:  # the terminal is gone with its last program
                break
            said += part
        os.close(main)
        assert started.wait() == 0
    text = said.decode("utf-8").replace("\r\n", "\n")
    assert ESCAPES.search(text)
    assert OBEYED.search(re.sub("\x1b\\[[01]m", "", text)) is None


def test_a_csv_report_can_be_looked_at(strangers_store, tmp_path):
    files = {name: tmp_path / f"run.{name}" for name in ("csv", "markdown", "junit")}
    options = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    assert run(["report", "full", "--store", str(strangers_store), *options]) == 0
    for path in files.values():
        text = path.read_bytes().decode("utf-8").replace("\r\n", "\n")
        assert OBEYED.search(text) is None
        assert ESCAPES.search(text)
    lines = files["csv"].read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + len(sample_run("full").comparisons)
