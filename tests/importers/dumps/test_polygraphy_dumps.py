"""Run results of Polygraphy as JSON."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphstore.errors import DivergraphError, ImportFormatError, InputError
from graphstore.model import DumpFormat, Reason, TensorIO
from importers.dumps.arrays.polygraphy import TextPlace, read_places
from importers.dumps.contract import DumpChoice
from importers.dumps.detect import detect_dumps, list_dumps, scan_dumps
from importers.dumps.index import DamagedError
from importers.dumps.read import read_array

OUT = TensorIO.OUTPUT


def encoded(array):
    file = io.BytesIO()
    np.save(file, array)
    return {"array": base64.b64encode(file.getvalue()).decode(), "polygraphy_class": "ndarray"}


def lazy(array):
    return {"values": encoded(array), "polygraphy_class": "LazyArray"}


def results(*iterations, runner="onnxrt-runner-N0"):
    made = [
        {"outputs": outputs, "runtime": 0.1, "polygraphy_class": "IterationResult"}
        for outputs in iterations
    ]
    return {"lst": [[runner, made]], "polygraphy_class": "RunResults"}


def write(path, content):
    path.write_text(json.dumps(content, indent=4))
    return path


@pytest.fixture
def graph(graph_of, op):
    return graph_of(
        op("conv", outputs=("t/conv:0",)), op("relu", outputs=("relu out",)), inputs=["x"]
    )


@pytest.mark.parametrize("form", [encoded, lazy])
def test_tensors_are_found_by_their_names(tmp_path, graph, form):
    conv, relu = np.arange(24, dtype=np.float16).reshape(2, 3, 4), np.asfortranarray(np.eye(3))
    path = write(
        tmp_path / "all.json",
        results({"t/conv:0": form(conv), "relu out": form(relu), "x": form(conv), "y": form(conv)}),
    )
    for place in (path, tmp_path):
        index = scan_dumps(place, graph)
        assert set(index.tensors) == {("conv", OUT, 0), ("relu", OUT, 0)}
        assert np.array_equal(read_array(index.tensors["conv", OUT, 0]), conv)
        assert np.array_equal(read_array(index.tensors["relu", OUT, 0]), relu)
        assert index.tensors["conv", OUT, 0].format is DumpFormat.BASE64_NPY
        assert np.array_equal(read_array(index.graph_inputs["x"]), conv)
        assert index.notes == ("all.json: 1 tensor belongs to no op (y)",)


def test_a_file_of_inputs_is_a_dump_of_the_graphs_inputs(tmp_path, graph):
    path = write(tmp_path / "inputs.json", [{"x": encoded(np.ones(40))}])
    assert set(scan_dumps(path, graph).graph_inputs) == {"x"}


def test_one_of_several_iterations_is_chosen(tmp_path, graph):
    iterations = [{"t/conv:0": lazy(np.full(50, step))} for step in range(3)]
    path = write(tmp_path / "all.json", results(*iterations))
    first = scan_dumps(path, graph)
    (note,) = first.notes
    assert note.startswith("all.json: iteration 0 of onnxrt-runner-N0, one of 3 (")
    assert read_array(first.tensors["conv", OUT, 0])[0] == 0
    assert read_array(scan_dumps(path, graph, DumpChoice(step=2)).tensors["conv", OUT, 0])[0] == 2
    with pytest.raises(ImportFormatError, match="no iteration 3, there are 0, 1, 2"):
        scan_dumps(path, graph, DumpChoice(step=3))


def test_what_is_no_array_of_numpy_is_a_problem(tmp_path, graph):
    torch = {"array": "x" * 400, "polygraphy_class": "Tensor"}
    path = write(tmp_path / "all.json", results({"t/conv:0": torch, "relu out": {"values": 3}}))
    problems = scan_dumps(path, graph).problems
    assert [problem.op for problem in problems] == ["conv", "relu"]
    assert "magic is missing" in problems[0].detail
    assert problems[1].reason is Reason.DTYPE_UNSUPPORTED


def test_objects_are_never_unpickled(tmp_path, graph):
    array = np.array([{}] * 100, object)
    path = write(tmp_path / "all.json", results({"t/conv:0": encoded(array)}))
    (problem,) = scan_dumps(path, graph).problems
    assert problem.reason is Reason.DTYPE_UNSUPPORTED


@pytest.mark.parametrize(
    "content",
    [
        b'{"lst": [',
        b'{"lst": []}',
        b'{"lst": [["r", [{"outputs": 3}]]]}',
        b'{"lst": 1} 2',
        b'{"lst": tru}',
        b'{"lst" "array"}',
        b'{"lst": ' + b"[" * 100_000,
        b'{"lst": "\xff"',
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path, graph, content):
    path = tmp_path / "all.json"
    path.write_bytes(content)
    assert [found.kind for found in detect_dumps(path)] == ["polygraphy"]
    with pytest.raises(ImportFormatError, match="at byte"):
        scan_dumps(path, graph)
    (problem,) = scan_dumps(tmp_path, graph).problems
    assert problem.path == path


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=20), inner),
    max_leaves=20,
)


@given(JSON, st.sampled_from([None, 2]))
def test_values_are_those_of_the_json_module(value, indent):
    raw = json.dumps(value, indent=indent).encode()
    assert whole(read_places(raw), raw) == value


def whole(value, raw):
    """The value with long texts read from their places."""
    if isinstance(value, TextPlace):
        return json.loads(b'"' + raw[value.offset : value.offset + value.length] + b'"')
    if isinstance(value, list):
        return [whole(inner, raw) for inner in value]
    if isinstance(value, dict):
        return {name: whole(inner, raw) for name, inner in value.items()}
    return value


@given(
    st.binary(max_size=200) | st.text(alphabet='{}[]:,"\\ntruefalse0123456789.e-').map(str.encode)
)
def test_any_bytes_are_json_or_damaged(raw):
    try:
        value = read_places(raw)
    except DamagedError:
        return
    assert json.dumps(whole(value, raw)) is not None


@pytest.mark.shared
def test_real_results_of_onnx_runtime(shared_data, graph_of, op):
    folder = shared_data / "dumps" / "polygraphy"
    names = ("adjusted_input2", "p_re_lu_3/add:0", "p_re_lu_3/add:0_pooling0")
    graph = graph_of(*(op(name, outputs=(name,)) for name in names), inputs=["input_2"])
    tensors = scan_dumps(folder / "rnet_onnxrt_all.json", graph).tensors
    given_input = scan_dumps(folder / "rnet_inputs.json", graph).graph_inputs["input_2"]
    moved = np.transpose(read_array(given_input), (0, 3, 1, 2))
    assert np.array_equal(read_array(tensors["adjusted_input2", OUT, 0]), moved)
    assert set(tensors) == {(name, OUT, 0) for name in names}


def test_a_changed_file_is_told(tmp_path, graph):
    path = write(tmp_path / "all.json", results({"t/conv:0": lazy(np.ones(100))}))
    ref = scan_dumps(path, graph).tensors["conv", OUT, 0]
    write(path, results({"t/conv:0": lazy(np.ones(50))}))
    with pytest.raises(DivergraphError):
        read_array(ref)


def test_more_dimensions_than_numpy_has_are_one_sentence(tmp_path, graph):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % ("1," * 80)
    raw = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(4)
    array = {"array": base64.b64encode(raw).decode()}
    path = write(tmp_path / "all.json", results({"t/conv:0": array}))
    ref = scan_dumps(path, graph).tensors["conv", OUT, 0]
    with pytest.raises(ImportFormatError, match="cannot be read"):
        read_array(ref)


def test_a_folder_of_iterations_is_read_a_step_at_a_time(tmp_path, graph):
    for number in range(3):
        array = encoded(np.full(4, number, np.float32))
        write(tmp_path / f"{number:010}.json", results({"t/conv:0": array}))
    assert [(found.step, found.path.name[:10]) for found in list_dumps(tmp_path)] == [
        (str(number), f"{number:010}") for number in range(3)
    ]
    for step, first in ((None, 0), (2, 2)):
        index = scan_dumps(tmp_path, graph, DumpChoice(step=step))
        assert read_array(index.tensors["conv", OUT, 0])[0] == first
        assert index.notes == (f"iteration {first}, one of 3 (--step)",)
    with pytest.raises(InputError, match="no iteration 7, there are 0, 1, 2"):
        scan_dumps(tmp_path, graph, DumpChoice(step=7))


def test_the_iterations_of_a_file_are_its_steps(tmp_path):
    array = encoded(np.zeros(2))
    path = write(tmp_path / "all.json", results({"y": array}, {"y": array}))
    assert [found.step for found in list_dumps(path)] == ["0", "1"]


def test_results_of_comparisons_are_no_dump(tmp_path):
    compared = {"lst": [{"lst": [[["a", "b"], [{"y": {"max_absdiff": 0.1}}]]]}]}
    path = write(tmp_path / "acc.json", compared | {"polygraphy_class": "AccuracyResults"})
    assert not detect_dumps(path)
