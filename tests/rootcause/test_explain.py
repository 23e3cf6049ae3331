"""How a suspicion was reckoned is kept with the run and printed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from judged_output import context, judged

import divergraph as dg
from divergraph.comparison import compare
from divergraph.golden_capture import StandIn
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.tolerances.contract import tolerances
from graphstore.model import Effect, Guilt
from graphstore.open_store import open_store

RNG = np.random.default_rng(5)
VALUES = RNG.standard_normal(4000).astype(np.float32)


def test_a_gain_narrows_the_floor_and_says_so() -> None:
    found, split = judged(VALUES * np.float32(1.004), VALUES, FP16.rounded(VALUES))
    kept = found.reckoning(context(), split)
    assert kept is not None
    assert kept.guilt is Guilt.GUILTY
    (gain,) = (each for each in kept.adjustments if each.tolerance == "gain")
    assert gain.effect is Effect.NARROW
    assert gain.after < gain.before
    assert kept.floor == gain.after
    assert kept.suspicion == pytest.approx(kept.error / kept.size / kept.floor)
    assert kept.least < kept.emulated < 2.0**-11


def test_of_healthy_outputs_nothing_is_kept() -> None:
    found, split = judged(FP16.rounded(VALUES), VALUES, FP16.rounded(VALUES))
    assert not found.adjustments
    assert found.reckoning(context(), split) is None


def test_every_tolerance_says_why_in_a_sentence() -> None:
    names = [each.name for each in tolerances()]
    assert len(names) == len(set(names))
    assert all(len(each.reason.split()) > 5 for each in tolerances())


def test_the_whole_reckoning_is_printed(sides, tmp_path, divergraph) -> None:
    made = sides(lambda w: w.update(w2=w["w2"] * np.float32(1.05)), StandIn.FP16)
    data = compare(made.request)
    with open_store(str(tmp_path / "store")) as store:
        store.save_run(data)
    url = str(tmp_path / "store")
    name = data.run.name
    plain = divergraph("origins", name, "--store", url)
    assert "emulation" not in plain.out
    said = divergraph("origins", name, "--explain", "--store", url).out
    assert "reference r: the original op on the device's own inputs, by onnxruntime" in said
    assert "emulation e in fp16: |e - r| / |r| = " in said
    assert "suspicion = error / floor = " in said
    told = json.loads(divergraph("origins", name, "--explain", "--json", "--store", url).out)
    first = told["reckonings"][0]
    assert first["op"] == told["origins"][0]["op"]
    assert first["guilt"] == "guilty"
    assert first["suspicion"] == pytest.approx(told["origins"][0]["suspicion"])
    assert {"reference", "emulated", "least_floor", "adjustments", "floor"} <= first.keys()
    with dg.open_store(url) as opened:
        assert opened[name].explain()[0].suspicion == pytest.approx(first["suspicion"])


def test_explain_is_of_one_run(divergraph, tmp_path) -> None:
    ended = divergraph("origins", "--all-runs", "--explain", "--store", str(tmp_path))
    assert ended.code == 2
