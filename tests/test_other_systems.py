"""What runs where POSIX's own modules, calls and signals are missing, as on Windows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from valued_run import kept_values

PROGRAM = Path(__file__).parent / "made" / "other_system.py"


def ended(folder: Path, *lines: list[str]) -> tuple[list[int], str]:
    """The exit codes of commands in *folder*, and what they printed as their last line."""
    done = subprocess.run(
        [sys.executable, PROGRAM, json.dumps(lines)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Error:" not in done.stderr, done.stderr
    return json.loads(done.stderr.splitlines()[-1]), done.stderr


@pytest.mark.thorough
def test_dumps_are_compared_and_asked_about_without_posix(tmp_path):
    kept_values(tmp_path)
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.ones(2100, np.float32))
    sides = ["--golden", "net.onnx", "--golden-dump", "golden"]
    sides += ["--device", "net.onnx", "--device-dump", "device"]
    codes, said = ended(
        tmp_path,
        ["--version"],
        ["capture", "net.onnx", "-o", "captured", "--random", "7"],
        ["doctor"],
        ["diff", "a.npy", "b.npy"],
        ["diff", "golden", "golden", "--jobs", "2"],
        ["compare", *sides, "--run", "again", "--store", "store"],
        *(
            [*line, "--store", "store"]
            for line in (
                ["runs"],
                ["ops", "again"],
                ["origins", "again"],
                ["op", "again", "relu"],
                ["query", "MATCH (o:Op) RETURN count(o)"],
                ["report", "again", "--csv", "r.csv"],
                ["export", "again", "-o", "again.graphml"],
                ["submodel", "again", "--start", "tanh", "--end", "tanh", "-o", "part", "--check"],
                ["delete", "again"],
            )
        ),
    )
    assert codes == [0, 0, 0, 0, 0, 1, *[0] * 7, 1, 0], said


@pytest.mark.slow
def test_what_needs_posix_says_so(tmp_path):
    codes, said = ended(tmp_path, ["neo4j", "start"])
    assert codes == [3], said
    assert "Linux or macOS" in said
