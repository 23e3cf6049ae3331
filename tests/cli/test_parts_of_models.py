"""Parts of models that were never compared: cut and shrunk straight from files."""

from __future__ import annotations

import json
import shutil

import numpy as np
import onnx.parser
import pytest
from device_alone import MODEL, write_device


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A model, a device's graph and dump of it with a wrong Neg, and no golden dump."""
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    write_device(tmp_path)
    return tmp_path


DEVICE = ("--device", "ge_proto_00001_Build.txt", "--device-dump", "npu")


def test_a_part_of_a_device_run_without_a_golden_dump(divergraph, files):
    done = divergraph(
        "submodel", "m.onnx", *DEVICE, "--start", "neg", "--end", "neg", "-o", "parts", "--check"
    )
    assert done.code == 0, done.err
    assert "note: x is what relu has, rounded to float16" in done.err
    (bundle,) = (files / "parts").iterdir()
    golden = np.load(bundle / "outputs" / "000_z.golden.npy")
    device = np.load(bundle / "outputs" / "000_z.device.npy")
    assert np.array_equal(golden, -device.astype(np.float32))
    assert divergraph("replay", bundle).code == 0
    assert divergraph("replay", bundle, "--device").code == 1


def test_a_part_of_a_tensorflow_model_runs_again_whether_tensorflow_is_there_or_not(
    divergraph, files
):
    kind = 'attr { key: "T" value { type: DT_FLOAT } }'
    (files / "m.pbtxt").write_text(
        'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } '
        'attr { key: "shape" value { shape { dim { size: 2 } dim { size: 3 } } } } }\n'
        f'node {{ name: "relu" op: "Relu" input: "x" {kind} }}\n'
        f'node {{ name: "neg" op: "Neg" input: "relu" {kind} }}\n'
    )
    words = ("--start", "neg", "--end", "neg", "-o", "parts", "--check")
    done = divergraph("submodel", "m.pbtxt", *DEVICE, *words)
    assert (done.code, "run again, the part gives the golden outputs" in done.out) == (0, True)
    (bundle,) = (files / "parts").iterdir()
    assert divergraph("replay", bundle).code == 0
    assert divergraph("replay", bundle, "--device").code == 1


def test_which_of_several_dumps_is_taken_is_said(divergraph, files):
    for step in ("0", "1"):
        shutil.copytree(files / "npu", files / "steps" / step)
    words = ("submodel", "m.onnx", DEVICE[0], DEVICE[1], "--device-dump", "steps")
    part = ("--start", "neg", "--end", "neg", "-o", "parts")
    taken = "of 2 dumps in steps that in 0 is taken; name its folder for another"
    assert taken in divergraph(*words, *part).err
    assert divergraph("capture", "m.onnx", "--random", 1, "-o", "golden").code == 0
    said = divergraph(*words, *part, "--golden-dump", "golden").err
    assert "step 0 is the first of 2" in said
    assert "the device was fed golden's x replaced by other data" in said


def test_a_part_of_a_model_that_cannot_run_here_has_the_device_s_values(divergraph, files):
    words = (
        "(float[2,3] z, float[2,3] o) {[relu] y = Relu(x) [neg] z = Neg(y) [odd] o = acme.Odd(z)}"
    )
    custom = MODEL.replace('["": 17]', '["": 17, "acme": 1]')
    custom = f"{custom.partition('=> ')[0]}=> {words}"
    onnx.save(onnx.parser.parse_model(custom), files / "m.onnx")
    words = ("submodel", "m.onnx", *DEVICE, "--end", "neg", "-o", "parts")
    done = divergraph(*words, "--start", "neg")
    assert (done.code, "the device's values alone" in done.err) == (0, True), done.err
    (bundle,) = (files / "parts").iterdir()
    assert [each.name for each in (bundle / "outputs").iterdir()] == ["000_z.device.npy"]
    assert "on the device's inputs" in (bundle / "README.md").read_text()
    assert divergraph("replay", bundle, "--device").code == 1
    assert "was not dumped" in divergraph("replay", bundle).out
    assert divergraph(*words, "--start", "relu").code == 0, "x is what relu took"
    whole = next(each for each in (files / "parts").iterdir() if each != bundle)
    assert divergraph("replay", whole, "--device").code == 1
    next((files / "npu").glob("Relu*input.0.npy")).unlink()
    refused = divergraph(*words, "--start", "relu")
    assert (refused.code, "the input x was not dumped" in refused.err) == (2, True), refused.err
    assert "cannot be made here" in divergraph("minimize", "m.onnx", *DEVICE).err


def test_parts_of_models_need_no_store(divergraph, files):
    words = ("--start", "relu", "--end", "neg", "--store", "nowhere")
    assert divergraph("submodel", "m.onnx", *words).code == 0
    assert not (files / "nowhere").exists()
    assert divergraph("submodel", "no.onnx", *words).code == 2


def test_the_smallest_part_of_a_device_run_without_a_golden_dump(divergraph, files):
    done = divergraph("minimize", "m.onnx", *DEVICE)
    assert (done.code, done.out.splitlines()[1]) == (1, "  neg")


def test_a_part_of_an_imported_graph(divergraph, files):
    divergraph("import", "m.onnx")
    shown = divergraph("submodel", "g", "--start", "relu", "--end", "neg")
    assert (shown.code, "not dumped" in shown.out) == (0, False)
    words = ("--start", "relu", "--end", "neg", "-o", "parts", "--check")
    assert "no such file" in divergraph("submodel", "g.onnx", *words).err
    refused = divergraph("submodel", "g", *words)
    assert (refused.code, "nothing says what goes into the model" in refused.err) == (2, True)
    assert divergraph("submodel", "g", *words, "--random", "1").code == 0
    (bundle,) = (files / "parts").iterdir()
    assert "--device" not in (bundle / "README.md").read_text()
    assert list((bundle / "outputs").iterdir()) == [bundle / "outputs" / "000_z.golden.npy"]


def test_without_a_device_something_has_to_say_what_fails(divergraph, files):
    (files / "m.onnx").write_bytes(b"")  # said before anything is read, let alone run
    done = divergraph("minimize", "m.onnx", "--random", "1")
    assert (done.code, "without --device nothing says what fails" in done.err) == (2, True)


@pytest.mark.exhaustive
def test_answers_on_a_model_are_known_to_the_next_search(divergraph, files, monkeypatch):
    monkeypatch.setenv("DIVERGRAPH_CACHE", str(files / "cache"))
    words = ("minimize", "m.onnx", *DEVICE, "--oracle", "command:false", "--json")
    assert [json.loads(divergraph(*words).out)["calls"] for _ in range(2)] == [1, 0]
    np.save(files / "npu" / "Neg.neg.3.1.1795727148374621.output.0.npy", np.ones((2, 3), "f2"))
    assert json.loads(divergraph(*words).out)["calls"] == 1
