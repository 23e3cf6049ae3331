"""A large pair in parts, by several processes, gives what one process gives."""

from __future__ import annotations

import numpy as np
import pytest

from divergraph.dump_diff import DiffRequest, diff_dumps
from divergraph.dump_diff.single_pair import look_closely
from divergraph.metrics.pairs import many_pairs
from divergraph.metrics.pairs.many_pairs import Workers


@pytest.fixture(scope="module", params=["C", "F"])
def pair(request, tmp_path_factory):
    """Five million elements on each side, bad ones in a few channels, NaN, and a zero; in the
    order of C, and one side in that of Fortran."""
    folder = tmp_path_factory.mktemp("large")
    random = np.random.default_rng(8)
    golden = random.standard_normal((5, 1000, 1000), dtype=np.float32)
    device = golden + np.float32(1e-3) * random.standard_normal(golden.shape, dtype=np.float32)
    device[:, 17:20] *= 2
    device[4, 18, 3] = np.nan
    golden[2, 18, 500] = 0
    for name, array in (("device", device), ("golden", golden)):
        order = request.param if name == "device" else "C"
        np.save(folder / f"{name}.npy", np.asarray(array, order=order))
    return folder / "device.npy", folder / "golden.npy"


def looked_at(pair, jobs):
    workers = Workers(jobs=jobs, resume=False)
    result = diff_dumps(DiffRequest(*pair, workers=workers))
    return result, look_closely(result.pairs[0], result.wanted, first=7, top=9, workers=workers)


@pytest.fixture
def in_parts(monkeypatch):
    """Measures pairs in parts that are not large enough to be worth it."""
    monkeypatch.setattr(many_pairs, "LEAST_BYTES", 1 << 20)


@pytest.mark.slow
def test_processes_see_what_one_process_sees(pair, in_parts):
    result, look = looked_at(pair, 1)
    assert repr(looked_at(pair, 2)) == repr((result, look)), "NaN is not equal to itself"
    assert look.inspection.where_bad == "indices 17-19 of axis 1"
    assert look.table.worst_absolute[0].index == (4, 18, 3)
