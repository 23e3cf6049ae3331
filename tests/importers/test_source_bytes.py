"""The SHA-256 of a file, whole or mapped."""

import hashlib
import os

from importers.source import mapped, sha256


def test_a_mapped_file_hashes_as_its_bytes_do(tmp_path):
    path = tmp_path / "model"
    data = os.urandom(1 << 20) * 33 + b"end"
    path.write_bytes(data)
    with mapped(path) as buffer:
        assert sha256(buffer) == sha256(data) == hashlib.sha256(data).hexdigest()
        assert buffer[-3:] == b"end"
