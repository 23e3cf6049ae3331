"""The data of ``divergraph demo``, as it comes out of its archive."""

from __future__ import annotations

import stat
import tarfile

from divergraph.comparison.demo import unpack_demo_data


def test_what_is_unpacked_can_be_changed_and_deleted_by_its_owner(tmp_path, monkeypatch):
    monkeypatch.delattr(tarfile, "data_filter", raising=False)  # as in Python before 3.11.4
    unpack_demo_data(tmp_path)
    entries = [tmp_path, *tmp_path.rglob("*")]
    assert len(entries) > 400
    for entry in entries:
        wanted = stat.S_IRWXU if entry.is_dir() else stat.S_IRUSR | stat.S_IWUSR
        assert entry.stat().st_mode & wanted == wanted, entry
