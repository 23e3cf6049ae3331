"""``divergraph analyse``: the root cause of a run that was compared before."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from divergraph.cli.main import run
from divergraph.comparison.keep_run import analyse_stored, compare_into
from divergraph.rootcause.options import MethodChoice, RootCauseOptions
from graphstore.errors import InputError, UnknownNameError
from graphstore.model import Method, Verdict
from graphstore.open_store import open_store


def wrong_weights(weights):
    weights["w1"] = weights["w1"] * np.float32(1.2)


@pytest.fixture
def kept(sides, tmp_path: Path):
    """A store with a run judged by thresholds, and its sides."""
    made = sides(wrong_weights)
    request = replace(made.request, method=MethodChoice.THRESHOLDS)
    store = tmp_path / "store"
    with open_store(str(store)) as opened:
        compare_into(opened, request, name="first")
    return store, made


def test_it_gives_an_older_run_its_root_cause(kept, capsys):
    store, _ = kept
    assert run(["analyse", "first", "--store", str(store), "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["method"] == "root-cause"
    assert [each["op"] for each in shown["origins"]] == ["conv1"]
    with open_store(str(store)) as opened:
        data = opened.run_data("first")
        assert [each.name for each in opened.runs()] == ["first"]
    assert data.run.method is Method.ROOT_CAUSE
    assert data.run.analysis.executor.startswith("onnxruntime")
    assert [each.op for each in data.origins] == ["conv1"]


@pytest.mark.slow
def test_again_with_other_limits_nothing_of_the_first_judgement_is_left(kept):
    store, _ = kept
    with open_store(str(store)) as opened:
        guilty = analyse_stored(opened, "first")
        assert guilty.run.verdict is Verdict.DIVERGED
        lenient = analyse_stored(opened, "first", RootCauseOptions(1e8, 1e9))
        assert opened.run_data("first").run == lenient.run
    assert not lenient.origins
    assert not lenient.suspects
    assert not lenient.findings
    assert lenient.run.verdict is Verdict.WITHIN_ROUNDING


def test_a_model_that_changed_is_refused(kept):
    store, made = kept
    golden = made.folder / "golden.onnx"
    golden.write_bytes((made.folder / "device.onnx").read_bytes())
    with open_store(str(store)) as opened:
        with pytest.raises(InputError, match="not the one that was compared"):
            analyse_stored(opened, "first")
        golden.unlink()
        with pytest.raises(InputError):
            analyse_stored(opened, "first")
        with pytest.raises(UnknownNameError):
            analyse_stored(opened, "second")
        assert opened.run("first").method is Method.THRESHOLDS


@pytest.mark.slow
def test_dumps_written_since_the_comparison_are_told_of(kept):
    store, made = kept
    with open_store(str(store)) as opened:
        assert not _said_newer(analyse_stored(opened, "first").run.warnings)
        file = next(made.request.device_dump.rglob("conv1*.npy"))
        later = time.time() + 60
        os.utime(file, (later, later))
        for _ in range(2):
            (said,) = _said_newer(analyse_stored(opened, "first").run.warnings)
            assert said.startswith("1 dump file written after the run was compared")
            assert file.name in said


def _said_newer(warnings):
    return [each for each in warnings if "written after the run was compared" in each]
