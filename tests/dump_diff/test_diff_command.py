"""``divergraph diff``: exit codes, JSON, and what people read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import time

import numpy as np
import pytest


def test_folders_within_their_limits(divergraph, two_dumps):
    ended = divergraph("diff", *two_dumps())
    assert ended.code == 0
    assert ended.out.startswith("12 pairs: 12 compared, 0 over a limit")


def test_a_wrong_tensor_is_named_first(divergraph, two_dumps):
    ended = divergraph("diff", *two_dumps(wrong=(7,)), "--top", 1)
    assert ended.code == 1
    assert "1 over a limit" in ended.out
    assert "op7" in ended.out.split("worst pairs\n")[1].splitlines()[0]


def test_json_holds_pairs_leftovers_and_counts(divergraph, two_dumps):
    device, golden = two_dumps(count=3, wrong=(1,))
    np.save(device / "extra.npy", np.zeros(2))
    (golden / "op2.npy").unlink()
    ended = divergraph("diff", device, golden, "--json")
    assert ended.code == 1
    pairs = {pair["name"]: pair for pair in ended.json["pairs"]}
    assert {name: pair["level"] for name, pair in pairs.items()} == {"op0": "pass", "op1": "fail"}
    assert pairs["op1"]["metrics"]["relative_euclidean_distance"] == pytest.approx(0.1, abs=1e-3)
    assert pairs["op1"]["limit"]
    assert (pairs["op1"]["device_dtype"], pairs["op1"]["golden_dtype"]) == ("float16", "float32")
    assert ended.json["unpaired"] == [
        {"side": "device", "name": "extra"},
        {"side": "device", "name": "op2"},
    ]
    counts = ended.json["counts"]
    assert (counts["pairs"], counts["compared"], counts["over"]) == (2, 2, 1)
    assert (counts["device_only"], counts["golden_only"]) == (2, 0)
    assert ended.json["elements"] is None


def test_a_device_op_called_by_several_originals_is_told(divergraph, two_dumps):
    device, golden = two_dumps(count=3)
    for number in (1, 2):
        (device / f"op{number}.npy").unlink()
    np.save(device / "op1op2.npy", np.zeros(2))
    np.save(device / "op1other.npy", np.zeros(2))
    ended = divergraph("diff", device, golden)
    told = ended.out + ended.err
    assert "1 device op holds several originals" in told
    assert "op1op2 (op1, op2)" in told
    assert "op1other (" not in told


def test_the_elements_of_a_single_pair(divergraph, tmp_path):
    golden = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    device = golden.copy()
    device[0, 1, 2, 3] += 5
    device[0, 0, 0, 0] = np.nan
    np.save(tmp_path / "d.npy", device)
    np.save(tmp_path / "g.npy", golden)
    ended = divergraph("diff", tmp_path / "d.npy", tmp_path / "g.npy", "--json")
    assert ended.code == 1
    elements = ended.json["elements"]
    assert elements["summary"]["total"] == 24
    assert elements["summary"]["bad"] == 2
    first, second = elements["first_bad"]
    assert first["index"] == [0, 0, 0, 0]
    assert first["device"] is None
    assert first["notes"] == {"device": "NaN", "absolute_error": "Inf"}
    assert (second["index"], second["device"], second["golden"]) == ([0, 1, 2, 3], 28.0, 23.0)
    text = divergraph("diff", tmp_path / "d.npy", tmp_path / "g.npy").out
    assert "2 of 24 elements bad" in text
    assert "[0,1,2,3]" in text


def test_pairs_over_their_limit_say_where_they_are_bad(divergraph, tmp_path):
    rng = np.random.default_rng(0)
    golden = rng.normal(size=(2, 16, 8, 8)).astype(np.float32)
    device = golden.copy()
    device[:, 8:] *= 2
    for side, values in (("device", device), ("golden", golden)):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "a.npy", golden)
        np.save(tmp_path / side / "b.npy", values)
    ended = divergraph("diff", tmp_path / "device", tmp_path / "golden", "--json")
    same, wrong = (pair["figures"] for pair in ended.json["pairs"])
    assert "8-15 of axis 1" in wrong["where_bad"]
    assert wrong["max_ulp"] > 1000
    assert (same["where_bad"], same["bad"]) == (None, 0)


def test_the_user_says_what_an_element_may_differ(divergraph, two_dumps):
    device, golden = two_dumps(count=2, wrong=(0,))
    assert divergraph("diff", device, golden, "-al", 1, "-rl", 0.2).code == 0
    ended = divergraph("diff", device, golden, "-rl", 0.05, "--json")
    assert ended.code == 1
    levels = {pair["name"]: (pair["level"], pair["limit"]) for pair in ended.json["pairs"]}
    assert levels["op1"] == ("pass", None)
    assert levels["op0"][1].endswith("elements beyond 0.001 + 0.05 |golden|")


def test_a_damaged_tensor_is_no_reason_to_stop(divergraph, two_dumps):
    device, golden = two_dumps(count=3)
    whole = (device / "op1.npy").read_bytes()
    (device / "op1.npy").write_bytes(whole[:200])
    ended = divergraph("diff", device, golden, "--json")
    assert ended.code == 0
    pair = ended.json["pairs"][1]
    assert (pair["name"], pair["metrics"], pair["reason"]) == ("op1", None, "unreadable_dump")
    assert "the header gives 1000 bytes" in pair["detail"]
    assert ended.json["counts"]["not_compared"] == 1


def test_shapes_that_differ_are_told(divergraph, tmp_path):
    np.save(tmp_path / "d.npy", np.zeros((2, 3)))
    np.save(tmp_path / "g.npy", np.zeros((2, 4)))
    ended = divergraph("diff", tmp_path / "d.npy", tmp_path / "g.npy")
    assert ended.code == 2
    assert "shapes differ" in ended.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing", "golden"), "no such file or folder"),
        (("empty", "golden"), "no tensors here"),
        (("packed", "golden"), "packed: no tensors here (unpack it first: mkdir "),
        (("device", "other"), "no name is on both sides"),
        (("device", "golden", "--tensor", "conv*"), "no tensor here is called 'conv*'"),
        (("device", "golden", "--dtype", "floaty"), "no such type"),
        (("device", "golden", "--shape", "1,2"), "--shape needs --dtype"),
        (("device", "golden", "--jobs", "2", "--cluster", "local"), "cannot go together"),
        (("device", "golden", "--cluster", "nowhere"), "no address of a scheduler"),
        (("device", "golden", "--thresholds", "none.toml"), "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(
    divergraph, two_dumps, tmp_path, monkeypatch, arguments, said
):
    two_dumps(count=2)
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "packed").mkdir()
    with tarfile.open(tmp_path / "packed" / "dump.tar", "w") as archive:
        archive.add(tmp_path / "device", "dump")
    np.save(tmp_path / "other" / "x.npy", np.zeros(3))
    np.save(tmp_path / "other" / "y.npy", np.zeros(3))
    monkeypatch.chdir(tmp_path)
    ended = divergraph("diff", *arguments)
    assert ended.code == 2
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1
    assert ended.out == ""


def test_workers_change_nothing(divergraph, two_dumps):
    device, golden = two_dumps(count=40, wrong=(3, 30))
    (device / "op5.npy").write_bytes(b"no array")
    alone = divergraph("diff", device, golden, "--json", "--jobs", 1)
    assert divergraph("diff", device, golden, "--json", "--jobs", 2) == alone


def test_runs_of_two_devices_are_paired_by_op(divergraph, lenet):
    fault, clean = (lenet / f"npu_{side}" / "dump" for side in ("fault", "clean"))
    ended = divergraph("diff", fault, clean, "--json")
    assert ended.code == 1
    counts = ended.json["counts"]
    assert counts["compared"] == counts["pairs"] == 130
    assert ended.json["unpaired"] == []
    by_name = {pair["name"]: pair for pair in ended.json["pairs"]}
    assert by_name["Conv2D.LeNet_conv1_Conv2DRelu.output.0"]["level"] == "pass"
    assert by_name["Conv2D.LeNet_conv2_Conv2DRelu.output.0"]["level"] == "fail"
    assert by_name["Conv2D.LeNet_conv1_Conv2DRelu.output.0"]["shape"] == [2, 28, 28, 6]


def test_a_device_dump_against_golden_arrays_undoes_layouts(divergraph, lenet):
    ended = divergraph("diff", lenet / "npu_clean" / "dump", lenet / "golden", "--json")
    assert ended.json["counts"]["compared"] > 100
    by_name = {pair["name"]: pair for pair in ended.json["pairs"]}
    pool = by_name["MaxPool.LeNet_pool1_MaxPool.output.0"]
    assert pool["metrics"]["cosine_similarity"] > 0.9999


@pytest.mark.slow
def test_a_killed_comparison_goes_on_with_the_same_result(two_dumps, tmp_path, own_cache):
    device, golden = two_dumps(count=30, size=200_000, wrong=(9,))
    program = (
        "import sys, divergraph.jobs.journal as journal; journal._WORTH_SECONDS = 0.0;"
        "from divergraph.cli.main import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, "diff", str(device), str(golden)]
    command += ["--json", "--jobs", "2"]
    whole = subprocess.run([*command, "--no-resume"], capture_output=True, text=True, check=False)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and not _written(own_cache):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    if process.returncode == -signal.SIGKILL:
        assert _written(own_cache)
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (whole.returncode, whole.stdout)
    assert again.returncode == 1
    assert not _written(own_cache)


def _written(folder) -> bool:
    return folder.is_dir() and any(path.stat().st_size for path in folder.iterdir())


@pytest.mark.usefixtures("ctrl_c_heard")
def test_ctrl_c_ends_everything_with_130(two_dumps, tmp_path):
    device, golden = two_dumps(count=100, size=200_000)
    command = [sys.executable, "-c", "from divergraph.cli.main import main; main()"]
    command += ["diff", str(device), str(golden), "--jobs", "2"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        while process.poll() is None:
            with open(children) as file:  # noqa: PTH123
                if len(file.read().split()) == 2:
                    break
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, "", "stopped")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["a", "bc"], "elements are text"),
        (np.array(["2020-01-01"], "M8[D]"), "elements are dates"),
        (np.array([{}], object), "never unpickled"),
        (np.zeros(2, [("x", "f4")]), "elements are records"),
        (np.zeros(2, "V2"), "raw bytes"),
    ],
    ids=["text", "dates", "objects", "records", "raw"],
)
def test_what_is_no_tensor_of_numbers_is_called_by_its_name(divergraph, tmp_path, values, words):
    np.save(tmp_path / "x.npy", values, allow_pickle=True)
    ended = divergraph("diff", tmp_path / "x.npy", tmp_path / "x.npy", "--json")
    (pair,) = ended.json["pairs"]
    assert ended.code == 2
    assert pair["reason"] == "dtype_unsupported"
    assert words in pair["detail"]
