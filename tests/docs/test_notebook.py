"""The notebook of the tutorial runs from top to bottom, and finds what it says it finds."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorials" / "lenet.ipynb"


def code_cells():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run_cell(code: str, names: dict[str, object]) -> object:
    """Run *code* as a notebook does; the value of its last line."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


@pytest.mark.thorough
def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    shown = [value for cell in code_cells() if (value := run_cell(cell, names)) is not None]
    printed = capsys.readouterr().out
    assert "LeNet/conv2/Conv2DRelu of type Conv2D" in printed
    assert "channel  8  0.1" in printed
    assert "['lenet'] lenet.html" in printed
    assert names["strict"].counts.over > names["run"].counts.over
    assert [type(value).__name__ for value in shown] == ["DemoData", "ComparedRun", "Rows"]
    assert all("LeNet/" in value._repr_html_() for value in shown[1:])


def test_the_notebook_keeps_no_outputs():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    assert not any(cell.get("outputs") for cell in notebook["cells"])
    assert NOTEBOOK.stat().st_size < 20_000
