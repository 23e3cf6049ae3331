"""The page about PyTorch: its script and commands run, and print what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.torch

PAGE = (Path(__file__).parents[2] / "docs/how-to/pytorch.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(python|bash|text)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_find_the_call_at_fault(tmp_path):
    draw = np.random.default_rng(0)
    np.save(tmp_path / "image.npy", draw.standard_normal((2, 3, 16, 16)).astype(np.float32))
    np.save(tmp_path / "label.npy", np.array([3, 7]))
    script = next(text for language, text in BLOCKS if language == "python")
    (tmp_path / "net.py").write_text(script)
    lines = "".join(text for language, text in BLOCKS if language == "bash")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", f'divergraph() {{ "{sys.executable}" -m divergraph "$@"; }}\n{lines}'],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,  # 1 says that the run diverged
    )
    assert "divergraph: " not in done.stderr, done.stderr
    for line in next(text for language, text in BLOCKS if language == "text").splitlines():
        assert line in done.stdout, done.stdout
    assert (tmp_path / "step/step0/rank0/dump.json").is_file()
