"""``divergraph shell``: precision_tool's commands and ours, line by line and at a terminal."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from valued_run import kept_values

pytestmark = pytest.mark.thorough

FUSED = "LeNet/conv2/Conv2DRelu"
RELU = "LeNet_conv2_Relu.0.1664180551000000.npy"


@pytest.fixture
def shell(data):
    """Types lines into a shell without a terminal; returns its code, output and notes."""

    def type_in(*lines: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "divergraph", "shell", "--data", "precision_data"]
        done = subprocess.run(
            command,
            input="\n".join(lines),
            capture_output=True,
            text=True,
            cwd=data.parent,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    return type_in


def test_a_session_as_in_the_guide(shell, data):
    np.save(data.parent / "left.npy", np.array([1.0, 2.0, 3.5]))
    np.save(data.parent / "right.npy", np.array([1.0, 2.0, 3.0]))
    code, out, err = shell(
        "ac -c",
        "ls -n conv2 -t conv2d",
        f"ni {FUSED} -a -s 1",
        f"pt {RELU}",
        "cp left.npy right.npy -p 20 -al 0.001 -rl 0.001",
        "vcs -c 0.99 -l 2",
        f"dc {FUSED} -o converted",
        "run echo from the system",
        "!echo and from here",
        "exit",
        "nonsense",
    )
    assert code == 1
    assert f"1 # {FUSED}" in out
    assert f"[Conv2D] {FUSED}\n" in out
    assert "fusion_scope: 41" in out
    assert f"{FUSED} reads, 1 step far" in out
    assert "max    1.58334" in out
    assert (data / "tf" / "dump" / f"{RELU}.txt").is_file()
    assert "1 of 3 elements bad" in out
    assert len(list((data.parent / "converted").glob("Conv2D.*.output.0.npy"))) == 1
    assert "from the system\n" in out
    assert "and from here\n" in out
    assert "> divergraph compare --golden precision_data/tf/graph/model.ckpt.meta" in err
    assert "nonsense" not in err


def test_one_tensor_of_a_dump_file_is_decoded_by_its_name(divergraph, data):
    """The names that precision_tool prints; nothing is written among the device's dumps."""
    (dump,) = (data / "npu").rglob("Conv2D.LeNet_conv2_Conv2DRelu.*")
    beside = sorted(dump.parent.iterdir())
    tool = ("precision-tool", "--data", data)
    decoded = data / "temp" / "decode" / "dump_decode"
    for name in (f"{dump.name}.output.0.npy", f"{dump.name}.output.npy"):
        shown = divergraph(*tool, "pt", name)
        assert (shown.code, f"path   {decoded / dump.name}.output.0.npy" in shown.out) == (0, True)
    assert (decoded / f"{dump.name}.output.0.npy.txt").is_file()
    assert divergraph(*tool, "cp", f"{dump.name}.output.0.npy", RELU).code in (1, 2)
    assert divergraph(*tool, "pt", dump.name).code == 0
    assert (decoded / f"{dump.name}.txt").is_file()
    assert sorted(dump.parent.iterdir()) == beside


def test_another_folder_s_run_of_the_same_name_is_not_meant(divergraph, data, tmp_path):
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / data.name
    shutil.copytree(data, other)
    store = ("--store", tmp_path / "store")
    assert divergraph("precision-tool", "--data", other, *store, "vc").code == 1
    mine = ("precision-tool", "--data", data, *store)
    assert "--name precision_data.device" in divergraph(*mine, "ni", FUSED).err
    assert divergraph(*mine, "--run", "mine", "vc").code == 1
    assert "> divergraph origins mine\n" in divergraph(*mine, "vcs").err


def test_an_earlier_result_is_opened(divergraph, lenet, tmp_path):
    table = lenet / "npu_fault" / "msaccucmp_result.csv"
    at = ("--data", tmp_path, "--store", tmp_path / "store")
    done = divergraph("precision-tool", *at, "vcs", "-f", table, "-l", 2)
    assert done.code == 1
    assert "> divergraph ops msaccucmp_result --where 'cos<=0.98' --limit 2" in done.err
    assert "2 of 50 ops\n" in done.out
    gone = divergraph("precision-tool", *at, "vcs", "-f", "gone.csv")
    assert (gone.code, "gone.csv" in gone.err) == (2, True)


def test_our_commands_and_mistakes(shell, data):
    code, out, err = shell(
        "# a remark", "", "import precision_data/tf/graph/model.ckpt.meta --name net",
        "use net", "ls -t BiasAdd", "runs", "ls -x", "use", "ni 'open", "nonsense", "pt gone.npy",
    )  # fmt: skip
    assert code == 2
    assert "[BiasAdd] LeNet/conv2/BiasAdd\n" in out
    assert "graph  net" in out
    for said in ("No such option", "use takes one name", "No closing quotation", "no such command"):
        assert said in err
    assert "gone.npy: no such file or folder" in err
    assert "Traceback" not in err


def test_ops_are_listed_by_fusion_pass_and_kernel(divergraph, shared_data, tmp_path):
    graph = shared_data / "ge_proto" / "ge_proto_00000062_Build.txt"
    at = ("--store", tmp_path / "store")
    divergraph("import", graph, "--name", "resnet", *at)
    tool = ("precision-tool", "--run", "resnet", *at, "ls")
    found = divergraph(*tool, "-t", "Conv2D", "-f", "TbeConvDouble").out.splitlines()
    assert found
    assert all(
        line.startswith("[Conv2D][") and "TbeConvDoubleInFusionPass" in line for line in found
    )
    assert divergraph(*tool, "-k", "te_conv2d").out.startswith("[Conv2D] res2a_branch2c\n")


@pytest.mark.skipif(find_spec("prompt_toolkit") is None, reason="needs prompt_toolkit")
def test_at_a_terminal_names_of_ops_are_completed(tmp_path):
    pexpect = pytest.importorskip("pexpect")
    child = pexpect.spawn(
        sys.executable,
        ["-m", "divergraph", "shell", "--store", kept_values(tmp_path), "--run", "values"],
        cwd=str(tmp_path),
        env={
            **os.environ,
            "TERM": "xterm",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "XDG_STATE_HOME": str(tmp_path),
        },
        dimensions=(40, 150),
        encoding="utf-8",
        timeout=60,
    )
    child.expect("divergraph>")
    child.send("ni rel\t")
    child.expect("u")  # Enter would be quicker than the names
    child.send("\r")
    child.expect(re.escape("relu  ("))
    child.expect("divergraph>")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "+ni relu\n" in (tmp_path / "divergraph" / "shell_history").read_text()
