"""The page on converting: its commands run, and print what it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.exhaustive
def test_the_convert_page(lenet, tmp_path):
    (device,) = {p.parent for p in (lenet / "npu_fault" / "dump").rglob("*") if p.is_file()}
    shutil.copytree(device, tmp_path / "dump")
    (graph,) = (lenet / "npu_fault" / "graph").glob("*Build.txt")
    shutil.copy(graph, tmp_path / "graph.txt")
    bin_folder = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": bin_folder + os.pathsep + os.environ["PATH"]}
    environment.pop("DIVERGRAPH_STORE", None)

    def shell(lines: str, *, code: int = 0) -> str:
        done = subprocess.run(
            ["bash", "-ec", lines],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    side = f"--device '{graph.parent}' --device-dump dump --run fault"
    golden = f"--golden '{lenet}/model.ckpt.meta' --golden-dump '{lenet}/golden'"
    shell(f"divergraph compare {golden} {side}", code=1)
    printed, shown = "", 0
    page = (ROOT / "docs" / "how-to" / "convert.md").read_text(encoding="utf-8")
    for language, text in BLOCK.findall(page):
        if language == "bash":
            printed = shell(text)
        else:
            assert text.rstrip("\n") in printed
            shown += 1
    assert shown == 2
    same = re.compile(rb"\s+")
    assert same.sub(b"", (tmp_path / "again.txt").read_bytes()) == same.sub(b"", graph.read_bytes())
