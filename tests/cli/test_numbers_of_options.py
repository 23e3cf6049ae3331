"""NaN is in no range: as a limit it would let everything pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from divergraph.cli.main import run


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize("option", ["-al", "-rl"])
def test_limits_of_diff_are_finite(tmp_path: Path, capsys, option: str, value: str):
    files = [str(tmp_path / name) for name in ("a.npy", "b.npy")]
    for number, file in enumerate(files):
        np.save(file, np.full(4, number, np.float32))
    assert run(["diff", *files, option, value]) == 2
    assert f"'{value}' is not a finite number" in capsys.readouterr().err
    assert run(["diff", *files, option, "0.5"]) == 1


@pytest.mark.parametrize(
    "arguments",
    [["analyse", "r", "--suspect", "nan"], ["compare-runs", "a", "b", "--times", "nan"]],
)
def test_limits_of_judging_are_finite(arguments: list[str], capsys):
    assert run(arguments) == 2
    assert "is not a finite number" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        *(["query", "RETURN 1", "--timeout", value] for value in ("nan", "inf", "1e300", "-1")),
        *(["minimize", "r", option, "nan"] for option in ("--time", "--timeout")),
    ],
)
def test_times_are_finite(arguments: list[str], tmp_path: Path, capsys):
    assert run([*arguments, "--store", str(tmp_path)]) == 2
    assert "Invalid value for '--time" in capsys.readouterr().err
