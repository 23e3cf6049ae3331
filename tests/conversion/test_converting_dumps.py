"""``divergraph convert -d``: names as msaccucmp writes them, values as the device had them."""

from __future__ import annotations

import json
import struct
import subprocess
import sys

import numpy as np
import pytest

from importers.layouts import from_layout

IMAGE = np.arange(1 * 3 * 4 * 5, dtype=np.float16).reshape(1, 3, 4, 5)


@pytest.fixture
def dump(tmp_path, write_dump, tensor, stamp):
    """One op with two inputs and an NC1HWC0 output, a buffer, and two workspaces."""
    blocked = from_layout(IMAGE, "NCHW", "NC1HWC0")
    return write_dump(
        tmp_path / "dump" / f"Conv2D.scope_conv.7.3.{stamp}",
        tensor(blocked, "NC1HWC0", (1, 3, 4, 5)),
        inputs=[np.ones((2, 3), np.float32), np.arange(4, dtype=np.int32)],
        op_name="scope/conv",
        buffers=[b"\1\2\3"],
        spaces=[b"printed by the op\n\0\0", b"\xff\xfe\0"],
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_npy_is_what_is_written_without_a_word(divergraph, dump, tmp_path):
    out = tmp_path / "out"
    done = divergraph("convert", "-d", dump, "-out", out)
    assert (done.code, done.out) == (0, f"{out}: 7 files of 1 dump file\n")
    name = dump.name
    assert names(out) == sorted(
        [
            f"{name}.input.0.npy",
            f"{name}.input.1.npy",
            f"{name}.output.0.npy",
            f"{name}.l1buffer.0.bin",
            f"{name}.space.0.bin",
            f"{name}.space.1.bin",
            f"{name}.0.log",
        ]
    )
    stored = np.load(out / f"{name}.output.0.npy")
    assert (stored.shape, stored.dtype) == ((1, 1, 4, 5, 16), np.float16)
    assert np.array_equal(np.load(out / f"{name}.input.1.npy"), np.arange(4))
    assert (out / f"{name}.l1buffer.0.bin").read_bytes() == b"\1\2\3"
    assert (out / f"{name}.space.0.bin").read_bytes() == b"printed by the op\n\0\0"
    assert (out / f"{name}.0.log").read_text() == "printed by the op\n"


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("npy", "{}.output.0.1x3x4x5.npy"),
        ("bin", "{}.output.0.1_3_4_5.float16.NCHW.bin"),
        ("txt", "{}.output.0.1x3x4x5.txt"),
        ("msnpy", "{}.output.0.NCHW.npy"),
    ],
)
def test_a_layout_is_undone_to_the_shape_the_dump_tells(
    divergraph, dump, tmp_path, stamp, form, written
):
    out = tmp_path / "out"
    done = divergraph("convert", "-d", dump, "-out", out, "-t", form, "-f", "NCHW", "-o", "0")
    assert done.code == 0
    name = f"Conv2D.conv.7.3.{stamp}" if form == "msnpy" else dump.name
    (path,) = out.iterdir()
    assert path.name == written.format(name)
    if form == "bin":
        found = np.frombuffer(path.read_bytes(), np.float16).reshape(IMAGE.shape)
    elif form == "txt":
        found = np.loadtxt(path, dtype=np.float16).reshape(IMAGE.shape)
    else:
        found = np.load(path)
    assert np.array_equal(found, IMAGE)


def test_names_of_bin_and_msnpy_without_a_layout(divergraph, dump, tmp_path, stamp):
    divergraph("convert", "-d", dump, "-out", tmp_path / "bin", "-t", "bin", "-i", "0")
    assert names(tmp_path / "bin") == [f"{dump.name}.input.0.2_3.float32.ND.bin"]
    divergraph("convert", "-d", dump, "-out", tmp_path / "ms", "-t", "msnpy", "-o", "0")
    assert names(tmp_path / "ms") == [f"Conv2D.conv.7.3.{stamp}.output.0.NC1HWC0.npy"]


def test_o_is_where_to_write_as_everywhere_and_a_number_is_what_msaccucmp_means(
    divergraph, dump, tmp_path
):
    assert divergraph("convert", "-d", dump, "-o", tmp_path / "out").code == 0
    assert f"{dump.name}.input.0.npy" in names(tmp_path / "out")
    old = divergraph("convert", "-d", dump, "-out", tmp_path / "old", "-o", "0")
    assert "read as --output-tensor 0" in old.err
    assert names(tmp_path / "old") == [f"{dump.name}.output.0.npy"]
    twice = divergraph("convert", "-d", dump, "-out", tmp_path / "old", "-o", tmp_path / "out")
    assert "both say where to write" in twice.err


