"""Runs kept by several processes at once: each is kept, none is lost without a word."""

from __future__ import annotations

import pytest

from divergraph.comparison import CompareRequest
from divergraph.comparison.keep_run import compare_into
from divergraph.rootcause.options import MethodChoice
from graphstore.embedded import EmbeddedStore
from graphstore.errors import InputError


class Overtaken(EmbeddedStore):
    """A store into which another process saves first, each time, ``others`` times."""

    others = 2

    def save_run(self, data, *, replace=False):
        if self.others:
            self.others -= 1
            with EmbeddedStore(self._folder.root) as other:
                other.save_run(data, replace=replace)
        super().save_run(data, replace=replace)


@pytest.fixture
def request_lenet(lenet):
    side = lenet / "npu_fault"
    golden = lenet / "model.ckpt.meta", lenet / "golden"
    return CompareRequest(*golden, side / "graph", side / "dump", method=MethodChoice.THRESHOLDS)


@pytest.mark.slow
def test_a_fresh_name_taken_meanwhile_gives_way_to_the_next(tmp_path, request_lenet):
    with Overtaken(tmp_path / "store") as store:
        data, kept = compare_into(store, request_lenet)
        assert kept
        assert data.run.name == "run-3"
        assert [run.name for run in store.runs()] == ["run-1", "run-2", "run-3"]


def test_a_given_name_taken_meanwhile_is_an_error(tmp_path, request_lenet):
    with Overtaken(tmp_path / "store") as store, pytest.raises(InputError, match="'mine'"):
        compare_into(store, request_lenet, name="mine")
