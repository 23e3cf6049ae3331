"""Folders of processes that run models: what killed sessions left is removed, nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from divergraph.execute.child.own_folder import OwnFolder, remove_left

pytest.importorskip("fcntl")
LONG_AGO = (1e9, 1e9)


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("use", ["model", "probe"])
def test_the_folder_of_a_killed_session_is_removed(temporary, use) -> None:
    code = (
        "import os; from divergraph.execute.child.own_folder import OwnFolder\n"
        f"own = OwnFolder({use!r}); print(own.path, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
    )
    left = temporary / done.stdout.strip()
    assert left.is_dir()
    remove_left(use)
    assert left.is_dir(), "young"
    os.utime(left, LONG_AGO)
    remove_left(use)
    assert not left.exists()


def test_what_a_session_holds_and_what_is_not_ours_stays(temporary) -> None:
    own = OwnFolder()
    os.utime(own.path, LONG_AGO)
    (temporary / "kept").mkdir()
    link = temporary / "divergraph-model-link"
    link.symlink_to(temporary / "kept")
    os.utime(link, LONG_AGO, follow_symlinks=False)
    remove_left()
    assert Path(own.path).is_dir()
    assert (temporary / "kept").is_dir()
    own.remove()
    assert not Path(own.path).exists()