def test_the_long_options_mean_the_same(divergraph, dump, tmp_path):
    out = tmp_path / "out"
    done = divergraph(
        *("convert", "--dump_file", dump, "--output", out, "--type", "npy", "--format", "NHWC"),
        *("--shape", "1,4,5,3", "--output_tensor", "0", "-v", "2"),
    )
    assert done.code == 0
    assert np.array_equal(
        np.load(out / f"{dump.name}.output.0.1x4x5x3.npy"), IMAGE.transpose(0, 2, 3, 1)
    )


def test_axes_the_dump_tells_in_another_order_are_found(
    divergraph, tmp_path, write_dump, tensor, stamp
):
    """A TensorFlow graph keeps NHWC shapes; asked for NCHW the values must follow."""
    blocked = from_layout(IMAGE, "NCHW", "NC1HWC0")
    path = write_dump(tmp_path / f"Relu.r.1.1.{stamp}", tensor(blocked, "NC1HWC0", (1, 4, 5, 3)))
    out = tmp_path / "out"
    assert divergraph("convert", "-d", path, "-out", out, "-f", "NCHW").code == 0
    assert np.array_equal(np.load(out / f"{path.name}.output.0.1x3x4x5.npy"), IMAGE)


@pytest.mark.parametrize("wanted", ["FRACTAL_Z", "NC1HWC0", "NHWC", "HWCN"])
def test_a_layout_can_be_made_too(divergraph, tmp_path, write_dump, tensor, stamp, wanted):
    path = write_dump(tmp_path / f"Const.w.1.1.{stamp}", tensor(IMAGE, "NCHW"))
    out = tmp_path / "out"
    assert divergraph("convert", "-d", path, "-out", out, "-f", wanted, "-t", "msnpy").code == 0
    found = np.load(out / f"{path.name}.output.0.{wanted}.npy")
    assert np.array_equal(found, from_layout(IMAGE, "NCHW", wanted))


def test_a_tensor_without_a_layout_stays_as_it_is(divergraph, dump, tmp_path):
    divergraph("convert", "-d", dump, "-out", tmp_path / "out", "-f", "NCHW", "-t", "bin")
    assert f"{dump.name}.input.0.2_3.float32.ND.bin" in names(tmp_path / "out")


def test_types_numpy_lacks_are_decoded(divergraph, tmp_path, write_dump, tensor, stamp):
    half = np.array([0x3F80, 0xC000], np.uint16).view(np.uint8)  # 1.0 and -2.0
    packed = np.array([0xF1], np.uint8)  # 1 and -1
    small = np.array([0x3C, 0xC0], np.uint8)  # 1.0 and -2.0 in E5M2
    path = write_dump(
        tmp_path / f"Cast.c.1.1.{stamp}",
        tensor(half, number=27, shape=(2,)),
        tensor(packed, number=28, shape=(2,)),
        tensor(small, number=34, shape=(2,)),
    )
    out = tmp_path / "out"
    assert divergraph("convert", "-d", path, "-out", out, "-t", "bin").code == 0
    assert names(out) == [
        f"{path.name}.output.0.2.float32.ND.bin",
        f"{path.name}.output.1.2.int8.ND.bin",
        f"{path.name}.output.2.2.float32.ND.bin",
    ]
    first, second, third = (path.read_bytes() for path in sorted(out.iterdir()))
    assert np.frombuffer(first, np.float32).tolist() == [1.0, -2.0]
    assert np.frombuffer(second, np.int8).tolist() == [1, -1]
    assert np.frombuffer(third, np.float32).tolist() == [1.0, -2.0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 3), (2, 1, 3), (0, 2, 3)])
def test_text_holds_every_digit(divergraph, tmp_path, write_dump, stamp, dtype, shape):
    random = np.random.default_rng(1)
    values = (random.standard_normal(shape) * 100).astype(dtype)
    path = write_dump(tmp_path / f"Add.a.1.1.{stamp}", values)
    out = tmp_path / "out"
    assert divergraph("convert", "-d", path, "-out", out, "-t", "txt").code == 0
    text = (out / f"{path.name}.output.0.txt").read_text()
    head, *lines = text.splitlines()
    assert head == f"# {dtype} {','.join(map(str, shape)) or 'scalar'}"
    numbers = [float(word) for line in lines for word in line.split()]
    assert np.array_equal(np.array(numbers).astype(dtype), values.reshape(-1))


def test_an_npy_file_becomes_bin_or_text(divergraph, tmp_path):
    path = tmp_path / "conv.0.1664180560000000.npy"
    np.save(path, np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)))
    out = tmp_path / "out"
    assert divergraph("convert", "-d", path, "-out", out, "-t", "bin").code == 0
    assert divergraph("convert", "-d", path, "-out", out, "-t", "txt").code == 0
    found = np.fromfile(out / "conv.0.1664180560000000.2_3.float32.ND.bin", np.float32)
    assert found.tolist() == [0, 1, 2, 3, 4, 5]
    assert np.loadtxt(out / "conv.0.1664180560000000.txt").shape == (2, 3)


