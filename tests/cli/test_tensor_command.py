"""``divergraph tensor``: one tensor of both sides, how it differs and where."""

import ml_dtypes
import numpy as np
import pytest
from valued_run import SHAPE, kept_values

from divergraph.dump_diff.value_parts import distribution, values_at
from graphstore.errors import InputError


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return kept_values(tmp_path_factory.mktemp("values"))


def test_the_errors_are_told_by_size_and_by_place(divergraph, store):
    printed = divergraph("tensor", "values", "relu", "--store", store, "--json").json
    assert (printed["op"], printed["output"], printed["input"]) == ("relu", 0, None)
    assert printed["shape"] == list(SHAPE)
    assert printed["is_apart"]
    first = printed["by_axis"][0]
    assert first["axis"] == 1
    assert int(np.argmax(first["means"])) == 4
    assert sum(printed["histogram"]["decades"].values()) + printed["histogram"]["equal"] == 768
    worst = printed["worst"]
    assert len(worst) == 10
    assert all(each["index"][1] == 4 for each in worst)


def test_the_text_says_the_same(divergraph, store):
    done = divergraph("tensor", "values", "relu", "--top", 3, "--store", store)
    assert done.code == 0
    assert "two kinds of errors, with a gap between: a fault in a part, no drift" in done.out
    assert "mean |device - golden| along axis 1" in done.out
    assert done.out.count("[0,4,") + done.out.count("[1,4,") == 3


def test_one_tensor_of_a_file_is_chosen_by_its_name(divergraph, tmp_path):
    file = tmp_path / "both.npz"
    np.savez(file, conv1=np.ones(3), pool=np.zeros((2, 2)))
    (found,) = divergraph("tensor", file, "pool", "--json").json["tensors"]
    assert found["shape"] == [2, 2]
    assert "(did you mean conv1?)" in divergraph("tensor", file, "conv").err
    assert "(it has conv1, pool)" in divergraph("tensor", file, "zzz").err


def test_a_model_in_place_of_a_run_is_told_how_it_gets_one(divergraph, store, tmp_path):
    model = tmp_path / "net.onnx"
    model.touch()
    assert f"divergraph import {model}" in divergraph("ops", model, "--store", store).err


def test_a_value_that_is_no_number_is_null_in_json_and_named_in_text(divergraph, store):
    printed = divergraph("tensor", "values", "tanh", "--store", store, "--json").json
    assert printed["histogram"]["nonfinite"] == 1
    assert any(None in axis["means"] for axis in printed["by_axis"])
    assert "Inf" in divergraph("tensor", "values", "tanh", "--store", store).out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("values", "rely"), "rely"),
        (("value", "relu"), "value"),
        (("values", "relu", "--output", 7), "output 7 was not compared"),
        (("values", "relu", "--output", 0, "--input", 0), "not both"),
        (("values", "relu", "--at", "0", "--bins", 3), "not both"),
        (("values", "relu", "--at", "0,1,2,3,4"), "4 axes, not 5"),
        (("values", "relu", "--at", "0,x"), "no index and no range"),
        (("values", "relu", "--at", "0,6"), "no index 6 in an axis of 6"),
        (("values", "relu", "--at", "::0"), "takes no step"),
        (("values", "relu", "--at", "9" * 19), "no index and no range"),
    ],
)
def test_what_is_not_there_is_said(divergraph, store, arguments, said):
    done = divergraph("tensor", *arguments, "--store", store)
    assert done.code == 2
    assert said in done.err


def test_values_at_a_place_and_how_all_are_distributed(divergraph, store):
    told = divergraph("tensor", "values", "tanh", "--at", "1,2,3,3:6", "--store", store, "--json")
    found = told.json
    assert (found["shape"], found["device"][1]) == ([3], None)
    assert found["nonfinite"] == {"device 1": "nan"}
    assert divergraph("tensor", "values", "tanh", "--at", "1,2,3,4", "--store", store).out.endswith(
        "NaN     0.410891\n"
    )
    told = divergraph("tensor", "values", "tanh", "--bins", 4, "--store", store, "--json")
    found = told.json
    assert (sum(found["device"]), found["device_nonfinite"]) == (767, 1)
    assert (sum(found["golden"]), found["golden_nonfinite"]) == (768, 0)
    assert len(found["edges"]) == 5
    shown = divergraph("tensor", "values", "tanh", "--bins", 4, "--store", store).out
    assert shown.splitlines()[-1].split() == ["NaN", "or", "infinite", "1", "0"]


def test_only_so_many_values_are_listed():
    zeros = np.zeros((101, 100))
    with pytest.raises(InputError, match="these are 10100 values"):
        values_at(zeros, zeros, "")
    assert values_at(zeros, zeros, "1:").golden.shape == (100, 100)


def test_small_floats_are_counted_and_what_is_no_number_is_refused():
    small = np.array([1, 2, 3], ml_dtypes.bfloat16)
    assert distribution(small, small, 2).device.tolist() == [1, 2]
    assert values_at(small, small, "2").device == 3
    words = np.array(["a"], object)
    with pytest.raises(InputError, match="no real numbers"):
        distribution(words, words, 2)
    with pytest.raises(InputError, match="no real numbers"):
        values_at(np.array([1j]), np.array([1j]), "0")
