"""Run the command line in this process and look at everything it gives back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from divergraph.cli.main import run


@pytest.fixture(scope="module")
def lenet_store(lenet, tmp_path_factory) -> Path:
    """A store with the run ``fault`` of LeNet."""
    store = tmp_path_factory.mktemp("cli") / "store"
    assert run([*compare_arguments(lenet), "--run", "fault", "--store", str(store)]) == 1
    return store


def compare_arguments(lenet: Path, side: str = "npu_fault") -> list[str]:
    return [
        "compare",
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
