"""``divergraph blame``: shares, and files of ops to keep."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float32_device import SAID
from onnx import TensorProto, helper, numpy_helper

from divergraph.cli.main import run


def written(path: Path, *factors: float) -> Path:
    """Three layers, the weights of each times a factor."""
    draw = np.random.default_rng(2)
    weights = [
        numpy_helper.from_array(
            draw.standard_normal((16, 16)).astype(np.float32) / 4 * factor, name
        )
        for name, factor in zip(("w0", "w1", "w2"), map(np.float32, factors), strict=True)
    ]
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


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path / "net.onnx", 1, 1, 1)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def command(*words: object) -> None:
    run([str(word) for word in words])


def compare_captured(
    folder: Path,
    store: Path,
    golden: Path,
    device: Path,
    *,
    name: str = "r",
    seeds: tuple[int, int] = (1, 1),
    spoil: Callable[[Path], None] = lambda dump: None,
) -> None:
    """Captures both sides and compares them; *spoil* gets the device's dump in between."""
    sides = []
    for side, path, seed in zip(("golden", "device"), (golden, device), seeds, strict=True):
        dump = folder / f"{name}_{side}"
        command("capture", path, "--random", seed, "-o", dump)
        sides += [f"--{side}", path, f"--{side}-dump", dump]
    spoil(folder / f"{name}_device")
    command("compare", *sides, "--run", name, *SAID, "--store", store)


@pytest.fixture
def kept(model: Path, tmp_path: Path, store: Path):
    """Does so and keeps the run in ``store``."""

    def compare(device: Path, golden: Path = model, **of: Any) -> None:
        compare_captured(tmp_path, store, golden, device, **of)

    return compare


@pytest.fixture(scope="module")
def two_inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with ``r`` and ``s``: a device with two weights off, on two inputs."""
    folder = tmp_path_factory.mktemp("blame")
    golden = written(folder / "net.onnx", 1, 1, 1)
    device = written(folder / "device.onnx", 1, 1.1, 1.01)
    store = folder / "store"
    for name, seed in (("r", 1), ("s", 2)):
        compare_captured(folder, store, golden, device, name=name, seeds=(seed, seed))
    return store


@pytest.fixture
def two_kept(two_inputs: Path, store: Path) -> Path:
    """That store, for one test alone: a run keeps what it is blamed for."""
    return Path(shutil.copytree(two_inputs, store))


@pytest.mark.slow
def test_blame_of_a_run_writes_lists_of_ops(divergraph, two_kept: Path, tmp_path: Path) -> None:
    store = two_kept
    files = {name: tmp_path / name for name in ("keep", "types", "block")}
    told = divergraph(
        "blame", "r", "--top", "2", "--store", store, "--json",
        *("--keep-dtype", files["keep"], "--customize-dtypes", files["types"]),
        *("--block-list", files["block"]),
    ).json  # fmt: skip
    assert [share["op"] for share in told["shares"]] == ["second", "last"]
    assert told["shares"][0]["share"] == pytest.approx(0.1 / 0.111, rel=0.01)
    assert [kept["op"] for kept in told["keep"]] == ["second", "last"]
    # The last layer's error is 1 % of what it made of an input 10 % too large.
    assert told["keep"][0]["left"] == pytest.approx(0.011 / 0.111, rel=0.01)
    assert told["unexplained"] < 1e-4
    assert files["keep"].read_text().splitlines() == ["second", "last"]
    types = files["types"].read_text().splitlines()
    assert types[0] == "second::InputDtype:float32,float32,OutputDtype:float32"
    assert files["block"].read_text().splitlines() == ["second", "last"]
    said = divergraph("blame", "r", "--store", store).out
    assert "share of the error left" in said
    shown = divergraph("origins", "r", "--store", store, "--json").json["origins"]
    assert shown[0]["share"] == pytest.approx(0.1 / 0.111, rel=0.01)


@pytest.mark.slow
def test_what_would_be_left_if_ops_were_exact_can_be_asked(divergraph, two_kept: Path) -> None:
    asked = ("blame", "r", "--store", two_kept, "--exact", "second")
    told = divergraph(*asked, "--json").json["what_if"]
    assert (told["ops"], told["without"]) == (["second"], [])
    assert told["left"] == pytest.approx(0.011 / 0.111, rel=0.01)
    both = divergraph(*asked, "--exact", "last", "--exact", "first").out.splitlines()
    assert both[0].startswith("with second, last, first exact 0.0 % of the error are left")
    assert both[1] == "(of first no error is known that could be taken away)"
    assert both[2] == "to keep in higher precision, and the share of the error left:"
    assert divergraph(*asked, "--exact", "nowhere").code == 2


@pytest.mark.slow
def test_dumps_written_since_the_comparison_are_told_of(
    divergraph, kept, store: Path, tmp_path: Path
) -> None:
    kept(written(tmp_path / "device.onnx", 1, 1.1, 1))
    assert divergraph("blame", "r", "--store", store, "--json").json["warnings"] == []
    replaced = next((tmp_path / "r_device").glob("*second*"))
    later = time.time() + 60
    os.utime(replaced, (later, later))
    told = divergraph("blame", "r", "--store", store, "--json")
    (said,) = told.json["warnings"]
    assert "1 dump file written after the run was compared" in said
    assert replaced.name in said
    assert said in told.err
    shown = divergraph("analyse", "r", "--store", store, "--json").json
    assert shown["warnings"].count(said) == 1


@pytest.mark.thorough
@pytest.mark.slow
def test_runs_of_several_inputs_are_blamed_together(
    divergraph, kept, two_kept: Path, tmp_path: Path
) -> None:
    store = two_kept
    alone = divergraph("blame", "r", "--store", store, "--json").json
    both = divergraph("blame", "r", "s", "r", "--store", store, "--json").json
    assert both["others"] == ["s"]
    assert both["runs"] == 2 * alone["runs"]
    assert both["keep"][0]["left"] == pytest.approx(0.011 / 0.111, rel=0.01)
    kept(written(tmp_path / "another.onnx", 1, 1, 2), name="t")
    refused = divergraph("blame", "r", "t", "--store", store)
    assert refused.code == 2
    assert "'t' is not of the models of 'r'" in refused.err


@pytest.mark.slow
def test_a_class_is_blamed_by_its_scores(divergraph, kept, store: Path, tmp_path: Path) -> None:
    kept(choosing(tmp_path / "device.onnx", 1.1), choosing(tmp_path / "golden.onnx", 1))
    (output,) = divergraph("blame", "r", "--store", store, "--json").json["outputs"]
    assert output == {
        "tensor": "y",
        "part": None,
        "error": pytest.approx(0.1, rel=0.01),
        "stands_in": True,
    }
    assert "stands for outputs" in divergraph("blame", "r", "--store", store).out
    asked = divergraph("blame", "r", "--output", "best", "--store", store)
    assert asked.code == 2
    assert "'best' is not of floats" in asked.err


def choosing(path: Path, factor: float) -> Path:
    """The layers, and which of the last one's numbers is largest as the only output."""
    model = onnx.load_model(str(written(path, 1, 1, factor)))
    model.graph.node.append(helper.make_node("ArgMax", ["y"], ["best"], "best", axis=1))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("best", TensorProto.INT64, [8, 1]))
    onnx.save_model(model, str(path))
    return path


