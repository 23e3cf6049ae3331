"""Logs of a device's software: what is told of them, and which ops they are about."""

from __future__ import annotations

import pytest

HEAD = "RUNTIME(370,python3):2023-07-13-07:42:40.517.144 [task.cc:1341]1432"
FAULT = f"[ERROR] {HEAD} PrintErrorInfo:Aicore kernel execute failed, stream_id=2, task_id=6, "
PLOG = f"""\
[INFO] {HEAD} Event: overflow_detection is on, no overflow
[WARNING] {HEAD} UnlinkOutCtrlEdges: node InitOverflowAddr_GatherV2_316
{FAULT}fault kernel_name=2_0_11_LeNet_conv2_Conv2DRelu, program id=1
[ERROR] {HEAD} PrintErrorInfo:report error module_type=5, module_name=EZ9999
[WARNING] {HEAD} Check: op_name[LeNet/fc4/MatMul], retCode=0x2f, [aicore over flow], task_id=7
[ERROR] {HEAD} GetError:Stream Synchronize failed, retCode=0x26
E40021: Failed to compile Op [LeNet/conv1/Relu]. (oppath: [Compile relu.py failed
[ERROR] {HEAD} PrintCoreInfo:report error module_type=0, fault kernel_name=2_0_11_LeNet_fc5_MatMul
"""


@pytest.fixture
def logs(divergraph, tmp_path, lenet):
    folder, store = tmp_path / "plog", tmp_path / "store"
    folder.mkdir()
    (folder / "plog-370_20230713074107861.log").write_text(PLOG)
    graph = lenet / "npu_fault" / "graph"
    divergraph("import", graph, "--name", "net", "--store", store)
    return lambda *words: divergraph("logs", *words, "--store", store)


def test_messages_are_tied_to_ops_by_name_original_and_kernel(logs, tmp_path):
    found = logs(tmp_path / "plog", "--run", "net", "--json").json
    kinds = {each["op"]: each["events"][0]["kind"] for each in found["ops"]}
    assert kinds == {
        "LeNet/conv2/Conv2DRelu": "exception",
        "LeNet/fc4/MatMul": "overflow",
        "LeNet/conv1/Conv2DRelu": "compile",
        "LeNet/fc5/MatMul": "exception",
    }
    event = found["ops"][0]["events"][0]
    assert (event["task"], event["stream"], event["line"]) == (6, 2, 3)
    assert [each["kind"] for each in found["others"]] == ["error"]


def test_text_says_what_there_is(logs, tmp_path, monkeypatch):
    said = logs(tmp_path / "plog", "--run", "net").out
    assert said.startswith("1 log: ")
    assert "  overflow  plog-370_20230713074107861.log:5  RUNTIME" in said
    monkeypatch.setenv("ASCEND_LOG_PATH", str(tmp_path / "plog"))
    assert "messages that name no op\n" in logs().out


def test_a_falling_loss_scale_is_a_step_that_overflowed(logs, tmp_path):
    path = tmp_path / "train.log"
    path.write_text(
        "step 1\n>>> Current Loss Scale >>>  [65536.0]\n>>> Current Loss Scale >>>  [65536.0]\n"
        "loss_scale: 32768\nloss scale value is 65536\n"
    )
    found = logs(path, "--json").json
    assert [each["value"] for each in found["loss_scales"]] == [65536, 65536, 32768, 65536]
    assert found["halved"] == [{"path": str(path), "line": 4, "value": 32768.0}]
    assert "fell to 32768: the step overflowed" in logs(path).out


@pytest.mark.parametrize(("name", "said"), [("gone", "no such log"), ("empty", "there is no log")])
def test_what_is_no_log_is_said(logs, tmp_path, name, said):
    (tmp_path / "empty").mkdir()
    done = logs(tmp_path / name)
    assert (done.code, said in done.err) == (2, True)


def test_bytes_that_are_no_text_and_endless_lines(logs, tmp_path):
    path = tmp_path / "odd.log"
    path.write_bytes(b"\xff\xfe" + bytes(50_000) + b"\n[ERROR] " + HEAD.encode() + b" x" * 40_000)
    (event,) = logs(path, "--json").json["others"]
    assert event["line"] == 2
    assert len(event["text"]) < 500
