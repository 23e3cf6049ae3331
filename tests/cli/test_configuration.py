"""The user's own defaults: option, then environment, then file, then what is built in."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Writes the configuration, and goes into an empty folder."""
    path = tmp_path / "config.toml"
    monkeypatch.setenv("DIVERGRAPH_CONFIG", str(path))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def write(text):
        path.write_text(text, encoding="utf-8")
        return path

    return write


def names(ended):
    return [run["run"] for run in ended.json["runs"]]


def test_options_go_before_the_environment_and_that_before_the_file(
    divergraph, configured, two_runs, tmp_path, monkeypatch
):
    configured(f"store = {json.dumps(two_runs)}\n[runs]\nlimit = 1\n")
    assert names(divergraph("runs", "--json")) == ["second"]
    assert names(divergraph("runs", "--json", "--limit", "5")) == ["first", "second"]
    monkeypatch.setenv("DIVERGRAPH_STORE", str(tmp_path / "gone"))
    assert "gone: there is no store" in divergraph("runs").err
    assert names(divergraph("runs", "--json", "--store", two_runs)) == ["second"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nstor = 'x'\n", "config.toml:2: 'stor' is neither 'store' nor a command (did you mean"),
        ("\n\n[opps]\nlimit = 1\n", "config.toml:3: 'opps' is neither"),
        ("[runs]\nlimits = 1\n", "config.toml:2: runs has no option --limits"),
        ("[runs]\nlimit = 'many'\n", "config.toml:2: Invalid value for '--limit': 'many' is not"),
        ("store = 3\n", "config.toml:1: store = 3 is no folder and no URL"),
        ("store = \n", "config.toml: not a TOML file: Invalid value (at line 1, column 9)"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_its_line(divergraph, configured, text, said):
    configured(text)
    ended = divergraph("runs")
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert divergraph("--help").code == 0


def test_the_key_store_is_not_the_command(divergraph, configured, two_runs):
    configured(f"store = {json.dumps(two_runs)}\n")
    assert divergraph("store", "info").code == 0


def test_commands_below_a_command_have_tables_of_their_own(divergraph, configured, two_runs):
    configured(f"store = {json.dumps(two_runs)}\n[note.list]\nlimit = 0\n")
    assert "config.toml:3: Invalid value for '--limit': 0 is not" in divergraph("note", "list").err


def test_a_file_in_the_folder_changes_nothing(divergraph, configured):
    path = configured("")
    for name in ("divergraph.toml", "config.toml", "pyproject.toml"):
        (path.parent / "here" / name).write_text("[tool.divergraph]\nstor = 1\n")
    assert divergraph("runs").code == 0


@pytest.mark.slow
def test_doctor_says_where_settings_come_from(divergraph, configured, two_runs):
    path = configured(f"store = {json.dumps(two_runs)}\n[ops]\nlimit = 3\n")
    told = divergraph("doctor", "--json").json["checks"]
    checks = {each["check"]: each["detail"] for each in told}
    assert checks["setting: store"] == f"{two_runs} ({path}:1)"
    assert checks["ops --limit"] == f"3 ({path}:3)"
    assert "DIVERGRAPH_CONFIG" in checks["environment sets"]
    configured("[opps]\n")
    broken = divergraph("doctor")
    assert broken.code == 3
    assert "FAIL configuration" in broken.out


@pytest.mark.thorough
@pytest.mark.slow
def test_bash_completes_commands_options_values_and_runs(two_runs, tmp_path):
    program = tmp_path / "divergraph"
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m divergraph \"$@\"\n")
    program.chmod(0o755)
    script = f"""
PATH='{tmp_path}':$PATH
eval "$(divergraph completion bash)"
ask() {{
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
  _divergraph_completion divergraph; echo "${{COMPREPLY[*]}}"
}}
ask divergraph comp
ask divergraph ops --so
ask divergraph compare --method r
DIVERGRAPH_STORE='{two_runs}' ask divergraph ops sec
DIVERGRAPH_STORE=/nowhere ask divergraph ops sec
"""
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "compare completion compare-runs",
        "--sort",
        "root-cause",
        "second",
        "",
    ]


def test_fish_completes_what_holds_a_comma(divergraph):
    script = divergraph("completion", "fish").out
    assert 'string split --max 1 ","' in script
    assert 'string split ","' not in script
