"""Starting the program must not load an engine it may not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

ENGINES = ("ladybug", "neo4j", "pyarrow", "networkx", "jgo")


@pytest.mark.parametrize(
    "code",
    [
        "import graphstore.open_store, graphstore.cypher.queries, graphstore.traverse.algorithms",
        "from graphstore.open_store import open_store; open_store('none-here').runs()",
    ],
)
def test_no_engine_is_loaded_before_it_is_needed(code: str) -> None:
    code += f"; import sys; print([name for name in {ENGINES} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
