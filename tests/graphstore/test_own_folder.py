"""Temporary folders: what killed processes left is removed, nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from graphstore.own_folder import OwnFolder, remove_left

pytest.importorskip("fcntl")
LONG_AGO = (1e9, 1e9)


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("use", ["model", "store"])
def test_the_folder_of_a_killed_session_is_removed(temporary, use) -> None:
    code = (
        "import os; from graphstore.own_folder import OwnFolder\n"
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
    remove_left()
    assert left.is_dir(), "young"
    os.utime(left, LONG_AGO)
    remove_left()
    assert not left.exists()


def test_what_a_session_holds_and_what_is_not_ours_stays(temporary) -> None:
    own = OwnFolder("model")
    os.utime(own.path, LONG_AGO)
    (temporary / "kept").mkdir()
    others = [
        temporary / name for name in ("divergraph-store-20261127", "divergraph-tmp-x-12345678")
    ]
    for other in others:
        other.mkdir()
        os.utime(other, LONG_AGO)
    link = temporary / "divergraph-tmp-model-12345678"
    link.symlink_to(temporary / "kept")
    os.utime(link, LONG_AGO, follow_symlinks=False)
    remove_left()
    assert Path(own.path).is_dir()
    assert (temporary / "kept").is_dir()
    assert all(other.is_dir() for other in others)
    own.remove()
    assert not Path(own.path).exists()


def test_a_folder_goes_with_its_object_but_not_with_a_fork(temporary) -> None:
    own = OwnFolder("store")
    child = os.fork()
    if not child:
        own.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert Path(own.path).is_dir()
    del own
    assert not any(temporary.iterdir())
