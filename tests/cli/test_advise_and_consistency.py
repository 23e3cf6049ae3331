"""``advise`` and ``consistency`` on the LeNet runs and on a dump that was tampered with."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from importers.proto.messages import dump_data_pb2 as pb

pytestmark = pytest.mark.thorough

ORIGIN = "LeNet/conv2/Conv2DRelu"


def test_the_fault_is_named_in_words_in_json_and_in_the_file(divergraph, lenet_store, tmp_path):
    folder = tmp_path / "advice"
    done = divergraph("advise", "fault", "--store", lenet_store, "-o", folder)
    assert done.code == 1
    assert done.out == (folder / "advisor_summary.txt").read_text()
    assert done.out.startswith("Detection Type: Global Consistency\nOperator Index: 64\n")
    told = divergraph("advise", "fault", "--store", lenet_store, "--json").json
    (finding,) = told["findings"]
    assert (finding["label"], finding["op"], finding["output"]) == ("problem_node", ORIGIN, 0)
    assert (told["operator_index"], told["problem"], told["file"]) == (64, True, None)


def test_a_run_without_a_fault_gets_no_advice(divergraph, compare_lenet, tmp_path):
    store = tmp_path / "store"
    divergraph(*compare_lenet("npu_clean"), "--run", "clean", "--store", store)
    done = divergraph("advise", "clean", "--store", store)
    assert (done.code, done.out.splitlines()[1]) == (0, "Operator Index: NA")


def test_an_unknown_run_and_a_place_that_cannot_be_written(divergraph, lenet_store, tmp_path):
    assert divergraph("advise", "nothing", "--store", lenet_store).code == 2
    (tmp_path / "file").write_text("")
    done = divergraph("advise", "fault", "--store", lenet_store, "-o", tmp_path / "file" / "x")
    assert done.code == 2
    assert "the folder cannot be made" in done.err


def test_two_runs_of_one_graph(divergraph, lenet):
    fault, clean = lenet / "npu_fault", lenet / "npu_clean"
    given = (fault / "dump", "--graph", fault / "graph")
    assert divergraph("consistency", *given).code == 0
    done = divergraph("consistency", *given, "--against", clean / "dump", "--json")
    assert done.code == 1
    (finding,) = done.json["findings"]
    assert (finding["label"], finding["op"]) == ("not_deterministic", ORIGIN)


def test_the_dump_of_a_run(divergraph, lenet_store):
    done = divergraph("consistency", "fault", "--store", lenet_store)
    assert (done.code, done.out) == (0, "nothing found\n")
    assert "130 outputs checked" in done.err


@pytest.fixture
def tampered(lenet, tmp_path) -> Path:
    """The clean dump with NaN in an output, and a dumped input that is not its producer's."""
    copied = shutil.copytree(lenet / "npu_clean" / "dump", tmp_path / "dump")
    (path,) = copied.rglob("Conv2D.LeNet_conv2_Conv2DRelu.*")
    (source,) = copied.rglob("*.LeNet_pool1_MaxPool.*")
    header, data = _read(path)
    before, given = _read(source)
    values = np.frombuffer(data, np.float16).copy()
    values[100] = np.nan
    wrong = np.frombuffer(given, np.float16).copy()
    wrong[64:80] = 7
    made, output = header.input.add(), before.output[0]
    made.data_type, made.format, made.size = output.data_type, output.format, len(given)
    made.shape.CopyFrom(output.shape)
    made.original_shape.CopyFrom(output.original_shape)
    raw = header.SerializeToString()
    parts = (len(raw).to_bytes(8, "little"), raw, wrong.tobytes(), values.tobytes())
    path.write_bytes(b"".join(parts))
    return copied


def _read(path: Path) -> tuple[pb.DumpData, bytes]:
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = pb.DumpData()
    header.ParseFromString(raw[8:start])
    return header, raw[start:]


def test_what_a_tampered_dump_shows(divergraph, lenet, tampered):
    graph = lenet / "npu_clean" / "graph"
    done = divergraph("consistency", tampered, "--graph", graph, "--json")
    found = {finding["label"]: finding for finding in done.json["findings"]}
    assert set(found) == {"input_changed", "nan_appears"}
    assert (found["nan_appears"]["op"], found["nan_appears"]["output"]) == (ORIGIN, 0)
    changed = found["input_changed"]
    assert (changed["op"], changed["input"], changed["output"]) == (ORIGIN, 0, None)
    assert changed["evidence"]["producer"] == "LeNet/pool1/MaxPool"
    assert (done.json["inputs"], changed["evidence"]["different"]) == (1, 16)
    words = divergraph("consistency", tampered, "--graph", graph)
    assert (words.code, words.out.count("! ")) == (1, 2)
    assert json.dumps(done.json)


def test_a_dump_needs_its_graph(divergraph, lenet, lenet_store):
    done = divergraph("consistency", lenet / "npu_clean" / "dump", "--store", lenet_store)
    assert (done.code, "give its --graph" in done.err) == (2, True)
    done = divergraph("consistency", "fault", "--step", 1, "--store", lenet_store)
    assert done.code == 2


@pytest.mark.slow
def test_a_run_of_few_tensors_is_not_called_clean_without_reserve(divergraph, lenet, tmp_path):
    """All but a few dump files are gone; the verdict says of how much it speaks."""
    copied = tmp_path / "clean"
    shutil.copytree(lenet / "npu_clean", copied)
    files = sorted(path for path in (copied / "dump").rglob("*") if path.is_file())
    kept = [path for path in files if path.name.startswith("Conv2D.LeNet_conv")]
    for path in set(files) - set(kept):
        path.unlink()
    arguments = ["compare", "--golden", lenet / "model.ckpt.meta", "--golden-dump"]
    arguments += [lenet / "golden", "--device", copied / "graph", "--device-dump", copied / "dump"]
    arguments += ["--run", "few", "--store", tmp_path / "store"]
    found = divergraph(*arguments, "--json").json
    assert found["verdict"] in ("clean", "within_rounding")
    counts, said = found["counts"], found["reserve"]
    judged, tensors = map(int, re.fullmatch(r"only (\d+) of (\d+) tensors .*", said).groups())
    assert 0 < counts["compared"] <= judged < 10
    assert 100 < tensors <= counts["tensors"]
    markdown = divergraph("report", "few", "--store", tmp_path / "store", "--markdown", "-").out
    assert f"; but {said}, nothing is known of the others" in markdown
    advice = divergraph("advise", "few", "--store", tmp_path / "store", "--json").json["findings"][
        0
    ]
    assert advice["label"] == "consistent"
    assert f"But {said}" in advice["sentence"]
    assert advice["confidence"] < 0.5
