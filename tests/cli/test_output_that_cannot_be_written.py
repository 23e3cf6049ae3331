"""What the command line does if nobody reads on, or the disk is full."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.thorough

_PROGRAM = (sys.executable, "-c", "from divergraph.cli.main import main; main()")
_PRINTS = [
    pytest.param(("query", "--list"), id="text"),
    pytest.param(("runs", "--json"), id="JSON"),
    pytest.param(("--help",), id="help"),
    pytest.param(("--version",), id="version"),
]

needs_full = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="needs a device that is always full"
)


@pytest.fixture(params=[None, "1"], ids=["buffered", "unbuffered"], autouse=True)
def buffering(request, monkeypatch, tmp_path):
    """Python keeps what it could not write and tries once more at its end, or it keeps nothing."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    if request.param:
        monkeypatch.setenv("PYTHONUNBUFFERED", request.param)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("arguments", _PRINTS)
def test_a_reader_that_goes_away_is_neither_a_verdict_nor_an_error(arguments):
    with subprocess.Popen(
        (*_PROGRAM, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout
        assert program.stderr
        program.stdout.close()
        assert program.stderr.read() == ""
        assert program.wait() == 141


def test_a_reader_may_leave_after_one_line():
    command = f"{shlex.join(_PROGRAM)} query --list | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    first, code = done.stdout.splitlines()
    assert first.startswith("amplifiers")
    assert (code, done.stderr) in (("141", ""), ("0", ""))  # all may be written before head ends


@needs_full
@pytest.mark.parametrize("arguments", _PRINTS)
def test_a_full_disk_is_said_in_one_line(arguments):
    done = into_full(arguments, ">/dev/full")
    assert done.stderr == "divergraph: cannot write: No space left on device\n"
    assert done.returncode == 3


def test_an_answer_that_fits_in_part_is_no_answer(tmp_path, monkeypatch):
    """The system takes the first kilobyte of a text and fails only when asked again."""
    pytest.importorskip("resource")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # cut modules would be kept
    command = f"ulimit -f 1; {shlex.join(_PROGRAM)} schema ops >answer"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == "divergraph: cannot write: File too large\n"
    assert (done.returncode, (tmp_path / "answer").stat().st_size) == (3, 1024)


@pytest.mark.slow
def test_a_compiled_module_that_a_full_disk_cut_is_said(tmp_path, monkeypatch):
    """Python keeps what could be written of it; Click would take its end for a closed prompt."""
    from divergraph.cli.manage import completion_command

    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
    program = "import sys, py_compile; print(py_compile.compile(sys.argv[1]))"
    compiled = [sys.executable, "-c", program, str(completion_command.__file__)]
    said = subprocess.run(compiled, capture_output=True, text=True, check=True).stdout
    os.truncate(said.strip(), 100)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    command = (*_PROGRAM, "completion", "bash")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.endswith("is cut short: delete its folders __pycache__\n")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)


@needs_full
def test_nobody_can_be_told_where_both_are_full():
    assert into_full(("query", "--list"), ">/dev/full 2>/dev/full").returncode == 3


@needs_full
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("trace", "nowhere", "op"), 2), (("trace", "--nonsense"), 2), (("runs",), 0)],
)
def test_the_exit_code_is_told_though_nothing_can_be_said(arguments, code):
    done = into_full(arguments, "2>/dev/full")
    assert (done.returncode, done.stdout) == (code, "")


@needs_full
def test_the_answer_is_given_though_notes_cannot(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    done = into_full(("diff", "array.npy", "array.npy", "--json"), "2>/dev/full")
    assert done.returncode == 0
    assert json.loads(done.stdout)


def test_a_reader_of_errors_may_leave(tmp_path):
    with subprocess.Popen(
        (*_PROGRAM, "trace", "nowhere", "op"), stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout
        assert program.stderr
        program.stderr.close()
        assert program.stdout.read() == b""
        assert program.wait() == 2


def test_the_terminal_ui_draws_into_no_pipe(divergraph, tmp_path):
    ended = divergraph("tui", "--store", tmp_path / "store")
    assert (ended.code, ended.out) == (2, "")
    assert "needs a terminal" in ended.err


@pytest.mark.skipif(os.name == "nt", reason="closes a file as POSIX shells do")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_files_are_no_trouble(closed, tmp_path):
    (tmp_path / "store").mkdir()
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


def into_full(arguments: tuple[str, ...], places: str) -> subprocess.CompletedProcess[str]:
    """Run the program with its output in *places*, as a shell writes them."""
    command = f"{shlex.join((*_PROGRAM, *arguments))} {places}"
    return subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60
    )


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