def test_an_overflow_record_becomes_json(divergraph, tmp_path, write_dump, stamp):
    record = struct.pack("<6I", 0x5A5A5A5A, 0, 1, 2, 0, 64) + struct.pack("<8Q", *range(8))
    path = tmp_path / f"Opdebug.Node_OpDebug.9.8.{stamp}"
    write_dump(path, np.frombuffer(record, np.int8))
    out = tmp_path / "out"
    assert divergraph("convert", "-d", path, "-out", out).code == 0
    content = json.loads((out / f"{path.name}.output.0.json").read_text())
    assert content["acc_list"]["acc_type"] == "AICPU"
    assert content["acc_list"]["data"]["task_id"] == 2


def test_one_bad_file_does_not_stop_the_others(divergraph, dump, tmp_path, write_dump, stamp):
    folder = dump.parent
    cut = write_dump(folder / f"Add.cut.8.3.{stamp}", IMAGE, IMAGE)
    cut.write_bytes(cut.read_bytes()[:-10])
    (folder / "notes.txt").write_text("no dump\n")
    out = tmp_path / "out"
    done = divergraph("convert", "-d", folder, "-out", out)
    assert done.code == 2
    listed = (out / "convert_failed_file_list.txt").read_text().splitlines()
    assert [line.split("\t")[0] for line in listed] == [str(cut), str(folder / "notes.txt")]
    assert "output 1: " in listed[0]
    assert "the file is cut" in listed[0]
    assert all(line.partition("\t")[0] in done.err for line in listed)
    # What is whole of the cut file is there, and everything of the good one.
    assert f"{cut.name}.output.0.npy" in names(out)
    assert f"{dump.name}.output.0.npy" in names(out)
    cut.unlink()
    (folder / "notes.txt").unlink()
    assert divergraph("convert", "-d", folder, "-out", out).code == 0
    assert "convert_failed_file_list.txt" not in names(out)


def test_a_list_of_files(divergraph, tmp_path, write_dump, stamp):
    paths = [write_dump(tmp_path / str(n) / f"Add.a{n}.1.1.{stamp}", IMAGE) for n in (1, 2)]
    again = write_dump(tmp_path / "3" / paths[0].name, IMAGE)
    out = tmp_path / "out"
    given = ",".join(map(str, [*paths, again]))
    done = divergraph("convert", "-d", given, "-out", out, "--json")
    assert done.code == 2
    assert len(done.json["written"]) == 2
    (failed,) = done.json["failed"]
    assert failed["path"] == str(again)
    assert "same name" in failed["reason"]


def test_a_long_name_is_told_in_mapping_csv(divergraph, tmp_path, write_dump, stamp):
    path = write_dump(tmp_path / f"Add.{'a' * 217}.1.1.{stamp}", IMAGE)
    out = tmp_path / "out"
    for _ in range(2):
        assert divergraph("convert", "-d", path, "-out", out).code == 0
    short, full = (out / "mapping.csv").read_text().strip().split(",")
    assert full == f"{path.name}.output.0.npy"
    assert np.array_equal(np.load(out / short), IMAGE)
    assert len(short) == 36


def test_an_index_the_file_has_not(divergraph, dump, tmp_path):
    done = divergraph("convert", "-d", dump, "-out", tmp_path / "out", "-o", "4")
    assert done.code == 2
    assert "no output 4: the file has 1 output" in done.err


def test_a_shape_that_does_not_fit(divergraph, dump, tmp_path):
    out = tmp_path / "out"
    done = divergraph("convert", "-d", dump, "-out", out, "-f", "NCHW", "-s", "1,99,4,5", "-o", "0")
    assert done.code == 2
    assert "cannot become NCHW of shape [1,99,4,5]" in done.err
    assert names(out) == ["convert_failed_file_list.txt"]


HOSTILE = ["../../escape", "..", "a\0b", "/", "x/..", "new\nline", "\ud800"]


@pytest.mark.parametrize("op_name", HOSTILE)
def test_a_name_out_of_the_file_never_leaves_the_folder(
    divergraph, tmp_path, write_dump, stamp, op_name
):
    folder = tmp_path / "in"
    path = write_dump(
        folder / f"Add.a.1.1.{stamp}", IMAGE, op_name=op_name.encode("utf-8", "replace").decode()
    )
    out = tmp_path / "deep" / "out"
    assert divergraph("convert", "-d", path, "-out", out, "-t", "msnpy").code == 0
    (written,) = out.iterdir()
    assert written.name.isprintable()
    assert sorted(names(tmp_path)) == ["deep", "in"]
    assert names(tmp_path / "deep") == ["out"]


