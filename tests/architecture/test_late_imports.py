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


def test_comparing_npy_dumps_needs_no_ui_and_no_server():
    loaded = loaded_by("import divergraph.comparison, divergraph.ask")
    assert loaded & {"textual", "tui", "neo4j", "onnxruntime", "networkx"} == set()


def test_the_model_knows_nothing_else_of_ours():
    loaded = loaded_by("import graphstore.model")
    assert loaded & {"divergraph", "importers", "tui", "google", "pyarrow"} == set()


def test_a_worker_loads_numpy_and_little_else():
    loaded = loaded_by("import divergraph.jobs.worker, divergraph.metrics.pairs.work")
    assert loaded & (HEAVY | {"tui", "google", "dask", "distributed", "rich", "click"}) == set()
