"""Starting the UI loads no driver, no importer and no traversal library."""

import subprocess
import sys


def test_importing_the_app_loads_nothing_heavy():
    heavy = ("neo4j", "onnx", "onnxruntime", "networkx", "pyarrow", "ladybug", "importers")
    code = f"import sys, tui.app; print(sorted(set({heavy!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
