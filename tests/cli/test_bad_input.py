"""Bad input is one line with the place, exit code 2, and nothing in the store."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import click
import numpy as np
import pytest

from divergraph.cli.main import cli

pytestmark = pytest.mark.thorough

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 64


@pytest.fixture
def store(tmp_path) -> Path:
    return tmp_path / "store"


def refused(ended, store: Path, *words: object) -> None:
    assert ended.code == 2, ended
    assert len(ended.err.strip().splitlines()) == 1, ended.err
    assert ended.out == ""
    for word in words:
        assert str(word) in ended.err
    assert "Traceback" not in ended.err
    assert not store.exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.onnx", b""),
        ("empty.pb", b""),
        ("ge_proto_00000001_Build.txt", b""),
        ("picture.onnx", PNG),
        ("picture.pb", PNG),
        ("picture.png", PNG),
        ("archive.onnx", b"PK\x03\x04" + b"\0" * 64),
        ("words.txt", b"hello, this is no graph\n"),
        ("table.csv", b"a,b\n1,2\n"),
        ("noise.onnx", bytes(range(256)) * 8),
        ("noise.pb", bytes(range(255, -1, -1)) * 8),
        ("array.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'}"),
    ],
)
def test_a_file_that_is_no_graph(divergraph, tmp_path, store, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    refused(divergraph("import", path, "--store", store), store, path)


def test_a_missing_file_and_an_empty_folder(divergraph, tmp_path, store):
    refused(divergraph("import", tmp_path / "gone.onnx", "--store", store), store, "gone.onnx")
    folder = tmp_path / "empty"
    folder.mkdir()
    refused(divergraph("import", folder, "--store", store), store, folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(divergraph, tmp_path, store):
    path = tmp_path / "secret.onnx"
    path.write_bytes(b"x")
    path.chmod(0)
    refused(divergraph("import", path, "--store", store), store, path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("option", ["golden", "golden_dump", "device", "device_dump"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_paths_of_compare_that_may_not_be_read(
    divergraph, compare_lenet, tmp_path, store, option, kind
):
    path = tmp_path / "secret"
    path.mkdir() if kind == "folder" else path.write_bytes(b"x")
    path.chmod(0)
    ended = divergraph(*swapped(compare_lenet(), **{option: path}), "--store", store)
    path.chmod(0o700)
    refused(ended, store, path)


def test_paths_are_read_by_the_readers_which_say_what_is_wrong_in_one_line():
    for name in ("compare", "import", "export"):
        command = cli.get_command(click.Context(cli), name)
        paths = [each.type for each in command.params if isinstance(each.type, click.Path)]
        assert paths
        assert not any(path.readable or path.exists for path in paths), name


@pytest.mark.parametrize("share", [0.1, 0.37, 0.5, 0.9, 0.999])
def test_a_truncated_build_graph_names_the_line(divergraph, lenet, tmp_path, store, share):
    whole = next((lenet / "npu_fault" / "graph").iterdir()).read_bytes()
    path = tmp_path / "ge_proto_00000001_Build.txt"
    path.write_bytes(whole[: int(len(whole) * share)])
    refused(divergraph("import", path, "--store", store), store, f"{path}:")


def swapped(arguments: list[str], **paths: object) -> list[str]:
    changed = list(arguments)
    for option, path in paths.items():
        changed[changed.index("--" + option.replace("_", "-")) + 1] = str(path)
    return changed


def test_dump_folders_that_do_not_fit(divergraph, compare_lenet, tmp_path, store):
    empty = tmp_path / "empty"
    empty.mkdir()
    other = tmp_path / "other"
    other.mkdir()
    np.save(other / "nothing_of_this_graph.0.1664180551000000.npy", np.zeros(3))
    a_file = tmp_path / "file"
    a_file.write_text("x")
    for option in ("golden_dump", "device_dump"):
        for folder in (empty, other, a_file, tmp_path / "gone"):
            arguments = swapped(compare_lenet(), **{option: folder})
            words = ("no dump files in this folder",) if folder is empty else ()
            refused(divergraph(*arguments, "--store", store), store, folder, *words)


def test_sides_given_the_wrong_way_round_are_noticed(divergraph, lenet, store):
    device = lenet / "npu_fault"
    ended = divergraph(
        *("compare", "--golden", device / "graph", "--golden-dump", device / "dump"),
        *("--device", lenet / "model.ckpt.meta", "--device-dump", lenet / "golden"),
        *("--store", store, "--method", "thresholds"),
    )
    assert (ended.code, ended.out) == (2, "")
    assert "the sides are exchanged" in ended.err
    assert "exchange --golden with --device, and --golden-dump with --device-dump" in ended.err


def test_dumps_alone_given_the_wrong_way_round_are_no_comparison(divergraph, lenet, store):
    device = lenet / "npu_fault"
    ended = divergraph(
        *("compare", "--golden", lenet / "model.ckpt.meta", "--golden-dump", device / "dump"),
        *("--device", device / "graph", "--device-dump", lenet / "golden"),
        *("--store", store, "--json", "--method", "thresholds"),
    )
    assert (ended.code, ended.out) == (2, "")
    assert "the dumps are exchanged" in ended.err
    assert "exchange --golden-dump and --device-dump" in ended.err


def test_graphs_alone_given_the_wrong_way_round_are_no_comparison(divergraph, lenet, store):
    device = lenet / "npu_fault"
    graph = next((device / "graph").iterdir())
    ended = divergraph(
        *("compare", "--golden", graph, "--golden-dump", lenet / "golden"),
        *("--device", lenet / "model.ckpt.meta", "--device-dump", device / "dump"),
        *("--store", store, "--method", "thresholds"),
    )
    assert ended.code == 2
    assert "exchange --golden and --device, and leave the dumps as they are" in ended.err


def test_a_graph_of_the_folder_can_be_named_as_it_is_there(divergraph, compare_lenet, store):
    name = "ge_proto_00000343_graph_61_Build.txt"
    ended = divergraph(*compare_lenet(), "--device-graph", name, "--store", store)
    assert ended.code == 1


def test_graphs_that_are_none(divergraph, compare_lenet, tmp_path, store):
    picture = tmp_path / "graph.pb"
    picture.write_bytes(PNG)
    for option in ("golden", "device"):
        for path in (picture, tmp_path / "gone"):
            arguments = swapped(compare_lenet(), **{option: path})
            refused(divergraph(*arguments, "--store", store), store, path)


def test_options_that_cannot_be(divergraph, compare_lenet, tmp_path, store):
    limits = tmp_path / "limits.toml"
    limits.write_text("cosine_similarty = 0.9\n")
    arguments = [*compare_lenet(), "--store", store]
    refused(divergraph(*arguments, "--thresholds", limits), store, limits, "cosine_similarity")
    refused(divergraph(*arguments, "--csv", tmp_path / "no" / "x.csv"), store, "no such folder")
    refused(divergraph(*arguments, "--csv", tmp_path), store, tmp_path, "it is a folder")
    refused(divergraph(*arguments, "--run", "../x"), store, "../x")
    assert divergraph("compare", "--golden", "x").code == 2


def copied(lenet: Path, tmp_path: Path) -> tuple[Path, Path]:
    golden, device = tmp_path / "golden", tmp_path / "device"
    shutil.copytree(lenet / "golden", golden)
    shutil.copytree(lenet / "npu_fault" / "dump", device)
    return golden, device


def one(folder: Path, pattern: str) -> Path:
    return next(iter(sorted(folder.rglob(pattern))))


@pytest.mark.slow
def test_damaged_dumps_cost_one_tensor_each_and_are_counted(
    divergraph, compare_lenet, lenet, tmp_path, store
):
    golden, device = copied(lenet, tmp_path)
    whole = divergraph(*compare_lenet(), "--store", tmp_path / "first", "--json").json
    cut = one(device, "*.LeNet_pool1_MaxPool.*")
    cut.write_bytes(cut.read_bytes()[:-100])
    garbage = one(device, "*.LeNet_fc4_MatMul.*")
    garbage.write_bytes(b"\xff" * 40)
    lying = one(device, "*.LeNet_fc5_MatMul.*")
    lying.write_bytes(struct.pack("<Q", 2**60) + lying.read_bytes()[8:])
    objects = one(golden, "LeNet_conv1_Relu.0.*")
    np.save(objects, np.array([{}, []], dtype=object), allow_pickle=True)
    short = one(golden, "gradients_AddN.0.*")
    short.write_bytes(short.read_bytes()[:-8])
    wrong_size = one(golden, "gradients_AddN_1.0.*")
    np.save(wrong_size, np.zeros((3, 5, 7), dtype=np.float32))
    empty = one(golden, "gradients_AddN_2.0.*")
    empty.write_bytes(b"")
    arguments = swapped(compare_lenet(), golden_dump=golden, device_dump=device)
    ended = divergraph(*arguments, "--store", store, "--json")
    assert ended.code == 1
    report = ended.json
    reasons = {item["op"]: item["reason"] for item in report["not_compared"]}
    assert {
        "LeNet/pool1/MaxPool": "unreadable_dump",
        "LeNet/fc4/MatMul": "unreadable_dump",
        "LeNet/fc5/MatMul": "unreadable_dump",
        "gradients/AddN": "unreadable_dump",
        "gradients/AddN_1": "shape_mismatch",
        "gradients/AddN_2": "unreadable_dump",
    }.items() <= reasons.items()
    assert reasons["LeNet/conv1/Conv2DRelu"] in ("dtype_unsupported", "unreadable_dump")
    assert report["counts"]["compared"] == whole["counts"]["compared"] - 7
    assert report["counts"]["not_compared"] == whole["counts"]["not_compared"] + 7
    assert report["origins"][0]["op"] == "LeNet/conv2/Conv2DRelu"


def test_nothing_comparable_exits_2_and_keeps_nothing(
    divergraph, compare_lenet, lenet, tmp_path, store
):
    golden = tmp_path / "golden"
    golden.mkdir()
    shutil.copy(one(lenet / "golden", "global_step*"), golden)
    arguments = swapped(compare_lenet(), golden_dump=golden)
    ended = divergraph(*arguments, "--store", store, "--json")
    assert ended.code == 2
    assert ended.json["verdict"] == "not_compared"
    assert ended.json["run"] is None
    assert ended.json["counts"]["compared"] == 0
    said = divergraph(*arguments, "--store", store, "--run", "mine")
    assert said.out.startswith("mine: not compared: nothing could be compared")
    assert not store.exists()


def test_a_zero_size_tensor_does_not_stop_the_run(
    divergraph, compare_lenet, lenet, tmp_path, store
):
    golden, _ = copied(lenet, tmp_path)
    np.save(one(golden, "gradients_AddN_3.0.*"), np.zeros((0, 4), dtype=np.float32))
    ended = divergraph(*swapped(compare_lenet(), golden_dump=golden), "--store", store, "--json")
    assert ended.code == 1
    reasons = {item["op"]: item["reason"] for item in ended.json["not_compared"]}
    assert reasons["gradients/AddN_3"] == "shape_mismatch"


def test_a_store_that_is_a_file_is_trouble_with_the_store(divergraph, compare_lenet, tmp_path):
    store = tmp_path / "file"
    store.write_text("x")
    ended = divergraph(*compare_lenet(), "--store", store)
    assert ended.code == 3
    assert str(store) in ended.err
    assert store.read_text() == "x"
