"""Archives are named with the command that unpacks them, whoever was to read them."""

from __future__ import annotations

import shutil
import subprocess
import tarfile

import numpy as np
import pytest

from graphstore.errors import InputError
from graphstore.model import Framework, GraphKind, ModelGraph
from importers.archives import packed_note, refuse_archive, unpack_hint
from importers.dumps.detect import scan_dumps
from importers.registry import read_graph

NEEDED = {"w:xz": "xz", "w:bz2": "bzip2", "w:gz": "gzip", "w": "tar"}


@pytest.fixture
def array(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6.0))
    return tmp_path / "a.npy"


def unpack(path):
    """Do what the hint for *path* says."""
    command = unpack_hint(path).removeprefix("unpack it first: ")
    subprocess.run(["/bin/sh", "-c", command], check=True)


@pytest.mark.parametrize(
    ("ending", "mode"), [("tar", "w"), ("tgz", "w:gz"), ("tar.xz", "w:xz"), ("tar.bz2", "w:bz2")]
)
def test_the_command_for_a_tar_unpacks_it(tmp_path, array, ending, mode):
    if shutil.which(NEEDED[mode]) is None:
        pytest.skip(f"there is no {NEEDED[mode]}")
    packed = tmp_path / f"golden dump.{ending}"
    with tarfile.open(packed, mode) as archive:
        archive.add(array, "a.npy")
    unpack(packed)
    assert (tmp_path / "golden dump" / "a.npy").read_bytes() == array.read_bytes()


def test_the_command_for_a_single_file_unpacks_it_beside(tmp_path, array):
    subprocess.run([shutil.which("gzip"), "--keep", array], check=True)
    array.unlink()
    unpack(tmp_path / "a.npy.gz")
    assert np.array_equal(np.load(array), np.arange(6.0))


def test_what_was_wanted_is_said(tmp_path, array, divergraph):
    shutil.make_archive(str(tmp_path / "d"), "zip", tmp_path, "a.npy")
    packed = tmp_path / "d.zip"
    command = f"unzip {packed} -d {tmp_path / 'd'}"
    for words in (
        ("tensor", packed),
        ("dumps", packed),
        ("convert", "-d", packed, "-out", tmp_path / "out"),
        ("diff", packed, array),
        ("open", packed),
        ("logs", packed),
        ("replay", packed),
    ):
        done = divergraph(*words)
        assert (done.code, command in done.err) == (2, True), words


def test_no_archive_is_a_graph(tmp_path, array):
    shutil.make_archive(str(tmp_path / "model"), "gztar", tmp_path, "a.npy")
    with pytest.raises(InputError, match="gzip archive, not a graph") as refused:
        read_graph(tmp_path / "model.tar.gz")
    assert "tar -xf" in refused.value.hint


def test_a_folder_of_archives_alone_names_one(tmp_path, array, divergraph):
    (tmp_path / "dump").mkdir()
    shutil.make_archive(str(tmp_path / "dump" / "npu"), "gztar", tmp_path, "a.npy")
    done = divergraph("dumps", tmp_path / "dump")
    assert (done.code, "npu.tar.gz -C" in done.err) == (2, True)


def test_raw_values_that_begin_like_an_archive_are_none(tmp_path):
    raw = tmp_path / "x.bin"
    raw.write_bytes(b"\x1f\x8b\x08\0" + bytes(12))
    refuse_archive(raw, "raw values")
    assert unpack_hint(raw) == ""


def test_archives_among_dumps_are_told_of_until_they_are_unpacked(tmp_path, array, divergraph):
    folder = tmp_path / "a dump"
    folder.mkdir()
    for number in range(5):
        shutil.copy(array, folder / f"op{number}.0.170000000000000{number}.npy")
    for packed in list(folder.iterdir())[:2]:
        subprocess.run([shutil.which("gzip"), packed], check=True)
    note = packed_note(folder)
    assert note.startswith("2 of 5 files are archives, not read (unpack them first: find ")
    for words in (("dumps", folder), ("detect", folder), ("diff", folder, folder)):
        done = divergraph(*words)
        assert note in done.out + done.err, words
    graph = ModelGraph("g", GraphKind.ORIGINAL, Framework.ONNX, "onnx", ())
    assert note in scan_dumps(folder, graph).notes, "what compare says"
    subprocess.run(["/bin/sh", "-c", note.partition("first: ")[2][:-1]], check=True)
    assert len(list(folder.glob("*.npy"))) == 5
    assert packed_note(folder) == ""
