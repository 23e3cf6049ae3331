"""The folder of a bundle is there whole, or not at all."""

from __future__ import annotations

import errno
import os

import pytest

from divergraph.outcomes import outcome_of_error
from divergraph.submodel.bundle import appearing
from graphstore.errors import InputError


def fill(target, error):
    with appearing(target, "bundle") as folder:
        (folder.path / "half").write_text("of it")
        raise error


def test_nothing_is_left_when_the_disk_is_full(tmp_path):
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "secret/name")
    with pytest.raises(InputError, match="No space left") as caught:
        fill(tmp_path / "new" / "out", error)
    assert "secret" not in str(caught.value)
    assert "Errno" not in str(caught.value)
    assert outcome_of_error(caught.value).exit_code == 3
    assert not list(tmp_path.iterdir())


def test_a_folder_that_was_there_stays(tmp_path):
    (tmp_path / "other").touch()
    with pytest.raises(KeyboardInterrupt), appearing(tmp_path, "bundle"):
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_taken_name_gets_a_number(tmp_path):
    for _ in range(2):
        with appearing(tmp_path / "out", "bundle") as folder:
            (folder.path / "file").touch()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bundle", "bundle_2"]
    assert folder.target.name == "bundle_2"
