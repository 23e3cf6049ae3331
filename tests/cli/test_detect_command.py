"""``divergraph detect`` says what a path is, whatever its name."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from device_alone import MODEL, write_device

from divergraph.api.demo import demo_data
from importers.proto.messages import caffe_pb2


@pytest.fixture
def model(tmp_path):
    from onnx import TensorProto, helper, save_model

    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    node = helper.make_node("Relu", ["x"], ["y"], "relu")
    path = tmp_path / "models" / "holiday.png"
    path.parent.mkdir()
    save_model(helper.make_model(helper.make_graph([node], "g", [value], [end])), str(path))
    return path


def msprobe_run(folder, call="Torch.relu.0.forward"):
    folder.mkdir(parents=True)
    content = {"task": "statistics", "level": "mix", "framework": "pytorch", "data": {call: {}}}
    (folder / "dump.json").write_text(json.dumps(content))


def test_a_graph_under_a_lying_name(divergraph, model):
    done = divergraph("detect", model)
    assert done.code == 0
    assert f"{model}: graph, onnx (sure: " in done.out


def test_a_folder_lists_its_graphs_and_the_dumps_below(divergraph, model):
    (model.parent / "net.prototxt").write_text('layer { name: "a" type: "ReLU" top: "b" }\n' * 3)
    (model.parent / "notes.txt").write_text("nothing\n")
    dump = model.parent / "out" / "rank_3" / "net" / "0" / "2"
    dump.mkdir(parents=True)
    np.save(dump / "relu.0.1700000000.npy", np.zeros(3))
    (found,) = divergraph("detect", model.parent, "--json").json["paths"]
    assert {(each["path"], each["format"]) for each in found["graphs"]} == {
        (str(model), "onnx"),
        (str(model.parent / "net.prototxt"), "caffe"),
    }
    assert [(each["kind"], each["rank"], each["step"]) for each in found["dumps"]] == [
        ("npy", "3", "2")
    ]
    assert (found["problem"], found["passed_over"]) == (None, 0)


def test_steps_and_ranks_are_listed(divergraph, tmp_path):
    for step in (0, 1):
        msprobe_run(tmp_path / f"step{step}" / "rank4")
    done = divergraph("detect", tmp_path)
    assert "graph, msprobe (sure: 2 folders with a dump.json)" in done.out
    assert "rank 4, step 0 (sure" in done.out
    assert "rank 4, step 1 (sure" in done.out


def test_every_path_that_is_neither_has_one_line_and_code_2(divergraph, model, tmp_path):
    pipe, empty, picture = tmp_path / "pipe", tmp_path / "empty", tmp_path / "a.onnx"
    os.mkfifo(pipe)
    empty.mkdir()
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    done = divergraph("detect", pipe, empty, picture, tmp_path / "missing", model)
    assert done.code == 2
    lines = done.out.splitlines()
    assert len(lines) == 5
    assert "neither a file nor a folder" in lines[0]
    assert "the folder is empty" in lines[1]
    assert "a PNG picture, not a graph" in lines[2]
    assert "no such file" in lines[3]


def test_the_documented_fields(divergraph, model):
    (found,) = divergraph("detect", model, "--json").json["paths"]
    assert set(found) == {"path", "graphs", "dumps", "problem", "passed_over", "data_folder"}
    assert set(found["graphs"][0]) == {"path", "format", "sure", "reason"}


def test_a_single_dumped_tensor(divergraph, tmp_path):
    path = tmp_path / "conv.0.1700000000.npy"
    np.save(path, np.zeros((2, 3)))
    done = divergraph("detect", path)
    assert done.code == 0
    assert "dump, npy, 1 file (sure: conv.0.1700000000.npy is a .npy file of shape [2, 3])" in (
        done.out
    )


def test_a_damaged_tensor_file_is_none(divergraph, tmp_path):
    path = tmp_path / "conv.0.1700000000.npy"
    path.write_bytes(b"\x93NUMPY cut")
    assert divergraph("detect", path).code == 2


PAIR = {"golden", "device", "shared", "ops"}
SIDE = {"graph", "dump", "tensors"}


def test_pairs_of_a_training_step_on_a_device(divergraph):
    folder = demo_data().folder
    (found,) = divergraph("detect", "--pairs", folder, "--json").json["paths"]
    assert [set(pair) for pair in found["pairs"]] == [PAIR, PAIR]
    for pair, device in zip(found["pairs"], ("npu_clean", "npu_fault"), strict=True):
        assert (pair["shared"], pair["ops"]) == (149, 164)
        assert set(pair["golden"]) == set(pair["device"]) == SIDE
        assert pair["golden"]["graph"] == str(folder / "model.ckpt.meta")
        assert pair["golden"]["dump"] == str(folder / "golden")
        assert pair["device"]["graph"] == str(folder / device / "graph")
        assert pair["device"]["dump"].startswith(str(folder / device / "dump"))
    assert (found["graphs"], found["dumps"], found["cut"]) == (3, 3, None)
    text = divergraph("detect", "--pairs", folder).out
    assert text.startswith("149 of 164 ops fit\n  --golden ")


def test_pairs_of_a_model_and_its_stand_in(divergraph, model):
    root = model.parent
    for device in ("fp32", "fp16"):
        words = ("--random", 1, "-o", root / device, "--device", device)
        assert divergraph("capture", model, *words).code == 0
    (root / "broken.onnx").write_bytes(b"\x08\x07" + bytes(50))
    (root / ".hidden").mkdir()
    (root / "loop").symlink_to(root)
    (found,) = divergraph("detect", "--pairs", root, "--json").json["paths"]
    (pair,) = found["pairs"]
    assert pair["golden"]["graph"] == str(model)
    assert pair["golden"]["dump"] == str(root / "fp32")
    assert pair["device"]["dump"] == str(root / "fp16")


def test_pairs_where_all_lies_in_one_folder_in_several_steps(divergraph, tmp_path):
    (tmp_path / "net.onnx").write_bytes(onnx.parser.parse_model(MODEL).SerializeToString())
    graph, dump = write_device(tmp_path)
    graph.with_name("ge_onnx_00001_Build.pbtxt").write_text(
        'producer_name: "GE" graph { node { name: "relu" op_type: "ge:Relu" output: "relu:0" } }'
    )
    x = np.ones((2, 3), np.float32)
    np.save(dump / "Cast.trans_Cast_0.1.1.1795727148374619.output.0.npy", x)
    for step in ("5", "10"):
        shutil.copytree(dump, tmp_path / "npu_steps" / step)
        (tmp_path / "golden" / step).mkdir(parents=True)
        for op in ("relu", "neg"):
            np.save(tmp_path / "golden" / step / f"{op}.0.1795786592000000.npy", x)
    shutil.rmtree(dump)
    (found,) = divergraph("detect", "--pairs", tmp_path, "--json").json["paths"]
    for pair, step in zip(found["pairs"], ("5", "10"), strict=False):
        assert (pair["device"]["graph"], Path(pair["golden"]["graph"]).name) == (
            str(tmp_path),
            "net.onnx",
        )
        assert pair["device"]["dump"] == str(tmp_path / "npu_steps" / step)
        assert pair["golden"]["dump"] == str(tmp_path / "golden" / step)


def test_a_caffe_net_s_weights_are_no_net_of_their_own(divergraph, tmp_path):
    layer = 'layer { name: "r" type: "ReLU" bottom: "x" top: "r" }'
    (tmp_path / "net.prototxt").write_text(f'name: "n" input: "x" input_dim: 2 {layer}')
    relu = caffe_pb2.LayerParameter(name="r", type="ReLU", bottom=["x"], top=["r"])
    kept = relu.SerializeToString()
    trained = b"\x0a\x01n" + b"\xa2\x06" + bytes([len(kept)]) + kept
    (tmp_path / "trained.caffemodel").write_bytes(trained)
    for dump in ("golden", "npu1", "npu2"):
        (tmp_path / dump).mkdir()
        np.save(tmp_path / dump / "r.0.1795779790394595.npy", np.ones(2, np.float32))
    (found,) = divergraph("detect", "--pairs", tmp_path, "--json").json["paths"]
    assert {Path(pair["golden"]["graph"]).name for pair in found["pairs"]} == {"net.prototxt"}
    assert [Path(pair["device"]["dump"]).name for pair in found["pairs"]] == ["npu1", "npu2"]


def test_where_nothing_fits_and_where_the_time_is_over(divergraph, model):
    done = divergraph("detect", "--pairs", model.parent)
    assert done.code == 2
    assert "1 graph and 0 dumps, of which no two sides fit together" in done.out
    done = divergraph("detect", "--pairs", demo_data().folder, "--seconds", "1e-6")
    assert done.code == 2
    assert "there may be more: the time was over" in done.err
    assert divergraph("detect", "--pairs", model).code == 2, "a file is no folder"


def test_whatever_diff_reads_is_known(divergraph, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones(3), y=np.ones(2))
    np.ones(4, np.float32).tofile(tmp_path / "x.2_2.float32.ND.bin")
    done = divergraph("detect", tmp_path / "a.npz", tmp_path)
    assert done.code == 0
    assert "a.npz: dump, npz, 1 file (sure: a.npz holds 2 tensors; diff reads it)" in done.out
    assert "dump, raw, 1 file" in done.out


def test_a_list_of_fusion_passes_alone_says_what_it_lists(divergraph, tmp_path):
    file = tmp_path / "fusion_result.json"
    passes = {"APass": {"match_times": "3", "effect_times": "2"}}
    file.write_text(json.dumps({"session_and_graph_id": "0_1", "graph_fusion": passes}))
    done = divergraph("detect", file)
    assert done.code == 2
    assert "1 of 1 passes took effect in 1 graph: APass: 2 of 3" in done.out


def test_everything_that_can_be_read_is_listed(divergraph, tmp_path):
    found = json.loads(divergraph("detect", "--formats", "--json").out)
    assert {"onnx", "mindspore", "om"} <= set(found["graphs"])
    assert {"ascend", "tfdbg", "torch"} <= set(found["dumps"])
    strange = tmp_path / "strange"
    strange.write_text("abc")
    done = divergraph("detect", strange)
    assert done.code == 2
    assert "divergraph detect --formats" in done.out


def test_a_recorded_run_is_graph_and_dump(divergraph, model):
    said = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}
    said |= {"Max": 3.5, "Min": 1.5, "Mean": 2.5, "Norm": 4.0}
    call = {"input_args": [said], "output": [said]}
    head = {"task": "statistics", "level": "L1", "framework": "pytorch"}
    for side in ("golden", "device"):
        folder = model.parent / side
        folder.mkdir()
        content = head | {"data": {"Torch.relu.0.forward": call}}
        (folder / "dump.json").write_text(json.dumps(content))
    sides = ("--golden", model.parent / "golden", "--device", model.parent / "device" / "dump.json")
    done = divergraph("compare", *sides, "--json")
    assert (done.code, done.json["verdict"]) == (0, "clean")
    refused = divergraph("compare", "--golden", model, *sides[2:])
    assert (refused.code, "--golden-dump is missing" in refused.err) == (2, True)
