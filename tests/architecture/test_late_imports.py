"""What static import rules cannot see: which libraries a start really loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"textual", "onnx", "onnxruntime", "neo4j", "networkx", "ladybug", "pyarrow", "tensorflow"}


def loaded_by(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in done.stdout.splitlines()}


@pytest.mark.parametrize(
    "code",
    [
        "import divergraph",
        "import divergraph as dg; dg.Run, dg.Store, dg.Graph, dg.errors, dg.plugins",
        "import divergraph; divergraph.answers.Trace",
        "from divergraph.cli.main import run; run(['--help'])",
        "from divergraph.cli.main import run; run(['compare', '--help'])",
        "from divergraph.cli.main import run; run(['diff', '--help'])",
        "import importers, importers.dumps, graphstore.contract",
    ],
)
def test_starting_is_light(code):
    assert loaded_by(code) & (HEAVY | {"tui"}) == set()


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        # Comparing npy dumps needs no UI and no server.
        (
            "import divergraph.comparison, divergraph.ask",
            {"textual", "tui", "neo4j", "onnxruntime", "networkx"},
        ),
        # The model knows nothing else of ours.
        ("import graphstore.model", {"divergraph", "importers", "tui", "google", "pyarrow"}),
        # A worker needs numpy and little else.
        (
            "import divergraph.jobs.worker, divergraph.metrics.pairs.work",
            HEAVY | {"tui", "google", "dask", "distributed", "rich", "click"},
        ),
        ("import tui.app", HEAVY - {"textual"} | {"importers"}),
        # No engine before it is needed.
        (
            "import graphstore.open_store, graphstore.cypher.queries,"
            " graphstore.traverse.algorithms; graphstore.open_store.open_store('none').runs()",
            HEAVY | {"jgo"},
        ),
    ],
)
def test_only_what_is_needed_is_loaded(code, absent):
    assert loaded_by(code) & absent == set()
