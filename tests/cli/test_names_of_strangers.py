"""Names in models and files are data: no terminal, browser or viewer obeys them."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import divergraph.cli
from divergraph.text.printable import printable, printable_json

CLEAR, CLIPBOARD, C1_RED = "\x1b[2J", "\x1b]52;c;cm0gLXJm\x07", "\x9b31m"
HOSTILE = f"relu{CLEAR}{CLIPBOARD}{C1_RED}[red]x[/]\u202erewop\n   2 # clean\r\t\x7f"
SHOWN = (
    "relu\\x1b[2J\\x1b]52;c;cm0gLXJm\\x07\\x9b31m[red]x[/]\\u202erewop\\n   2 # clean\\r\\t\\x7f"
)
OBEYED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


@given(st.text())
@example(HOSTILE)
@example("\ud800\udcff")
def test_a_printable_text_is_one_line_that_does_nothing(text):
    shown = printable(text)
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown)
    assert printable(shown) == shown
    if text.isprintable():
        assert shown == text


def test_escapes_say_which_character_it_was():
    assert printable(HOSTILE) == SHOWN
    assert printable(os.fsdecode(b"caf\xe9.onnx")) == "caf\\xe9.onnx"
    assert printable("层/conv é") == "层/conv é"


@given(st.text(), st.booleans())
@example(HOSTILE, False)
@example("\ud800 \U0001f600 é", True)
def test_json_keeps_every_character_and_shows_none_that_acts(text, ascii_only):
    document = {text: [text, 1]}
    said = printable_json(json.dumps(document, indent=2, ensure_ascii=False), ascii_only=ascii_only)
    assert OBEYED.search(said) is None
    assert json.loads(said) == document
    assert said.isascii() or not ascii_only


def test_all_text_for_people_goes_one_way():
    folder = Path(divergraph.cli.__file__).parent
    others = [file for file in folder.rglob("*.py") if file.name != "say.py"]
    assert len(others) > 30
    for file in others:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("click.echo", "click.secho", "print"), f"{file}:{node.lineno}"
                assert not called.endswith(("stdout.write", "stderr.write")), file


@pytest.fixture(scope="module")
def hostile_case(tmp_path_factory) -> Path:
    """A folder with a model of hostile names, in a file with such a name, and its two dumps."""
    from divergraph.cli.main import run

    folder = tmp_path_factory.mktemp("strangers")
    model, values = folder / f"m{CLEAR}.onnx", folder / "x.npy"
    shape = [1, 4]
    nodes = [
        helper.make_node("Relu", ["x"], [f"t{HOSTILE}"], name=HOSTILE),
        helper.make_node("Sigmoid", [f"t{HOSTILE}"], ["y"], name=f"sigmoid{HOSTILE}"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph(nodes, HOSTILE, ends[:1], ends[1:])
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), model)
    np.save(values, np.array([[1, -2, 3, 4]], np.float32))
    for side, more in (("golden", []), ("device", ["--device", "fp16"])):
        given = ["capture", str(model), "--inputs", f"x={values}", "-o", str(folder / side)]
        assert run([*given, *more]) == 0
    sides = [str(part) for part in (model, folder / "golden", model, folder / "device")]
    options = zip(("--golden", "--golden-dump", "--device", "--device-dump"), sides, strict=True)
    store = ["--store", str(folder / "store"), "--run", "hostile"]
    assert run(["compare", *[part for pair in options for part in pair], *store]) == 0
    return folder


@pytest.mark.parametrize(
    "arguments", [["ops", "hostile"], ["query", "MATCH (o:Op) RETURN o.name AS name"]]
)
def test_json_gives_the_name_itself(divergraph, hostile_case, arguments):
    ended = divergraph(*arguments, "--json", "--store", hostile_case / "store")
    assert OBEYED.search(ended.out) is None
    document = json.dumps(ended.json)
    assert json.dumps(HOSTILE)[1:-1] in document


@pytest.mark.slow
def test_a_terminal_of_another_encoding_gets_escapes(hostile_case):
    strange = hostile_case / os.fsdecode(b"\xff\xe2\x86\x92.onnx")
    strange.write_bytes((hostile_case / f"m{CLEAR}.onnx").read_bytes())
    for more in ([], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "divergraph", "detect", os.fsencode(strange), *more],
            env={**os.environ, "PYTHONIOENCODING": "latin-1"},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
    path = json.loads(done.stdout)["paths"][0]["path"]
    assert os.fsencode(path) == os.fsencode(strange)
