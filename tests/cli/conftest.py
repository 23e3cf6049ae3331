"""Run the command line in this process and look at everything it gives back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from full_run import sample_run

from divergraph.cli.main import run
from graphstore.open_store import open_store


@pytest.fixture(scope="session")
def lenet_store(lenet, tmp_path_factory) -> Path:
    """A store with the run ``fault`` of LeNet; it is only read, or given its model as ``lenet``."""
    store = tmp_path_factory.mktemp("cli") / "store"
    kept = ["--run", "fault", "--store", str(store)]
    assert run([*compare_arguments(lenet), "--method", "auto", *kept]) == 1
    return store


def compare_arguments(lenet: Path, side: str = "npu_fault") -> list[str]:
    """By limits, a tenth of the work; a ``--method`` behind it has the last word."""
    return [
        "compare",
        "--method",
        "thresholds",
        "--golden",
        str(lenet / "model.ckpt.meta"),
        "--golden-dump",
        str(lenet / "golden"),
        "--device",
        str(lenet / side / "graph"),
        "--device-dump",
        str(lenet / side / "dump"),
    ]


@pytest.fixture
def compare_lenet(lenet) -> Callable[..., list[str]]:
    return lambda side="npu_fault": compare_arguments(lenet, side)


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with the runs ``first`` and ``second``; it is only read."""
    url = str(tmp_path_factory.mktemp("two") / "store")
    with open_store(url) as opened:
        opened.save_run(sample_run("first"))
        opened.save_run(sample_run("second"))
    return url
