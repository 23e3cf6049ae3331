"""The layouts precision_tool keeps its data in, as ``detect`` and its commands see them."""

from __future__ import annotations

import shutil

import pytest

from divergraph.api.files.data_folder import data_folder
from divergraph.inputs.data_folder import data_folder as data_folder_at
from graphstore.errors import InputError


def test_all_parts_are_found(divergraph, data):
    found = divergraph("detect", data, "--json").json["paths"][0]["data_folder"]
    assert found["golden_graph"] == str(data / "tf" / "graph" / "model.ckpt.meta")
    assert found["golden_dump"] == str(data / "tf" / "dump")
    (device,) = found["devices"]
    assert device["graph"] == str(data / "npu" / "debug_0" / "graph")
    assert device["dump"] == str(data / "npu" / "debug_0" / "dump" / "20220926160240")
    assert found["missing"] == []
    said = divergraph("detect", data).out
    assert f"{data}: a data folder of precision_tool\n" in said
    assert f"precision-tool --data {data} ac -c" in said


def test_a_folder_of_graphs_is_none(divergraph, data, tmp_path):
    shutil.copytree(data / "npu" / "debug_0" / "graph", tmp_path / "mine" / "graph")
    assert data_folder_at(tmp_path / "mine") is None
    assert "data folder" not in divergraph("detect", tmp_path / "mine").out


def test_the_newest_dump_and_the_last_session_are_taken(data):
    newest = data / "npu" / "debug_0" / "dump" / "20230101000000"
    newest.mkdir()
    shutil.rmtree(data / "tf" / "dump")
    for session in ("run_1", "run_2"):
        (data / "tf" / "tf_debug" / session).mkdir(parents=True)
    found = data_folder(data)
    assert found.device.dump == newest
    assert found.golden_dump == data / "tf" / "tf_debug" / "run_2"


def test_the_older_layout_is_known(data):
    (data / "graph").mkdir()
    (data / "dump").mkdir()
    (data / "npu" / "debug_0" / "graph").rename(data / "graph" / "all")
    (data / "npu" / "debug_0" / "dump").rename(data / "dump" / "npu")
    (data / "tf" / "dump").rename(data / "dump" / "cpu")
    found = data_folder(data)
    assert found.missing == ()
    assert found.device.graph == data / "graph" / "all"
    assert found.golden_dump == data / "dump" / "cpu"


def test_what_is_missing_is_said(divergraph, data, tmp_path):
    (data / "tf" / "graph" / "model.ckpt.meta").unlink()
    missing = "still missing: the golden graph (a .meta or .pb in tf/graph)"
    assert missing in divergraph("detect", data).out
    done = divergraph("precision-tool", "--data", data, "vc")
    assert (done.code, missing in done.err) == (2, True)
    with pytest.raises(InputError, match="not laid out"):
        data_folder(tmp_path)
