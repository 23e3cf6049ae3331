"""Commands are run in folders of strangers' files, where one called ``random.py`` is no code."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

OURS = ("divergraph", "graphstore", "importers", "tui", "numpy", "onnx", "onnxruntime", "click")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small model and a file for each module that Python has, and for ours."""
    for name in (*sys.stdlib_module_names, *OURS):
        (tmp_path / f"{name}.py").write_text("open('was_run', 'a').write(__name__ + '\\n')\n")
    values = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["y"], "exp")],
        "small",
        [values("x", TensorProto.FLOAT, [2, 3])],
        [values("y", TensorProto.FLOAT, [2, 3])],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "small.onnx")
    return tmp_path


CAPTURE = "capture small.onnx --random 1 -o {}"
SIDES = "compare --golden small.onnx --golden-dump golden --device small.onnx --device-dump again"


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param(
            [
                CAPTURE.format("golden"),
                "import small.onnx --name small",
                "query 'MATCH (o:Op) RETURN o.name'",
            ],
            id="one after the other",
        ),
        pytest.param(
            [*map(CAPTURE.format, ("golden", "again")), f"{SIDES} --cluster local:1"],
            id="cluster",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_no_command_runs_a_file_of_the_working_directory(folder: Path, commands: list[str]) -> None:
    program = Path(sys.executable).with_name("divergraph")
    for words in map(shlex.split, commands):
        done = subprocess.run(
            [program, *words], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert not (folder / "was_run").exists()
