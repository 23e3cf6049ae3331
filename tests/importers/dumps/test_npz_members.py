"""Compressed arrays: large ones are unpacked into a file, not into memory."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from graphstore.errors import ImportFormatError
from importers.dumps.arrays import npz
from importers.dumps.bare.index import find_tensors
from importers.dumps.read import read_array

KINDS = {
    "zeros": np.zeros(300_000, np.float32),
    "noise": np.random.default_rng(0).standard_normal(300_000),
    "noise between zeros": np.pad(np.random.default_rng(1).integers(0, 9, 200_000), 300_000),
    "one run at the end": np.append(np.zeros(1_000_000, np.uint8), np.full(700, 7, np.uint8)),
}


def member(path):
    (tensor,) = find_tensors(path).tensors
    return read_array(tensor.ref)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_unpacked_into_a_file_is_the_same(tmp_path, monkeypatch, kind):
    np.savez_compressed(tmp_path / "a.npz", a=KINDS[kind])
    monkeypatch.setattr(npz, "_MOST_IN_MEMORY", 1000)
    monkeypatch.setattr(npz, "_CHUNK", 4096)
    np.testing.assert_array_equal(member(tmp_path / "a.npz"), KINDS[kind], strict=True)


@pytest.mark.slow
def test_a_small_archive_does_not_fill_the_memory(tmp_path):
    """Half a megabyte of packed zeros, read where 200 MiB of memory are left."""
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(2**27, np.float32))
    code = """
import resource, sys
import numpy as np
from pathlib import Path
from importers.dumps.bare.index import find_tensors
from importers.dumps.read import read_array
resource.setrlimit(resource.RLIMIT_DATA, (2**28, 2**28))
(tensor,) = find_tensors(Path(sys.argv[1])).tensors
values = read_array(tensor.ref)
print(values.nbytes, values.any())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.npz"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(2**29), "False"]


def test_what_is_damaged_far_inside_is_told(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", a=KINDS["noise"])
    whole = bytearray((tmp_path / "a.npz").read_bytes())
    whole[len(whole) // 2 : len(whole) // 2 + 2000] = bytes(2000)
    (tmp_path / "a.npz").write_bytes(whole)
    monkeypatch.setattr(npz, "_MOST_IN_MEMORY", 1000)
    with pytest.raises(ImportFormatError, match=r"packed data is damaged|the header gives"):
        member(tmp_path / "a.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=lambda save: save.__name__)
@pytest.mark.parametrize("most_in_memory", [1000, 2**26])
def test_a_flipped_bit_is_told(tmp_path, monkeypatch, save, most_in_memory):
    """No other value comes out, wherever in the array's bytes it is."""
    monkeypatch.setattr(npz, "_MOST_IN_MEMORY", most_in_memory)
    path = tmp_path / "a.npz"
    save(path, a=KINDS["noise"])
    whole = path.read_bytes()
    for place in np.random.default_rng(2).integers(200, len(whole) - 200, 40):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(place) % 8
        path.write_bytes(damaged)
        with pytest.raises(ImportFormatError, match=r"damaged|the header gives"):
            member(path)
