"""Programs to start from, run with tools in place of the vendors' that take the same files."""

from __future__ import annotations

import os
import shlex
import sys

import pytest

# Those of a group share the runs they begin with.
pytestmark = pytest.mark.xdist_group("minimize")

RUN = """
import json, os, re, shutil, sys
import numpy as np, onnx, onnxruntime
words = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
pairs = dict(zip(sys.argv[1::2], sys.argv[2::2]))
def made(path, files):
    model = onnx.load(path)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {}
    for each, file in zip(session.get_inputs(), files):
        feeds[each.name] = np.fromfile(file, np.float32).reshape(each.shape)
    values = session.run(None, feeds)
    if any(node.name == "left" for node in model.graph.node):
        values = [value * np.float32(1.1) for value in values]
    return dict(zip([each.name for each in session.get_outputs()], values))
"""
TOOLS = {
    "atc": """
assert words["framework"] == "5" and words["soc_version"] == "Some310"
assert re.fullmatch("[a-z]:8,16(;[a-z]:8,16)*", words["input_shape"]), words
if "act" in open("manifest.json").read().split('"ops"')[1].split("]")[0]:
    sys.exit("E40000: no such kernel")  # a build that fails is no wrong result
shutil.copy(words["model"], words["output"] + ".om")
""",
    "msame": """
os.makedirs(pairs["--output"] + "/20260101")
for place, value in enumerate(made(pairs["--model"], pairs["--input"].split(",")).values()):
    value.tofile(f"{pairs['--output']}/20260101/part_output_{place}.bin")
""",
    "trtexec": """
assert "--noTF32" in sys.argv
files = [each.rpartition(":")[2] for each in words["loadInputs"].split(",")]
told = [
    {"name": name, "dimensions": "x".join(map(str, value.shape)), "values": value.ravel().tolist()}
    for name, value in made(words["onnx"], files).items()
]
json.dump(told, open(words["exportOutput"], "w"))
""",
}


@pytest.fixture
def template(divergraph, tmp_path, monkeypatch):
    """The oracle that runs a template, with the tools on the path."""
    place = tmp_path / "bin"
    place.mkdir()
    for name, lines in TOOLS.items():
        (place / name).write_text(f"#!{sys.executable}\n{RUN}{lines}")
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SOC", "Some310")

    def oracle(name: str) -> str:
        ended = divergraph("minimize", "--template", name)
        path = tmp_path / f"try_{name}.py"
        path.write_text(ended.out)
        return f"command:{shlex.quote(sys.executable)} {path} {{bundle}}"

    return oracle


@pytest.mark.slow
@pytest.mark.parametrize("name", ["atc", "tensorrt"])
def test_a_template_finds_the_op_its_tool_gets_wrong(minimize, template, name):
    told = minimize("one", "--oracle", template(name), "--json").json
    assert told["ops"] == ["left"], told["probes"]
    assert told["parts"][0]["error"] == pytest.approx(0.1, rel=0.01)


@pytest.mark.slow
def test_a_part_that_does_not_build_is_no_wrong_result(minimize, template):
    told = minimize(
        "three", "--oracle", template("atc"), "--start", "act", "--end", "act", "--json"
    )
    assert told.json["probes"][0]["verdict"] == "unknown"
    assert "no such kernel" in told.json["probes"][0]["said"]
    assert told.code == 2


def test_the_template_for_openvino_is_a_program(divergraph):
    text = divergraph("minimize", "--template", "openvino").out
    compile(text, "try_openvino.py", "exec")
    assert "{bundle}" in text
