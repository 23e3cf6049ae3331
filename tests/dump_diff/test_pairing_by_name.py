"""Tensors of two dumps are paired by what their names tell, and never guessed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divergraph.dump_diff.pairing import pair_by_name
from graphstore.errors import InputError
from graphstore.model import DType
from importers.dumps.bare.index import find_tensors
from importers.dumps.contract import RawForm
from importers.dumps.read import read_array, read_npy


def dump(folder: Path, *names: str) -> Path:
    """A folder with a tiny ``.npy`` file for each name."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.arange(3, dtype=np.float32))
    return folder


def paired(device: Path, golden: Path):
    return pair_by_name(find_tensors(device).tensors, find_tensors(golden).tensors)


def names(found):
    return [pair.name for pair in found.pairs]


def test_equal_names_are_pairs_also_in_nested_folders(tmp_path):
    device = dump(tmp_path / "d", "a.npy", "deep/er/b.npy", "only.npy")
    golden = dump(tmp_path / "g", "a.npy", "deep/er/b.npy", "other.npy", "deep/a.npy")
    found = paired(device, golden)
    assert names(found) == ["a", "deep/er/b"]
    assert [tensor.name for tensor in found.device_only] == ["only"]
    assert [tensor.name for tensor in found.golden_only] == ["deep/a", "other"]


def test_times_in_names_and_folders_do_not_matter(tmp_path):
    device = dump(
        tmp_path / "d",
        "20240101120000/0/conv1.0.1704110400000000.npy",
        "20240101120000/1/conv1.0.1704110400000001.npy",
    )
    golden = dump(
        tmp_path / "g",
        "20230909090909/0/conv1.0.1694250549000000.npy",
        "20230909090909/1/conv1.0.1694250549000007.npy",
    )
    found = paired(device, golden)
    assert [(pair.device.name[15], pair.golden.name[15]) for pair in found.pairs] == [
        ("0", "0"),
        ("1", "1"),
    ]
    assert names(found) == ["conv1.output.0", "conv1.output.0"]


def test_converted_device_dumps_meet_golden_names(tmp_path):
    device = dump(
        tmp_path / "d",
        "Conv2D.net_conv1_Conv2D.3.7.1694250549000000.output.0.npy",
        "Conv2D.net_conv1_Conv2D.3.7.1694250549000000.input.0.npy",
    )
    golden = dump(tmp_path / "g", "net_conv1_Conv2D.0.1694250549000001.npy")
    found = paired(device, golden)
    assert names(found) == ["Conv2D.net_conv1_Conv2D.output.0"]
    assert len(found.device_only) == 1


def test_of_more_dumps_on_one_side_the_last_counts(tmp_path):
    device = dump(tmp_path / "d", "conv.0.1694250549000000.npy", "conv.0.1694250549000009.npy")
    golden = dump(tmp_path / "g", "conv.0.1694250549000005.npy")
    found = paired(device, golden)
    assert [pair.device.timestamp for pair in found.pairs] == [1694250549000009]
    assert found.superseded == 1


def test_as_many_dumps_on_both_sides_are_paired_in_order_of_time(tmp_path):
    device = dump(tmp_path / "d", "loop.0.1694250549000009.npy", "loop.0.1694250549000000.npy")
    golden = dump(tmp_path / "g", "loop.0.1704110400000000.npy", "loop.0.1704110400000001.npy")
    found = paired(device, golden)
    assert names(found) == ["loop.output.0 #1", "loop.output.0 #2"]
    assert [pair.golden.timestamp for pair in found.pairs] == [1704110400000000, 1704110400000001]


def test_what_could_be_several_is_left_alone(tmp_path):
    device = dump(tmp_path / "d", "x/conv.npy", "y/conv.npy")
    golden = dump(tmp_path / "g", "z/conv.npy")
    assert not paired(device, golden).pairs


def test_one_tensor_against_one_is_a_pair_under_any_names(tmp_path):
    device, golden = dump(tmp_path, "mine.npy", "yours.npy"), tmp_path
    found = paired(device / "mine.npy", golden / "yours.npy")
    assert names(found) == ["mine | yours"]


@given(st.sets(st.sampled_from([f"t{n}" for n in range(12)])), st.sets(st.sampled_from("abc")))
def test_no_tensor_is_lost_or_taken_twice(tmp_path_factory, shared, own):
    root = tmp_path_factory.mktemp("pairs")
    if not shared and not own:
        return
    device = dump(root / "d", *(f"{name}.npy" for name in shared | own), "last.npy")
    golden = dump(root / "g", *(f"{name}.npy" for name in shared), "final.npy")
    found = paired(device, golden)
    seen = [pair.device.name for pair in found.pairs] + [t.name for t in found.device_only]
    assert sorted(seen) == sorted({*shared, *own, "last"})
    assert {pair.name for pair in found.pairs} == shared