@pytest.mark.slow
def test_of_a_constant_that_errs_the_op_that_reads_it_is_kept(
    divergraph, kept, store: Path, tmp_path: Path
) -> None:
    golden = of_constant_nodes(written(tmp_path / "golden.onnx", 1, 1, 1))
    kept(of_constant_nodes(written(tmp_path / "device.onnx", 1, 1.1, 1)), golden)
    files = [tmp_path / "keep", tmp_path / "block"]
    told = divergraph(
        "blame", "r", "--keep-dtype", files[0], "--block-list", files[1], "--store", store, "--json"
    ).json
    assert [each["op"] for each in told["keep"]] == ["const_w1"]
    assert [file.read_text().splitlines() for file in files] == [["second"], ["second"]]


def of_constant_nodes(path: Path) -> Path:
    """The model with Constant nodes for initializers."""
    model = onnx.load_model(str(path))
    for weights in model.graph.initializer:
        made = helper.make_node("Constant", [], [weights.name], f"const_{weights.name}")
        made.attribute.append(helper.make_attribute("value", weights))
        model.graph.node.insert(0, made)
    del model.graph.initializer[:]
    onnx.save_model(model, str(path))
    return path


@pytest.mark.slow
def test_an_error_of_other_inputs_is_no_ops(divergraph, kept, store: Path, model: Path) -> None:
    kept(model, seeds=(1, 2))
    said = divergraph("blame", "r", "--store", store).out
    assert "no op introduces an error" in said
    assert "100 % of the error comes from no measured op" in said


@pytest.mark.slow
def test_an_output_that_is_no_number_is_said_to_be(
    divergraph, kept, store: Path, model: Path
) -> None:
    def spoil(dump: Path) -> None:
        (path,) = dump.glob("last*")
        values = np.load(path)
        values[0, :3] = np.nan
        np.save(path, values)

    kept(model, spoil=spoil)
    assert "no number  y" in divergraph("blame", "r", "--store", store).out
    told = divergraph("blame", "r", "--store", store, "--json").json
    assert told["outputs"] == [{"tensor": "y", "part": None, "error": None, "stands_in": False}]
    assert told["keep"][0]["op"] == "last"
    assert told["keep"][0]["left"] == 0


@pytest.mark.slow
def test_blame_without_its_dumps_says_so(divergraph, model: Path, tmp_path: Path) -> None:
    store, golden = tmp_path / "store", tmp_path / "golden"
    divergraph("capture", model, "--random", "1", "-o", golden)
    compared = ("--golden", model, "--golden-dump", golden, "--device", model)
    divergraph("compare", *compared, "--device-dump", golden, "--run", "r", "--store", store)
    same = divergraph("blame", "r", "--store", store)
    assert "nothing to blame" in same.out
    model.unlink()
    failed = divergraph("blame", "r", "--store", store)
    assert failed.code == 2
    assert "Traceback" not in failed.err
