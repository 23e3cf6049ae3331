"""Tensors larger than what may be kept of them: mapped, transposed, in parts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divergraph.metrics.flat import Strided, blocks
from divergraph.metrics.measure import measure
from divergraph.metrics.metrics import overflow_flag
from divergraph.metrics.sweep import Sweeper

MEBI = 1 << 20

_PEAK = """
import sys
import numpy as np
from pathlib import Path
from divergraph.metrics.measure import measure
from divergraph.metrics.metrics import overflow_flag
from importers.dumps.read import read_npy

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024

device, golden = (read_npy(Path(name))[0] for name in sys.argv[1:3])
before = peak()
overflow_flag(device)
figures = measure(device, golden).figures
print(peak() - before, figures.bad, figures.first_bad)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's memory counters")
@pytest.mark.parametrize(("dtype", "mebi"), [("float32", 200), ("float16", 200)])
def test_memory_does_not_grow_with_the_tensor(tmp_path, dtype, mebi):
    count = mebi * MEBI // np.dtype(dtype).itemsize
    bad = count - 1000
    for name in ("device", "golden"):
        values = np.lib.format.open_memmap(
            tmp_path / f"{name}.npy", mode="w+", dtype=dtype, shape=(count,)
        )
        values[:] = np.resize(np.arange(1, 2000, dtype=dtype), count)
        if name == "device":
            values[bad] = 0
        values.flush()
        del values
    paths = [str(tmp_path / f"{name}.npy") for name in ("device", "golden")]
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, *paths], capture_output=True, text=True, check=True
    )
    grown, *found = map(int, done.stdout.split())
    assert found == [1, bad]
    assert grown < 80 * MEBI  # of the 400 MiB that were swept


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's memory counters")
def test_memory_does_not_grow_with_files_in_fortran_order(tmp_path):
    shape = (192, 131_072)  # 96 MiB, and any row has an element on each page
    bad = (150, 77)
    for name in ("device", "golden"):
        values = np.lib.format.open_memmap(
            tmp_path / f"{name}.npy", "w+", np.float32, shape, fortran_order=True
        )
        values.T[:] = np.arange(1, 193)
        if name == "device":
            values[bad] = 0
        values.flush()
        del values
    paths = [str(tmp_path / f"{name}.npy") for name in ("device", "golden")]
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, *paths], capture_output=True, text=True, check=True
    )
    grown, *found = map(int, done.stdout.split())
    assert found == [1, bad[0] * shape[1] + bad[1]]
    assert grown < 130 * MEBI  # of the 192 MiB that were swept: 32 a side are copied at once


SHAPES = st.lists(st.integers(1, 7), min_size=0, max_size=5).map(tuple)


@settings(max_examples=80)
@given(SHAPES, st.integers(1, 50), st.data())
def test_transposed_arrays_are_seen_in_order(shape, size, data):
    axes = data.draw(st.permutations(range(len(shape))))
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).transpose(axes)
    if data.draw(st.booleans()) and array.ndim:
        array = array[..., ::-1]
    seen = [part for _, part, _ in blocks(size, Strided(array), Strided(array))]
    assert all(part.flags.c_contiguous and part.ndim == 1 for part in seen)
    assert all(len(part) == size for part in seen[:-1])
    assert np.concatenate(seen).tolist() == array.reshape(-1).tolist()


@pytest.mark.parametrize("block", [100, 4096, 65536])
def test_transposed_tensors_measure_like_their_copies(block):
    random = np.random.default_rng(2)
    golden = random.standard_normal((3, 16, 24, 20)).astype(np.float32)
    device = golden + 1e-3 * random.standard_normal(golden.shape).astype(np.float32)
    device, golden = device.transpose(0, 2, 3, 1), golden.transpose(0, 2, 3, 1)[:, ::-1]
    copies = device.reshape(-1), golden.reshape(-1)
    found = list(Sweeper(block).first_blocks(Strided(device), Strided(golden)))
    assert repr(found) == repr(list(Sweeper(block).first_blocks(*copies)))
    assert repr(measure(device, golden)) == repr(measure(*copies))


def test_what_was_changed_in_a_private_mapping_is_kept(tmp_path):
    count = 8 * MEBI
    np.save(tmp_path / "a.npy", np.ones(count, np.float32))
    golden = np.load(tmp_path / "a.npy", mmap_mode="c")
    golden[5] = 7
    measure(np.ones(count, np.float32), golden)
    assert golden[5] == 7


def test_overflow_is_seen_in_transposed_halves():
    values = np.zeros((300, 500), np.float16)
    values[299, 499] = -65504
    assert overflow_flag(values.T)
    assert not overflow_flag(values.T[:, :-1])
