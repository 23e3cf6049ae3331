"""Which dumps of a growing folder are whole: never one that is still being written."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest

from divergraph.comparison.growing_dumps import GrowingDumps, check_folder
from divergraph.files.open_files import is_being_written
from graphstore.errors import InputError


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


_TIMES = count(1_700_000_000)


def write(folder, name: str, size: int = 4) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.0.1.npy"
    path.write_bytes(b"x" * size)
    os.utime(path, (next(_TIMES),) * 2)


def whole(dumps: GrowingDumps, root) -> list[str]:
    return [str(leaf.path.relative_to(root)) for leaf in dumps.look()]


def test_a_dump_is_whole_when_it_was_quiet(tmp_path, clock):
    dumps = GrowingDumps(tmp_path, quiet=5, clock=clock)
    assert whole(dumps, tmp_path) == []
    write(tmp_path / "step0", "a")
    assert whole(dumps, tmp_path) == []
    clock.now = 4
    write(tmp_path / "step0", "b")
    assert whole(dumps, tmp_path) == []
    clock.now = 8
    assert whole(dumps, tmp_path) == [], "it changed 4 seconds ago"
    assert dumps.waiting == (tmp_path / "step0",)
    clock.now = 9
    assert whole(dumps, tmp_path) == ["step0"]
    clock.now = 99
    assert (whole(dumps, tmp_path), dumps.waiting) == ([], ())
    assert dumps.seconds_still() == 95


def test_a_file_that_is_written_over_is_a_change(tmp_path, clock):
    dumps = GrowingDumps(tmp_path, quiet=5, clock=clock)
    write(tmp_path / "step0", "a", 4)
    assert whole(dumps, tmp_path) == []
    clock.now = 6
    write(tmp_path / "step0", "a", 8)
    assert whole(dumps, tmp_path) == []
    clock.now = 12
    assert whole(dumps, tmp_path) == ["step0"]


def test_a_dump_that_grows_afterwards_is_given_out_again(tmp_path, clock):
    dumps = GrowingDumps(tmp_path, quiet=5, clock=clock)
    write(tmp_path / "step0", "a")
    whole(dumps, tmp_path)
    clock.now = 5
    assert whole(dumps, tmp_path) == ["step0"]
    write(tmp_path / "step0", "b")
    assert whole(dumps, tmp_path) == []
    clock.now = 10
    assert whole(dumps, tmp_path) == ["step0"]


def test_one_with_fewer_files_than_another_waits_longer(tmp_path, clock):
    dumps = GrowingDumps(tmp_path, quiet=5, clock=clock)
    for name in "ab":
        write(tmp_path / "step0", name)
    whole(dumps, tmp_path)
    clock.now = 5
    assert whole(dumps, tmp_path) == ["step0"]
    write(tmp_path / "step1", "a")
    whole(dumps, tmp_path)
    clock.now = 12
    assert whole(dumps, tmp_path) == [], "the job may pause in the middle"
    clock.now = 36
    assert whole(dumps, tmp_path) == ["step1"], "or have ended there"


@pytest.mark.skipif(not Path("/proc/self/fdinfo").exists(), reason="this system does not tell")
def test_a_dump_with_an_open_file_is_not_whole(tmp_path, clock):
    dumps = GrowingDumps(tmp_path, quiet=5, clock=clock)
    write(tmp_path / "step0", "a")
    whole(dumps, tmp_path)
    with (tmp_path / "step0" / "a.0.1.npy").open("ab"):
        clock.now = 6
        assert is_being_written(tmp_path / "step0")
        assert whole(dumps, tmp_path) == []
    with (tmp_path / "step0" / "a.0.1.npy").open("rb"):
        assert not is_being_written(tmp_path / "step0"), "reading changes nothing"
    clock.now = 12
    assert whole(dumps, tmp_path) == ["step0"]


def test_nothing_is_looked_at_busily(tmp_path):
    dumps = GrowingDumps(tmp_path)
    pauses = [dumps.pause() for _ in range(20)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.1, 5.0)


def test_what_cannot_grow_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="no folder that can grow"):
        check_folder(tmp_path / "file")
    with pytest.raises(InputError, match="no such folder"):
        check_folder(tmp_path / "gone" / "dump")
    check_folder(tmp_path / "later")
