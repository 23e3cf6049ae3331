"""Tensors of rank 0 have no axes on which their one element could sit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from divergraph.cli.main import run


@pytest.mark.parametrize(("device", "golden", "code"), [(3.0, 3.5, 1), (3.0, 3.0, 0), (7, 9, 1)])
def test_scalars_are_compared(tmp_path: Path, capsys, device, golden, code):
    files = [str(tmp_path / "device.npy"), str(tmp_path / "golden.npy")]
    for file, value in zip(files, (device, golden), strict=True):
        np.save(file, np.asarray(value, np.float32 if isinstance(value, float) else np.int32))
    assert run(["diff", *files]) == code
    assert "shape scalar" in capsys.readouterr().out
    assert run(["diff", *files, "--json"]) == code
    (pair,) = json.loads(capsys.readouterr().out)["pairs"]
    assert pair["shape"] == []
