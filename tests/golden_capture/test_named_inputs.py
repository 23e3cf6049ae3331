"""Inputs of ``capture`` out of files that name their tensors, as other tools keep them."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

A, B = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones(4, np.float32)


def as_json(array):
    file = io.BytesIO()
    np.save(file, array)
    return {"array": base64.b64encode(file.getvalue()).decode(), "polygraphy_class": "ndarray"}


@pytest.fixture
def model(tmp_path):
    inputs = [
        helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 4]),
        helper.make_tensor_value_info("b", TensorProto.FLOAT, [4]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    node = helper.make_node("Add", ["a", "b"], ["y"], name="sum")
    graph = helper.make_graph([node], "net", inputs, outputs)
    opset = [helper.make_opsetid("", 17)]
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


@pytest.fixture
def captured(divergraph, model, tmp_path):
    """The sum in a capture of the model with the inputs given, and what was said."""

    def run(*inputs):
        given = [word for each in inputs for word in ("-i", each)]
        done = divergraph("capture", model, *given, "-o", tmp_path / "out")
        assert done.code == 0, done.err
        (file,) = (tmp_path / "out").glob("sum.0.*.npy")
        return np.load(file), done.err

    return run


def test_inputs_that_polygraphy_saved_are_those_of_the_first_iteration(captured, tmp_path):
    given = [{"a": as_json(A + k), "b": as_json(B)} for k in range(2)]
    (tmp_path / "inputs.json").write_text(json.dumps(given))
    value, said = captured(tmp_path / "inputs.json")
    assert np.array_equal(value, A + B)
    assert "inputs.0 is taken, one of 2 (divergraph convert" in said


def test_of_a_folder_of_iterations_the_first_is_taken(captured, tmp_path):
    (tmp_path / "saved").mkdir()
    for k in range(2):
        file = tmp_path / "saved" / f"{k:010}.json"
        file.write_text(json.dumps({"a": as_json(A + k), "b": as_json(B)}))
    value, said = captured(tmp_path / "saved")
    assert np.array_equal(value, A + B)
    assert "0000000000.json is taken, one of 2 iterations" in said


def test_a_folder_of_no_inputs_is_told(divergraph, model, tmp_path):
    done = divergraph("capture", model, "-i", tmp_path, "-o", tmp_path / "out")
    assert (done.code, "this is a folder, not the value of an input" in done.err) == (2, True)


def test_an_archive_gives_the_inputs_it_names(captured, tmp_path):
    np.savez_compressed(tmp_path / "all.npz", a=A, b=B, other=B)
    value, said = captured(tmp_path / "all.npz")
    assert np.array_equal(value, A + B)
    assert "passed over: other" in said


def test_named_files_give_one_input_each(captured, tmp_path):
    np.savez(tmp_path / "only.npz", A)
    (tmp_path / "input_1.pb").write_bytes(numpy_helper.from_array(B).SerializeToString())
    value, _ = captured(f"a={tmp_path}/only.npz", f"b={tmp_path}/input_1.pb")
    assert np.array_equal(value, A + B)


@pytest.mark.parametrize("name", ["", "a="])
def test_an_archive_without_the_input_is_told_with_what_it_holds(divergraph, model, tmp_path, name):
    np.savez(tmp_path / "both.npz", A, B)
    told = divergraph("capture", model, "-i", f"{name}{tmp_path}/both.npz", "-o", tmp_path / "out")
    assert told.code == 2
    assert "both.npz: " in told.err
    assert "it holds arr_0, arr_1" in told.err


def test_shapes_and_ranges_are_taken_as_polygraphy_spells_them(divergraph, model, tmp_path):
    words = ("--random", 1, "--shape", "a:[3,4]", "--range", "a:[5,6]", "-o", tmp_path / "out")
    assert divergraph("capture", model, *words).code == 0
    (file,) = (tmp_path / "out").glob("*a*.npy")
    value = np.load(file)
    assert value.shape == (3, 4)
    assert value.min() >= 5


def test_a_raw_file_takes_the_shape_given_as_atc_spells_it(divergraph, model, tmp_path):
    A.tofile(tmp_path / "a.bin")
    words = ("-i", f"a={tmp_path}/a.bin", "-i", "b=random:1", "--shape", "a:3,4;b:4")
    assert divergraph("capture", model, *words, "-o", tmp_path / "out").code == 0


def test_a_file_that_claims_more_than_it_holds_takes_no_memory(divergraph, model, tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, A)
    data = path.read_bytes()
    end = 10 + int.from_bytes(data[8:10], "little")
    header = data[10:end].replace(b"(3, 4)", b"(1099511627776, 4)").rstrip()
    path.write_bytes(data[:10] + header.ljust(end - 11) + b"\n" + data[end:])
    ended = divergraph("capture", model, "-i", f"a={path}", "--random", "1", "-o", tmp_path / "out")
    assert ended.code == 2
    assert "a.npy" in ended.err
    assert "internal" not in ended.err
