"""What the command line does if nobody reads on, or the disk is full."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

_COMMAND = (sys.executable, "-c", "from divergraph.cli.main import main; main()", "query", "--list")


def test_a_reader_that_goes_away_is_neither_a_verdict_nor_an_error():
    with subprocess.Popen(
        _COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout
        assert program.stderr
        program.stdout.close()
        assert program.stderr.read() == ""
        assert program.wait() == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said_in_one_line():
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            _COMMAND, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert done.stderr == "divergraph: cannot write: No space left on device\n"
    assert done.returncode == 3


def test_the_terminal_ui_draws_into_no_pipe(divergraph, tmp_path):
    ended = divergraph("tui", "--store", tmp_path / "store")
    assert (ended.code, ended.out) == (2, "")
    assert "needs a terminal" in ended.err


@pytest.mark.skipif(os.name == "nt", reason="closes a file as POSIX shells do")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_files_are_no_trouble(closed, tmp_path):
    command = f"{shlex.quote(sys.executable)} -m divergraph runs --store store {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0
    assert b"internal error" not in done.stderr
    # None of the files that were opened instead took what was printed.
    assert all(b"the store is empty" not in file.read_bytes() for file in files_below(tmp_path))


def test_help_is_printed_in_every_encoding():
    done = subprocess.run(
        [sys.executable, "-m", "divergraph", "convert", "--help"],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
