"""docs/how-to/continuous-integration.md: its commands and the steps of its jobs run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from divergraph.api.demo import demo_data

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "continuous-integration.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def shell(tmp_path):
    """Runs lines in one folder, on the demo's data; the package is the one installed here."""
    data = demo_data()
    venv = tmp_path / ".venv"
    venv.mkdir()
    (venv / "bin").symlink_to(Path(sys.executable).parent)
    environment = os.environ | {
        "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "GOLDEN": str(data.golden),
        "GOLDEN_DUMP": str(data.golden_dump),
        "DEVICE": str(data.device),
        "DEVICE_DUMP": str(data.device_dump),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "step"),
        "DIVERGRAPH_AUTHOR": "ada",
    }
    environment.pop("DIVERGRAPH_STORE", None)

    def call(lines: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-ec", lines],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )

    return call


@pytest.mark.exhaustive
def test_the_commands_and_the_jobs(shell, tmp_path):
    update, accept = blocks("bash")
    assert shell(update).returncode == 0
    github, gitlab = map(yaml.safe_load, blocks("yaml"))
    steps = [step["run"] for step in github["jobs"]["gate"]["steps"] if "run" in step]
    assert "pip install divergraph" in steps.pop(0)
    for step in steps:
        done = shell(step)
        assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "accuracy.sarif").read_text())["version"] == "2.1.0"
    assert "diverged" in (tmp_path / "step").read_text()

    file = tmp_path / "accuracy.json"
    kept = json.loads(file.read_text())
    for output in kept["outputs"]:
        output |= {"guilt": "none", "error": 1e-4, "weight": [0, 1.0]}
    file.write_text(json.dumps(kept))
    install, check = gitlab["accuracy"]["script"]
    assert "pip install divergraph" in install
    done = shell(check)
    assert (done.returncode, "may not pass: 1 op worse" in done.stdout) == (1, True), done.stdout
    assert '<failure type="origin"' in (tmp_path / "accuracy.xml").read_text()

    done = shell(accept)
    assert done.returncode == 0, done.stdout
    assert "by ada" in done.stdout
