"""The pages that walk through something: their commands run, and print what they show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(path: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / path).read_text(encoding="utf-8"))


@pytest.fixture
def shell(tmp_path):
    """Runs lines of a page, each block after the other in one folder."""
    bin_folder = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": bin_folder + os.pathsep + os.environ["PATH"]}
    environment.pop("DIVERGRAPH_STORE", None)
    # The pages show what is printed without the extra for TensorFlow; with it, a cause is found.
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "tensorflow.py").write_text("raise ImportError('TensorFlow is not installed')\n")
    environment["PYTHONPATH"] = str(absent)
    place = tmp_path / "place"
    place.write_text(str(tmp_path))

    def call(lines: str) -> str:
        script = f'cd "$(cat {place})"\n{lines}\npwd > {place}'
        done = subprocess.run(
            ["bash", "-c", script],
            capture_output=True,
            text=True,
            env=environment,
            check=False,  # 1 says that the run diverged
        )
        assert "divergraph: " not in done.stderr, done.stderr
        assert "command not found" not in done.stderr, done.stderr
        return done.stdout

    return call


@pytest.mark.thorough
def test_the_tutorial(shell):
    printed = ""
    shown = 0
    for language, text in blocks("docs/tutorials/lenet.md"):
        if language == "bash":
            printed = shell(text)
            assert printed or text.startswith("cat"), text
        elif language == "text":
            assert text.rstrip("\n") in printed, printed
            shown += 1
    assert shown >= 4


def test_what_the_readme_says_the_demo_prints(shell):
    (shown,) = [text for language, text in blocks("README.md") if language == "text"]
    printed = shell("divergraph demo")
    assert shown.rstrip("\n") in printed
    assert "divergraph tui demo" in printed
    folder = Path(printed.split("its data is in ")[1].split(";")[0])
    assert (folder / "model.ckpt.meta").is_file()


@pytest.mark.thorough
def test_the_python_page(shell, tmp_path):
    code = [text for language, text in blocks("docs/reference/python.md") if language == "python"]
    output = [text for language, text in blocks("docs/reference/python.md") if language == "text"]
    (tmp_path / "page.py").write_text("\n".join(code))
    printed = shell(f"'{sys.executable}' -W error page.py")
    for text in output:
        assert text in printed


def test_the_pictures_show_the_demo_and_no_path_of_a_machine():
    pictures = {path.name: path.read_text() for path in (ROOT / "docs/images").glob("*.svg")}
    assert set(pictures) == {
        *("overview.svg", "ops.svg", "lineage.svg", "tensor.svg", "submodel.svg")
    }
    for name, text in pictures.items():
        assert ("LeNet" if name == "submodel.svg" else "LeNet/conv2/Conv2DRelu") in text
        assert not re.search(r"/(tmp|home|root|work|Users)/", text)
