"""A model captured, compared, blamed, cut and minimised through the public API alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import divergraph as dg
from divergraph.api.keep_forms import KEEP_FORMS
from divergraph.blame.keep_lists import LINES

pytestmark = pytest.mark.thorough


def model(path: Path, factor: float) -> Path:
    """Three layers; the second layer's weights times *factor*."""
    draw = np.random.default_rng(2)
    weights = [
        numpy_helper.from_array(draw.standard_normal((16, 16)).astype(np.float32) / 4, name)
        for name in ("w0", "w1", "w2")
    ]
    spoilt = numpy_helper.to_array(weights[1]) * np.float32(factor)
    weights[1] = numpy_helper.from_array(spoilt, "w1")
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], "first"),
        helper.make_node("MatMul", ["a", "w1"], ["b"], "second"),
        helper.make_node("MatMul", ["b", "w2"], ["y"], "last"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 16]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> tuple[Path, Path, Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    golden, device = model(folder / "g.onnx", 1.0), model(folder / "d.onnx", 1.1)
    value = folder / "x.npy"
    np.save(value, np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32))
    found = dg.capture(golden, folder / "golden", value)
    assert (found.tensors, found.folder) == (3, folder / "golden")
    dg.capture(str(device), str(folder / "device"), {"x": str(value)})
    return golden, folder / "golden", device, folder / "device"


@pytest.fixture
def run(paths) -> dg.Run:
    return dg.compare(*paths, name="net")


def test_the_origin_is_found_by_running_the_ops_again(run):
    assert [one.origin.op for one in run.origins] == ["second"]
    assert run.analysis.executor.startswith("onnxruntime")
    assert run.roles().counts.guilt[run.origins[0].guilt] == 1


@pytest.mark.slow
def test_a_run_is_judged_by_other_limits(run, paths, tmp_path):
    lenient = run.analyse(guilty=1e12, suspect=1e12)
    assert (len(lenient.origins), len(run.origins)) == (0, 1)
    assert not lenient.kept
    with dg.open_store(tmp_path / "store") as store:
        run.save(store)
        assert store["net"].analyse(guilty=1e12, suspect=1e12).kept
        assert len(store["net"].origins) == 0


@pytest.mark.slow
def test_blame_is_shown_with_the_run_wherever_it_is_kept(run, tmp_path):
    with dg.open_store(tmp_path / "store") as store:
        kept = run.save(store)
        for each in (run, kept):
            found = each.blame(top=2)
            assert found.shares[0].op == "second"
            assert each.keep_list(found, "block_list")[0] == "second"
            assert each.keep_list(found, "layer_precisions")[:2] == (
                *("--precisionConstraints=obey", "--layerPrecisions=second:fp32"),
            )
            overrides = json.loads("".join(each.keep_list(found, "quantization_overrides")))
            as_float = [{"bitwidth": 16, "dtype": "float"}]
            assert list(overrides["activation_encodings"].values()) == [as_float]
            assert each.origins[0].share == pytest.approx(found.shares[0].share)
        assert store["net"].origins[0].share is not None
        with pytest.raises(dg.errors.InputError, match="no list is called"):
            run.keep_list(found, "best")


def test_every_form_of_the_list_to_keep_can_be_written():
    assert list(KEEP_FORMS) == list(LINES)


def test_a_part_is_written_and_gives_the_golden_outputs(run, tmp_path):
    """To choose one needs the graphs only, to write it the model and its dumps."""
    found = run.submodel(["second"], ["last"], tmp_path / "parts", check=True)
    assert found.selection.chosen == ("second", "last")
    assert found.check is not None
    assert found.check.passed
    assert (found.path / "replay.py").exists()
    with pytest.raises(dg.errors.InputError, match="form='exe'"):
        run.submodel(["second"], ["last"], form="exe")
    chosen = run.parts().cut(["second"], ["last"])
    assert chosen.selection.ops == found.selection.ops
    with pytest.raises(dg.errors.InputError, match="not open"):
        run.parts().cut(["second"], ["last"], tmp_path / "more")


def test_the_smallest_failing_part_is_the_spoilt_op(run, tmp_path):
    told = []
    found = run.minimize(output=tmp_path / "parts", progress=lambda stage, *_: told.append(stage))
    assert [part.ops for part in found.parts] == [("second",)]
    assert found.parts[0].bundle.is_dir()
    assert any(stage.startswith("asking") for stage in told)
    again = run.minimize()
    assert all(probe.known for probe in again.probes)
    with pytest.raises(dg.errors.InputError):
        run.minimize("crystal-ball")


@pytest.mark.slow
def test_two_runs_are_held_against_each_other(run, paths, tmp_path):
    golden, golden_dump, _, _ = paths
    with dg.open_store(tmp_path / "store") as store:
        run.save(store, "old")
        dg.compare(golden, golden_dump, golden, golden_dump, store=store, name="new")
        changes = store.compare_runs("old", "new")
        assert [change.op for change in changes.changes] == ["second"]
        assert store.recurring().runs == 2
        assert len(store.runs().to_arrow()) == 2
        store.rename("new", "good")
        store.backup(tmp_path / "runs.backup", ["good"])
        store.delete("good")
        assert list(store) == ["old"]
        assert [each.name for each in store.restore(tmp_path / "runs.backup")] == ["good"]
        assert [each.name for each in store.copy(tmp_path / "second")] == ["old", "good"]
        assert store.info().runs == 2


@pytest.mark.slow
def test_ranks_and_steps_give_a_run_each(tmp_path):
    good, bad = dg.demo_data(fault=False), dg.demo_data()
    for rank, data in ((0, good), (1, bad)):
        (folder,) = {path.parent for path in data.device_dump.rglob("*") if path.is_file()}
        place = tmp_path / "dumps" / "20240101000000" / str(rank) / folder.parents[1].name
        shutil.copytree(folder, place / "61" / "0")
    paths = (good.golden, good.golden_dump, good.device, tmp_path / "dumps")
    with dg.open_store(tmp_path / "store") as store:
        found = dg.compare_many(*paths, store=store, ranks="all", name="all", method="thresholds")
        assert list(store) == ["all.rank0", "all.rank1"]
        assert found.first is not None
        assert (found.first.rank, store["all.rank0"].verdict.value) == (1, "within_rounding")
        again = dg.compare_many(*paths, store=store, ranks=[1], replace=True, name="all")
        assert [run.place.rank for run in again.runs] == [1]
        with pytest.raises(dg.errors.InputError, match="no rank 7"):
            dg.compare_many(*paths, store=store, ranks=[0, 7])
        with pytest.raises(dg.errors.InputError, match="cannot go together"):
            dg.compare_many(*paths, store=store, ranks=[0], rank=1)
