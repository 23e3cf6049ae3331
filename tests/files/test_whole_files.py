"""A file is written whole or not at all; what is no plain file is left what it is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from divergraph.files.whole_files import check_place, whole_file
from graphstore.errors import InputError


def test_a_file_takes_its_place_when_the_block_ends(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("old")
    with whole_file(path) as place:
        place.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_block_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("old")

    def write() -> None:
        with whole_file(path) as place:
            place.write_text("half")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_stay_and_new_files_get_the_usual_ones(tmp_path):
    path = tmp_path / "private.json"
    path.write_text("old")
    path.chmod(0o600)
    with whole_file(path) as place:
        place.write_text("new")
    assert path.stat().st_mode & 0o777 == 0o600
    plain = tmp_path / "plain"
    plain.touch()
    with whole_file(tmp_path / "fresh.json") as place:
        place.write_text("new")
    assert (tmp_path / "fresh.json").stat().st_mode == plain.stat().st_mode


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to("real")
    with whole_file(tmp_path / "link") as place:
        place.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file(pipe) as place:
        place.write_text("through")
    assert os.read(reader, 20) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["no/such/folder", ".", "x" * 300])
def test_a_place_that_is_none_is_refused_with_its_path(tmp_path, name):
    with pytest.raises(InputError) as caught, whole_file(tmp_path / name, "thing") as place:
        place.write_text("x")
    assert str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_longest_name_a_folder_takes(tmp_path):
    with whole_file(tmp_path / ("x" * 255)) as place:
        place.write_text("x")
    assert [len(path.name) for path in tmp_path.iterdir()] == [255]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_said_early(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    with pytest.raises(InputError, match="permission denied"):
        check_place(folder / "x")


FULL = """
import resource, sys
from pathlib import Path
from divergraph.files.whole_files import whole_file
from graphstore.errors import InputError
sys.dont_write_bytecode = True  # cut modules would be kept
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with whole_file(Path(sys.argv[1])) as place:
        place.write_bytes(b"x" * 100_000)
except InputError as error:
    print(error)
"""


def test_a_full_disk_is_said_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "report"
    path.write_text("old")
    command = [sys.executable, "-c", FULL, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot be written: File too large" in done.stdout
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
