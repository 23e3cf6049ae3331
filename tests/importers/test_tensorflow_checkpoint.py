"""Checkpoints of TensorFlow's second format, read without TensorFlow."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from graphstore.errors import ImportFormatError
from importers.tensorflow.checkpoint import Checkpoint

DATA = Path(__file__).parents[1] / "data" / "tensorflow"
INDEX, VALUES = "net.ckpt.index", "net.ckpt.data-00000-of-00001"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for name in (INDEX, VALUES):
        shutil.copy(DATA / name, tmp_path)
    return tmp_path


def test_values_by_name(copied: Path) -> None:
    saved = Checkpoint(str(copied / "net.ckpt"))
    weights = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
    np.testing.assert_array_equal(saved["net/w"], weights, strict=True)
    np.testing.assert_array_equal(saved["net/b"], np.array([1, -2, 3, -4], np.float32))
    np.testing.assert_array_equal(saved["step"], np.array(7, np.int64), strict=True)
    np.testing.assert_array_equal(saved["half"], np.array([0.5, 1.5], np.float32), strict=True)
    assert "net/w" in saved
    assert "net" not in saved


def test_values_that_are_gone_are_named(copied: Path) -> None:
    saved = Checkpoint(str(copied / "net.ckpt"))
    values = copied / VALUES
    values.write_bytes(values.read_bytes()[:20])
    with pytest.raises(ImportFormatError, match="ends inside of 'step'"):
        saved["step"]
    values.unlink()
    with pytest.raises(ImportFormatError, match="cannot be read"):
        saved["net/w"]


def test_every_cut_and_every_flipped_byte_is_refused_or_read(copied: Path) -> None:
    index = copied / INDEX
    whole = index.read_bytes()
    for length in range(len(whole)):
        index.write_bytes(whole[:length])
        with pytest.raises(ImportFormatError):
            Checkpoint(str(copied / "net.ckpt"))
    for at in range(len(whole)):
        index.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with suppress(ImportFormatError):
            saved = Checkpoint(str(copied / "net.ckpt"))
            found = [saved[name] for name in ("net/w", "net/b", "step", "half") if name in saved]
            assert all(value.nbytes <= 76 for value in found)  # no more than the data file has
