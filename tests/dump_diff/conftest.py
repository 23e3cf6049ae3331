"""The command line in this process, and dumps to hold against each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> Path:
    """Journals of the tests lie in a folder of their own."""
    monkeypatch.setenv("DIVERGRAPH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "jobs"


@pytest.fixture
def two_dumps(tmp_path) -> Callable[..., tuple[Path, Path]]:
    """Makes two folders of *count* tensors; those of *wrong* differ by a tenth."""

    def make(count: int = 12, size: int = 500, wrong: tuple[int, ...] = ()) -> tuple[Path, Path]:
        rng = np.random.default_rng(3)
        device, golden = tmp_path / "device", tmp_path / "golden"
        for folder in (device, golden):
            folder.mkdir(exist_ok=True)
        for number in range(count):
            values = rng.normal(size=size).astype(np.float32)
            np.save(golden / f"op{number}.npy", values)
            factor = 1.1 if number in wrong else 1.0 + 1e-5
            np.save(device / f"op{number}.npy", (values * factor).astype(np.float16))
        return device, golden

    return make
