"""The examples in the docstrings of the public API run, and print what they show."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import divergraph
import divergraph.api

MODULES = [
    "divergraph",
    *(each.name for each in pkgutil.walk_packages(divergraph.api.__path__, "divergraph.api.")),
]


def examples(module):
    return [test for test in doctest.DocTestFinder().find(import_module(module)) if test.examples]


@pytest.fixture
def demo_made_once(demo_run, monkeypatch):
    """A dozen examples begin with the run of the demo, which is the same each time."""
    compare = divergraph.demo

    def demo(store=None):
        return demo_run if store is None else compare(store)

    monkeypatch.setattr(divergraph, "demo", demo)


@pytest.mark.slow
@pytest.mark.usefixtures("demo_made_once")
@pytest.mark.parametrize("module", [name for name in MODULES if examples(name)])
def test_examples_print_what_they_show(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    runner = doctest.DocTestRunner(verbose=False)
    for test in examples(module):
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)


def test_what_people_call_most_has_an_example():
    found = {test.name for name in MODULES for test in examples(name)}
    for name in ("compare", "diff", "capture", "convert", "read_graph", "open_store", "plugins"):
        assert any(each.endswith(f".{name}") for each in found), name
