"""Training scripts started to dump, and the configurations that make devices dump."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from divergraph import tf_config
from divergraph.api.files.job_setup import JobAction, ScriptJob
from divergraph.job_setup.actions import environment


def test_a_script_of_precision_tools_dumps_and_is_compared(divergraph, data, training):
    for name in ("graph", "dump"):
        shutil.rmtree(data / "npu" / "debug_0" / name)
    at = ("--data", data, "--store", data.parent / "store")
    done = divergraph("npu-dump", *at, *training)
    assert done.code == 1
    assert "kept as precision_data" in done.err
    found = divergraph("origins", "precision_data", *at[2:], "--json").json
    assert [each["op"] for each in found["origins"]] == ["LeNet/conv2/Conv2DRelu"]


def test_a_script_started_by_itself_does_not_dump(data, training, monkeypatch):
    monkeypatch.delenv(tf_config.ACTION, raising=False)
    assert tf_config.estimator_settings() == {}
    assert tf_config.session_settings() == {}


def test_the_op_that_overflowed_is_named(divergraph, tmp_path, training, overflowed):
    done = divergraph("npu-overflow", "--data", tmp_path / "new", "--json", *training)
    assert done.code == 1
    ops = {each["op"] for each in done.json["findings"]}
    assert "LeNet/conv2/Conv2DRelu" in ops
    assert "float32 or int32 to float16" in done.out


def test_no_overflow_is_no_finding(divergraph, tmp_path, training):
    done = divergraph("npu-overflow", "--data", tmp_path / "new", *training)
    assert (done.code, "an overflow dump: none was written" in done.err) == (0, True)
    waits = divergraph("npu-overflow", "--data", tmp_path / "new", "--json", *training).json
    assert waits["missing"] == ["an overflow dump: none was written"]


def test_a_script_that_fails_is_no_comparison(divergraph, tmp_path):
    at = ("--data", tmp_path / "new")
    done = divergraph("npu-dump", *at, f"{sys.executable} -c 'raise SystemExit(7)'")
    assert (done.code, "exit code 7" in done.err) == (2, True)
    done = divergraph("npu-dump", *at, "/no/such/program", "x")
    assert (done.code, "cannot be started" in done.err) == (2, True)
    done = divergraph("npu-dump", *at, "--steps", "first", "true")
    assert (done.code, "names no steps" in done.err) == (2, True)
    done = divergraph("npu-dump", *at, "--steps", "0|5-2", "true")
    assert (done.code, "the steps 5-2 end before they begin (as 2-5)" in done.err) == (2, True)


def test_the_environment_is_precision_tools(tmp_path):
    found = environment(ScriptJob(["train"], JobAction.NPU_DUMP, tmp_path, "0|5|10"))
    assert (found["DUMP_GE_GRAPH"], found["DUMP_GRAPH_LEVEL"]) == ("2", "3")
    assert found["DUMP_GRAPH_PATH"] == str(tmp_path / "npu" / "debug_0" / "graph")
    assert found["PRECISION_TOOL_DUMP"] == "True"
    assert found[tf_config.STEPS] == "0|5|10"
    over = environment(ScriptJob(["train"], JobAction.NPU_OVERFLOW, tmp_path))
    assert over["PRECISION_TOOL_OVERFLOW"] == "True"


def test_settings_are_precision_tools(monkeypatch, tmp_path):
    monkeypatch.setenv(tf_config.DATA, str(tmp_path))
    dump = str(tmp_path / "npu" / "debug_0" / "dump")
    assert tf_config.estimator_settings("dump") == {
        "enable_dump": True, "dump_path": dump, "dump_step": "0", "dump_mode": "all",
    }  # fmt: skip
    found = tf_config.session_settings("overflow|fusion_off")
    assert found["enable_dump_debug"] is True
    assert (found["dump_debug_mode"], found["op_debug_level"]) == ("all", 4)
    switch = json.loads((tmp_path / "fusion" / "fusion_off.cfg").read_text())
    assert switch["Switch"] == {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}


@pytest.mark.tensorflow
def test_a_session_is_configured_and_dumps_on_the_cpu(monkeypatch, tmp_path):
    import tensorflow as tf

    monkeypatch.setenv(tf_config.DATA, str(tmp_path))
    config = tf_config.session_dump_config(action="dump")
    (op,) = config.graph_options.rewrite_options.custom_optimizers
    assert op.name == "NpuOptimizer"
    assert op.parameter_map["enable_dump"].b
    assert op.parameter_map["dump_step"].s == b"0"
    monkeypatch.setenv(tf_config.ACTION, "tf_dump")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        value = tf.constant([1.0, 2.0], name="one") * 2.0
        tf_config.sess_dump(session).run(value)
    assert list((tmp_path / "tf" / "tf_debug").rglob("*_0_DebugIdentity_*"))


@pytest.mark.parametrize("form", ["session", "estimator", "tf-config"])
def test_python_that_is_written_is_python(divergraph, form, tmp_path):
    path = tmp_path / "written.py"
    assert divergraph("dump-config", form, "-o", path, "--fusion-switch", "f.cfg").code == 0
    text = path.read_text(encoding="utf-8")
    compile(text, str(path), "exec")
    assert "enable_dump" in text


def test_acl_json(divergraph):
    said = divergraph(
        "dump-config", "acl-json", "--model", "net", "--layer", "conv1", "--mode", "output"
    )
    dump = json.loads(said.out)["dump"]
    assert dump["dump_list"] == [{"model_name": "net", "layer": ["conv1"]}]
    assert dump["dump_mode"] == "output"
    over = json.loads(divergraph("dump-config", "acl-json", "--overflow").out)["dump"]
    assert over["dump_debug"] == "on"
    assert divergraph("dump-config", "acl-json", "--layer", "conv1").code == 2
