"""Starting the UI loads nothing heavy; its modules know each other one way."""

import subprocess
import sys
from pathlib import Path

import tui


def test_importing_the_app_loads_nothing_heavy():
    heavy = ("neo4j", "onnx", "onnxruntime", "networkx", "pyarrow", "ladybug", "importers")
    code = f"import sys, tui.app; print(sorted(set({heavy!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nothing_but_the_entry_knows_the_app():
    """The app knows its views, palette and way of leaving; they know no more than its base."""
    folder = Path(tui.__file__).parent
    knowing = [path.name for path in folder.rglob("*.py") if "tui.app import" in path.read_text()]
    assert knowing == []
