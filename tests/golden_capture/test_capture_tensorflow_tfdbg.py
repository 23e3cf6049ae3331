"""The driver of tfdbg, on a program that answers as tfdbg does, and on tfdbg itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from divergraph.cli.main import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("pexpect") is None, reason="needs pexpect"),
]
FAKE = Path(__file__).parent / "tfdbg" / "fake_tfdbg.py"
LONG = "_".join(f"a_scope_with_a_rather_long_name_{number}" for number in range(8))


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """The driver as a user gets it."""
    file = tmp_path / "tfdbg_driver.py"
    assert run(["capture", "--write-tfdbg-driver", str(file)]) == 0
    return file


def drive(driver: Path, *arguments: str, script: Path = FAKE) -> subprocess.CompletedProcess[str]:
    own = [arg for arg in arguments if not arg.startswith("fake:")]
    passed = [arg.removeprefix("fake:") for arg in arguments if arg.startswith("fake:")]
    command = [sys.executable, str(driver), "-o", str(driver.parent / "out"), *own]
    command += ["--", sys.executable, "-u", str(script), *passed]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def stems(folder: Path) -> dict[str, Path]:
    return {path.name.rsplit(".", 2)[0]: path for path in folder.glob("*.npy")}


def test_every_tensor_is_saved_under_the_name_of_the_recipe(driver: Path) -> None:
    done = drive(driver)
    assert done.returncode == 0, done.stderr
    found = stems(driver.parent / "out")
    named = {"IteratorGetNext.0", "IteratorGetNext.1", "net_conv1_kernel_read.0"}
    assert named | {"net_conv1_Relu.0", "loop_add.0"} <= set(found)
    np.testing.assert_array_equal(np.load(found["net_conv1_Relu.0"]), [[0, 1], [2, 0]])
    assert np.load(found["loop_add.0"]) == 1  # the first turn of the loop
    assert "left out: text:0: texts" in done.stderr
    assert "left out: stack:0: a resource or the like" in done.stderr
    assert done.stdout.endswith("out: 6 tensors\n")


def test_names_too_long_for_a_file_are_numbered_and_listed(driver: Path) -> None:
    drive(driver)
    out = driver.parent / "out"
    short, full = (out / "mapping.csv").read_text().strip().split(",")
    assert full.startswith(f"{LONG}_MatMul.0.")
    np.testing.assert_array_equal(np.load(out / short), [7])
    assert max(len(path.name) for path in out.iterdir()) <= 200


@pytest.mark.parametrize("trouble", ["--cut", "--pages"])
def test_cut_names_and_pages_change_nothing(driver: Path, trouble: str) -> None:
    done = drive(driver, f"fake:{trouble}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("out: 6 tensors\n")
    assert f"{LONG}_MatMul.0." in (driver.parent / "out" / "mapping.csv").read_text()


def test_a_later_step(driver: Path) -> None:
    log = driver.parent / "log"
    done = drive(driver, "--step", "3", "--log", str(log))
    assert done.returncode == 0, done.stderr
    assert "run-end: run #3" in log.read_text()


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("--ends", "ended before tfdbg asked: ValueError: no data set here"),
        ("--silent", "no prompt of tfdbg within 2 s"),
        ("--full-screen", 'start it with ui_type="readline"'),
    ],
)
def test_trouble_is_said_in_one_line(driver: Path, trouble: str, said: str) -> None:
    done = drive(driver, "--run-time-out", "2", f"fake:{trouble}")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_is_written_over(driver: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = driver.parent / "out"
    out.mkdir()
    (out / "mine").touch()
    assert "there is something here already" in drive(driver).stderr
    capsys.readouterr()
    assert run(["capture", "--write-tfdbg-driver", str(driver)]) == 2
    assert "File exists" in capsys.readouterr().err


def test_the_driver_runs_on_pythons_of_tensorflow_1(driver: Path) -> None:
    tree = ast.parse(driver.read_text(), feature_version=(3, 7))
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name) or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported <= {"__future__", *sys.stdlib_module_names} | {"importlib"}


SCRIPT = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, tensorflow as tf
from tensorflow.python.debug.wrappers.local_cli_wrapper import LocalCLIDebugWrapperSession
v1 = tf.compat.v1
v1.disable_eager_execution()
x = v1.placeholder("float32", [3, 4], "x")
with v1.variable_scope("net", use_resource=False):
    w = v1.get_variable("w", [4, 2], initializer=v1.ones_initializer())
    loss = v1.reduce_sum(v1.nn.relu(v1.matmul(x, w, name="product")), name="loss")
train = v1.train.GradientDescentOptimizer(0.5).minimize(loss, name="train")
session = v1.Session()
session.run(v1.global_variables_initializer())
session = LocalCLIDebugWrapperSession(session, ui_type="readline")
session.run(train, {x: np.ones((3, 4), np.float32)})
"""


@pytest.mark.tensorflow
def test_a_step_under_tfdbg_itself(driver: Path) -> None:
    script = driver.parent / "train.py"
    script.write_text(SCRIPT)
    done = drive(driver, script=script)
    assert done.returncode == 0, done.stderr
    found = stems(driver.parent / "out")
    np.testing.assert_array_equal(np.load(found["net_product.0"]), np.full((3, 2), 4.0))
    gradient = np.load(found["gradients_net_product_grad_MatMul_1.0"])
    np.testing.assert_array_equal(gradient, np.full((4, 2), 3.0))
    updated = np.load(found["train_update_net_w_ApplyGradientDescent.0"])
    np.testing.assert_array_equal(updated, np.full((4, 2), -0.5))
