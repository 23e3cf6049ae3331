"""What fuzzing found, and where it started from: every input ends well, and soon."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent
READERS = ("om", "ge_json", "ge_onnx", "ge_proto")
INPUTS = [path for reader in READERS for path in sorted((HERE / "corpus" / reader).iterdir())]


def harness(reader: str):
    spec = importlib.util.spec_from_file_location(f"fuzz_{reader}", HERE / f"fuzz_{reader}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.one_input


@pytest.fixture(scope="module")
def one_input():
    return {reader: harness(reader) for reader in READERS}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_input_ends_in_a_graph_or_one_error(one_input, path):
    assert one_input[path.parent.name](path.read_bytes()) is None


def test_there_are_inputs_for_every_reader():
    assert {path.parent.name for path in INPUTS} == set(READERS)