def test_archives_give_their_arrays(tmp_path):
    values = {"conv/w": np.arange(24.0).reshape(2, 3, 4), "b": np.asfortranarray(np.eye(3))}
    np.savez(tmp_path / "stored.npz", **values)
    np.savez_compressed(tmp_path / "packed.npz", **values, big=np.zeros(300_000))
    for name in ("stored", "packed"):
        found = find_tensors(tmp_path / f"{name}.npz").tensors
        arrays = {tensor.name: read_array(tensor.ref) for tensor in found}
        for key, value in values.items():
            np.testing.assert_array_equal(arrays[f"{name}/{key}"], value)
    assert len(found) == 3


def test_damaged_archives_are_told(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(1000.0))
    whole = path.read_bytes()
    path.write_bytes(whole[:300])
    (tensor,) = find_tensors(path).tensors
    assert tensor.ref is None
    assert "no .npz archive" in tensor.damage
    path.write_bytes(whole.replace(b"\x93NUMPY", b"\x93NOTNP"))
    (tensor,) = find_tensors(path).tensors
    assert "magic is missing" in tensor.damage


def test_raw_files_take_type_and_shape_from_the_user_or_their_name(tmp_path):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    values.tofile(tmp_path / "x.bin")
    values.tofile(tmp_path / "y.3_4.float32.ND.bin")
    (tensor,) = find_tensors(tmp_path / "x.bin", RawForm(DType.FLOAT32, (3, 4))).tensors
    np.testing.assert_array_equal(read_array(tensor.ref), values)
    (tensor,) = find_tensors(tmp_path / "y.3_4.float32.ND.bin").tensors
    np.testing.assert_array_equal(read_array(tensor.ref), values)
    (tensor,) = find_tensors(tmp_path / "x.bin", RawForm(DType.FLOAT32, (5, 5))).tensors
    assert "25 elements of float32 take 100 bytes, the file has 48" in tensor.damage
    with pytest.raises(InputError, match="not a file with tensors"):
        find_tensors(tmp_path / "x.bin")


def test_elements_numpy_has_no_name_for_take_their_type_from_the_user(tmp_path):
    bits = np.array([0x3F80, 0x4000], np.uint16).view("V2")
    np.save(tmp_path / "b.npy", bits)
    (tensor,) = find_tensors(tmp_path / "b.npy", RawForm(DType.BFLOAT16)).tensors
    values, dtype = read_npy(tensor.path, tensor.ref.dtype)
    assert dtype is DType.BFLOAT16
    assert values.tolist() == [1.0, 2.0]


def test_msprobe_folders_are_read_by_the_names_of_their_calls(tmp_path):
    folder = tmp_path / "step0" / "rank0"
    (folder / "dump_tensor_data").mkdir(parents=True)
    np.save(folder / "dump_tensor_data" / "relu.npy", np.ones(3, np.float32))
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [3], "Max": 1.0, "Min": 0.0}
    (folder / "dump.json").write_text(
        json.dumps(
            {
                "data": {
                    "Functional.relu.0.forward": {
                        "input_args": [leaf],
                        "output": [{**leaf, "data_name": "relu.npy"}],
                    }
                }
            }
        )
    )
    found = find_tensors(tmp_path).tensors
    assert [tensor.name for tensor in found] == [
        "step0/rank0/Functional.relu.0.forward.input.0",
        "step0/rank0/Functional.relu.0.forward.output.0",
    ]
    assert found[0].ref.statistics.maximum == 1.0
    assert read_array(found[1].ref).tolist() == [1, 1, 1]


def test_links_out_of_the_folder_and_hidden_files_are_no_tensors(tmp_path):
    outside = dump(tmp_path / "out", "secret.npy")
    inside = dump(tmp_path / "in", "a.npy", ".hidden.npy")
    (inside / "link.npy").symlink_to(outside / "secret.npy")
    (inside / "folder").symlink_to(outside)
    assert [tensor.name for tensor in find_tensors(inside).tensors] == ["a"]


@pytest.mark.parametrize("what", ["missing", "text"])
def test_what_is_no_dump_is_said_in_one_line(tmp_path, what):
    path = tmp_path / "notes.txt"
    if what == "text":
        path.write_text("hello")
    with pytest.raises(InputError) as told:
        find_tensors(path)
    assert "\n" not in str(told.value)


def test_numbered_files_are_paired_by_their_long_names(tmp_path):
    device = dump(tmp_path / "d", "1704110400000000000000.npy", "b.0.1704110400000000.npy")
    golden = dump(tmp_path / "g", "1694250549000000000003.npy", "b.0.1694250549000000.npy")
    (device / "mapping.csv").write_text("1704110400000000000000.npy,a b.0.1704110400000000\n")
    (golden / "mapping.csv").write_text("1694250549000000000003.npy,a b.0.1694250549000000\n")
    (golden / "capture.json").write_text("{}")
    found = paired(device, golden)
    assert len(found.pairs) == 2
    assert find_tensors(golden).passed_over == 0
