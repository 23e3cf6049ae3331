"""The table for users of precision_tool: every command of ours in it is there, and does it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

import divergraph as dg
from divergraph.cli.command_table import command_names
from divergraph.cli.main import cli

PAGE = Path(__file__).parents[2] / "docs" / "coming-from" / "precision_tool.md"
ROWS = re.findall(r"^\| .+ \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
OURS = [each for row in ROWS for each in re.findall(r"`([^`]+)`", row)]
LINES = [line.removeprefix("divergraph ") for line in OURS]
ASKED = {"RUN": "demo", "OP": "LeNet/conv1/Conv2DRelu", "X": "0.98", "N": "2", "DEPTH": "1"}


@pytest.mark.parametrize("line", [line for line in LINES if line.split()[0] in command_names()])
def test_each_command_and_option_is_there(line):
    name, *words = shlex.split(line.replace("\\|", "|"))
    command = cli.get_command(click.Context(cli), name)
    options = {flag for each in command.params for flag in each.opts}
    if isinstance(command, click.Group) and words:
        options = {flag for each in command.commands[words[0]].params for flag in each.opts}
    given = {word for word in words if word.startswith("-") and word.strip("-").isalpha()}
    assert {flag for flag in given if flag != "-t"} <= options


@pytest.mark.parametrize(
    "line", [line for line in LINES if re.match(r"(op|ops|fusion|diff) RUN", line)]
)
def test_questions_are_answered(divergraph, lenet_demo, tmp_path, line):
    if "RUN_WITHOUT" in line:
        pytest.skip("needs a second run")
    line = line.replace("NAME", "conv").replace("TYPE", "Conv").replace("cos<=X", "cos<=0.98")
    line = line.replace("FILE", str(tmp_path / "switch.cfg"))
    words = [ASKED.get(word, word) for word in shlex.split(line)]
    done = divergraph(*words, "--store", lenet_demo)
    named = "--write" not in words or "ALL" in words
    assert done.code == (0 if named else 2) or (words[0] == "diff" and done.code == 1), done.err


@pytest.fixture(scope="module")
def lenet_demo(lenet, tmp_path_factory) -> Path:
    store = tmp_path_factory.mktemp("page") / "store"
    sides = (lenet / "model.ckpt.meta", lenet / "golden")
    device = (lenet / "npu_fault" / "graph", lenet / "npu_fault" / "dump")
    dg.compare(*sides, *device, name="demo", store=store, method="thresholds")
    return store
