"""The files of a server: fetched side by side, and missed loudly."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from graphstore.neo4j.local_server.jars import _in_parallel

_TESTS = Path(__file__).parents[2]
_NOWHERE = "http://127.0.0.1:9"


def test_files_are_fetched_side_by_side_with_progress(tmp_path):
    both = threading.Barrier(2, timeout=20)
    told = []

    def fetch(name):
        both.wait()  # for another fetch at the same time
        (tmp_path / name).write_bytes(b"x" * 1_000_000)
        return tmp_path / name

    _in_parallel([lambda n=n: fetch(n) for n in "abcd"], told.append)
    assert told == [f"{n} of 4 files are here, {n} MB" for n in (1, 2, 3)]


def test_no_file_is_begun_after_one_failed():
    begun = []

    def fetch(number):
        begun.append(number)
        time.sleep(0.01)
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        _in_parallel([lambda n=n: fetch(n) for n in range(1000)], None)
    assert len(begun) < 1000


@pytest.mark.thorough
def test_tests_without_them_are_skipped_and_that_is_said_once(tmp_path):
    environment = {
        **{name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path),
        "https_proxy": _NOWHERE,
    }
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    command += ["-m", "neo4j", str(_TESTS / "conformance" / "test_renaming.py")]
    done = subprocess.run(
        command, cwd=_TESTS.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "tests of Neo4j were SKIPPED" in done.stdout
    assert "no files of a Neo4j server here: cannot fetch Neo4j" in done.stdout
    assert done.stderr.count("fetching Neo4j") == 1
