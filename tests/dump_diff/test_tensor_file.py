"""``divergraph tensor FILE``: the tensors of one file by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from importers.proto.messages import dump_data_pb2


def test_an_array_is_described_and_written_as_text(divergraph, tmp_path):
    values = np.array([[0, 1, -7], [np.nan, 2, 3]], np.float32)
    path = tmp_path / "left.npy"
    np.save(path, values)
    said = divergraph("tensor", path, "--top", 2, "--txt", tmp_path / "out").out
    for line in ("shape  2,3", "dtype  float32", "max    3", "min    -7", "mean   -0.2"):
        assert f"  {line}\n" in said
    assert said.index("[1, 0]  NaN") < said.index("[0, 2]  -7")
    text = tmp_path / "out" / "left.npy.txt"
    assert f"text   {text}\n" in said
    np.testing.assert_array_equal(np.loadtxt(text), values)


def test_a_device_dump_has_all_its_tensors(divergraph, lenet):
    (path,) = (lenet / "npu_fault" / "dump").rglob("Conv2D.LeNet_conv2_Conv2DRelu.*")
    found = divergraph("tensor", path, "--json").json["tensors"]
    (output,) = (each for each in found if "output" in each["tensor"])
    assert (output["dtype"], output["layout"]) == ("float16", "NC1HWC0")
    assert output["shape"] == [2, 1, 14, 14, 16]
    assert output["maximum"] == pytest.approx(1.58301, abs=1e-5)
    assert (len(output["first"]), len(output["worst"])) == (10, 10)


def test_the_texts_of_a_device_dump_are_named_after_its_tensors(divergraph, tmp_path):
    header = dump_data_pb2.DumpData(version=b"2.0", dump_time=1)
    for tensor in (header.input.add(), header.output.add()):
        tensor.data_type, tensor.format, tensor.size = 1, 2, 4
        tensor.shape.dim.append(1)
    head = header.SerializeToString()
    path = tmp_path / "Add.add.3.2.1795787222619758"
    path.write_bytes(len(head).to_bytes(8, "little") + head + bytes(8))
    assert divergraph("tensor", path, "--txt", tmp_path / "out").code == 0
    texts = sorted(each.name for each in (tmp_path / "out").iterdir())
    assert texts == [f"{path.name}.input.0.txt", f"{path.name}.output.0.txt"]
    assert divergraph("tensor", path, "output.0").code == 0


def test_what_a_raw_file_holds_has_to_be_said(divergraph, tmp_path):
    path = tmp_path / "x.bin"
    np.arange(6, dtype=np.float16).tofile(path)
    assert divergraph("tensor", path).code == 2
    found = divergraph("tensor", path, "--dtype", "float16", "--shape", "2,3", "--json").json
    assert found["tensors"][0]["worst"][0] == {"index": [1, 2], "value": 5.0, "shown": "5.0"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gone.npy",), "no such file"),
        ((".",), "this is a folder"),
        (("gone.npy", "--output", 0), "need a RUN"),
        (("run", "op", "--txt", "."), "need a FILE"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(
    divergraph, monkeypatch, tmp_path, arguments, said
):
    monkeypatch.chdir(tmp_path)
    done = divergraph("tensor", *arguments)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_an_empty_tensor_and_a_single_number(divergraph, tmp_path):
    for name, values in (("none", np.empty((0, 3))), ("one", np.float64(4.5))):
        np.save(tmp_path / f"{name}.npy", values)
        found = divergraph("tensor", tmp_path / f"{name}.npy", "--json").json["tensors"][0]
        assert found["maximum"] == (4.5 if name == "one" else None)
        assert len(found["worst"]) == values.size


def test_in_a_folder_a_tensor_is_found_by_its_op(divergraph, tmp_path):
    for step in range(2):
        (tmp_path / "npu" / f"step{step}").mkdir(parents=True)
        np.save(
            tmp_path / "npu" / f"step{step}" / "a_conv.0.1600000000000000.npy", np.full(3, step)
        )
    for name in ("a_conv", "a/conv", "a_conv:0"):
        done = divergraph("tensor", tmp_path / "npu", name, "--json")
        found = [each["first"][0] for each in done.json["tensors"]]
        assert found == [0, 1]
    done = divergraph("tensor", tmp_path / "npu", "relu")
    assert (done.code, "no tensor in this folder named 'relu'" in done.err) == (2, True)
