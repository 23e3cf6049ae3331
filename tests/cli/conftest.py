"""Run the command line in this process and look at everything it gives back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from divergraph.cli.main import run


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def divergraph(capsys) -> Callable[..., Ended]:
    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return call


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
