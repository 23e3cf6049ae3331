"""Compressed arrays: large ones are unpacked into a file, not into memory."""

from __future__ import annotations

import struct
import subprocess
import sys

import numpy as np
import pytest

from divergraph.metrics.flat import is_mapped
from graphstore.errors import ImportFormatError
from importers.dumps.arrays import npz
from importers.dumps.bare.index import find_tensors
from importers.dumps.read import read_array, read_npy

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
from importers.dumps.read import read_array, read_npy
resource.setrlimit(resource.RLIMIT_DATA, (2**28, 2**28))
(tensor,) = find_tensors(Path(sys.argv[1])).tensors
values = read_array(tensor.ref)
print(values.nbytes, values.any())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.npz"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(2**29), "False"]


def test_a_bomb_is_named_before_it_is_unpacked(tmp_path, monkeypatch):
    """Arrays beside it are read, and so is one that shrinks as much and is small."""
    monkeypatch.setattr(npz, "_MOST_SWOLLEN", 1 << 20)
    arrays = {name: KINDS[name] for name in ("zeros", "noise")}
    np.savez_compressed(tmp_path / "small.npz", **arrays, more=np.ones(3))
    zeros, noise, more = find_tensors(tmp_path / "small.npz").tensors
    assert "would unpack to 1200128, as a zip bomb does: not unpacked" in zeros.damage
    assert noise.ref is not None
    assert more.ref is not None
    monkeypatch.setattr(npz, "_MOST_SWOLLEN", 2 << 20)
    assert find_tensors(tmp_path / "small.npz").tensors[0].ref is not None


def test_members_that_share_their_bytes_are_refused(tmp_path):
    """A thousand names for one packed array: kilobytes become terabytes, each name small."""
    np.savez_compressed(tmp_path / "a.npz", a=KINDS["zeros"])
    data = (tmp_path / "a.npz").read_bytes()
    at = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    entries = b"".join(data[at:end].replace(b"a.npy", b"%c.npy" % name) for name in b"abcdef")
    tail = bytearray(data[end:])
    tail[8:16] = struct.pack("<HHI", 6, 6, len(entries))
    (tmp_path / "a.npz").write_bytes(data[:at] + entries + tail)
    (found,) = find_tensors(tmp_path / "a.npz").tensors
    assert "its members lie one over the other" in found.damage


def test_a_process_is_not_asked_to_unpack_all_for_a_part(tmp_path, monkeypatch):
    """Two gigabytes were unpacked once for each sixteenth megabyte of them."""
    array = np.zeros(5_000_000, np.float32)
    array[::1000] = 1
    np.savez_compressed(tmp_path / "a.npz", a=array)
    monkeypatch.setattr(npz, "_MOST_IN_MEMORY", 1000)
    np.save(tmp_path / "a.npy", array)
    assert not is_mapped(member(tmp_path / "a.npz"))
    assert is_mapped(read_npy(tmp_path / "a.npy")[0])


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
