"""docs/how-to/teams.md: its commands for a server of one's own run as they stand."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from graphstore.neo4j.address import SCHEMES, parse_address
from graphstore.neo4j.credentials import config_path, find_credentials

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "teams.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)  # a busy machine is no failure
@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j-access")
def test_the_commands(tmp_path):
    """One shell runs all: what one block sets, the next ones use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    lines = "".join(blocks("bash"))
    assert lines.count("neo4j start") == 1
    small = lines.replace("neo4j start", f"neo4j start --port {port} --heap 256m")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NEO4J_")}
    environment = kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    try:
        done = subprocess.run(
            ["bash", "-e", "-c", small],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        stop = ["divergraph", "neo4j", "stop"]
        subprocess.run(stop, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    url = f"bolt://127.0.0.1:{port}"
    assert f"is running at {url}" in done.stdout
    assert re.search(rf"^ok +store +{url}: 1 run", done.stdout, re.MULTILINE)
    assert re.search(r"^run +copied ", done.stdout, re.MULTILINE)
    assert (tmp_path / "team.backup").is_file()


def test_the_file_of_passwords(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = config_path()
    path.parent.mkdir(parents=True)
    path.touch(0o600)
    (text,) = blocks("toml")
    path.write_text(text)
    found = find_credentials(parse_address("neo4j+s://db.example.org"), {})
    assert (found.user, found.database) == ("ann", "runs")
    assert find_credentials(parse_address("bolt://10.0.0.7"), {}).user == "neo4j"


def test_every_scheme_is_named():
    assert {scheme for scheme in SCHEMES if f"`{scheme}://" not in PAGE} == set()