def test_a_link_in_the_folder_is_not_followed(divergraph, dump, tmp_path):
    out, outside = tmp_path / "out", tmp_path / "precious"
    outside.write_text("mine")
    out.mkdir()
    (out / f"{dump.name}.output.0.npy").symlink_to(outside)
    done = divergraph("convert", "-d", dump, "-out", out)
    assert done.code == 2
    assert "something that is not a file has this name" in done.err
    assert outside.read_text() == "mine"


FULL = """
import resource, sys
from divergraph.cli.main import run
sys.dont_write_bytecode = True  # cut modules would be kept
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize("form", ["npy", "bin", "txt"])
def test_a_full_disk_leaves_nothing_half_written(tmp_path, write_dump, stamp, form):
    folder, out = tmp_path / "in", tmp_path / "out"
    big = write_dump(folder / f"Add.big.1.1.{stamp}", np.ones(5000, np.float32))
    write_dump(folder / f"Add.little.1.1.{stamp}", np.ones(5, np.float32))
    out.mkdir()
    old = out / f"{big.name}.output.0.npy"
    old.write_bytes(b"an earlier one")
    command = [sys.executable, "-c", FULL, "convert", "-d", folder, "-out", out, "-t", form]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "File too large" in done.stderr
    assert old.read_bytes() == b"an earlier one"
    kept = [name for name in names(out) if name != old.name]
    assert [name.partition(".1.1.")[0] for name in kept] == [
        "Add.little",
        "convert_failed_file_list.txt",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-d", "gone", "-out", "out"], "gone: no such file or folder"),
        (["-d", "ge.txt", "-out", "out"], "this is a graph, no dump"),
        (["-d", "empty", "-out", "out"], "no dump files in this folder"),
        (["-d", "dump", "-out", "out", "-t", "dot"], "-t dot is for graphs"),
        (["-d", "dump", "-out", "out", "-t", "pt"], "'pt' is not one of"),
        (["-d", "dump", "-out", "out", "-f", "NCWH"], "no layout named 'NCWH'"),
        (["-d", "dump", "-out", "out", "-s", "1,2"], "-s needs -f"),
        (["-d", "dump", "-out", "out", "-f", "ND", "-s", "1,x"], "'1,x' is not a shape"),
        (["-d", "dump", "-out", "out", "-f", "ND", "-s", "1,0"], "every size must be 1 or more"),
        (["-d", "dump", "-out", "ge.txt"], "there is a file in the place of this folder"),
        (["-d", "dump", "-out", "ge.txt/below"], "there is a file in the place of this folder"),
        (["-d", "dump", "-out", "out", "-i", "-1"], "-1 is not in the range"),
        (["-d", "dump", "-out", "out", "--side", "golden"], "--side and --store are for graphs"),
        (["-d", ",", "-out", "out"], "-d names no file"),
        (["-d", "a\0b", "-out", "out"], "no such file or folder"),
        (["-out", "out"], "nothing to convert"),
        (["graph", "-d", "dump"], "a graph and dumps at once"),
    ],
)
def test_bad_input_is_one_line(
    divergraph, tmp_path, monkeypatch, dump, text_model, arguments, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ge.txt").write_bytes(text_model.read_bytes())
    (tmp_path / "empty").mkdir()
    done = divergraph("convert", *arguments)
    assert done.code == 2
    assert words in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


@pytest.mark.shared
def test_the_autoencoder_dump_in_the_golden_layout(divergraph, shared_data, tmp_path):
    """Device values undone to NHWC lie close to those TensorFlow computed."""
    dumps = shared_data / "dumps" / "autoencoder_hh"
    out = tmp_path / "out"
    done = divergraph("convert", "-d", dumps / "npu_dump", "-out", out, "-f", "NHWC", "--json")
    assert (done.code, done.json["failed"]) == (0, [])
    assert len(done.json["written"]) == 27
    (device,) = out.glob("Sigmoid*.output.0.*.npy")
    assert np.load(device).shape == (100, 28, 28, 1)


@pytest.mark.shared
def test_every_device_dump_of_lenet(divergraph, shared_data, tmp_path):
    root = shared_data / "tf_lenet_train" / "npu_clean" / "dump"
    (folder,) = {path.parent for path in root.rglob("*") if path.is_file()}
    for form in ("npy", "bin", "msnpy"):
        done = divergraph("convert", "-d", folder, "-out", tmp_path / form, "-t", form, "--json")
        assert (done.code, len(done.json["written"])) == (0, 130)
