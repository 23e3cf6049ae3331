"""Models run in a process that has no network, one writable folder, and limits: really tried."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import model_attempts as attempts
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from divergraph.execute.child.executor import called_in_child, isolation_gaps
from divergraph.execute.child.limits import ModelLimits
from divergraph.execute.child.process import Place
from divergraph.execute.child.wire import AnswerError, read_answer, send_answer
from divergraph.execute.contract import Executor, RunnableSubgraph
from divergraph.execute.installed import open_executor
from divergraph.execute.onnx.executor import OnnxRuntimeFactory
from divergraph.execute.translate.ge.executor import DeviceOpsFactory
from graphstore.errors import DivergraphError, ExecutionError, InputError
from importers.registry import read_graph

pytestmark = pytest.mark.thorough

Tried = Callable[..., Any]
X = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Tried:
    """Do something where a model would, which may take 256 MiB and 3 s."""
    monkeypatch.setenv("DIVERGRAPH_MODEL_MEMORY", "256")
    monkeypatch.setenv("DIVERGRAPH_MODEL_SECONDS", "3")
    monkeypatch.delenv("DIVERGRAPH_MODEL_FOLDERS")
    return lambda function, *given: called_in_child((), attempts.nothing, function, *given)


def skip_without(part: str) -> None:
    for each, reason in isolation_gaps():
        if each.startswith(part):
            pytest.skip(f"this system does not hold {each!r}: {reason}")


@pytest.fixture
def port() -> Iterator[int]:
    """Somebody who waits for calls on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_there_is_no_network(tried: Tried, port: int) -> None:
    skip_without("no network")
    assert attempts.connect(Path(), port) == ""
    assert tried(attempts.connect, port)
    assert tried(attempts.send_datagram, port)


def test_what_loads_the_same_shares_a_process(tmp_path: Path) -> None:
    factories = (OnnxRuntimeFactory(), DeviceOpsFactory(), DeviceOpsFactory())
    limits = ModelLimits.of_environment()
    assert len({Place((tmp_path,), limits, factory.load) for factory in factories}) == 1


def test_only_its_folder_can_be_written(tried: Tried, tmp_path: Path) -> None:
    skip_without("one writable folder")
    there = tmp_path / "there"
    there.write_text("mine")
    assert tried(attempts.write, there) == "PermissionError"
    assert tried(attempts.write, tmp_path / "new") == "PermissionError"
    assert tried(attempts.remove, there) == "PermissionError"
    assert tried(attempts.write_in_own_folder) == ""
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert there.read_text() == "mine"


def test_files_that_are_not_the_models_cannot_be_read(tried: Tried, tmp_path: Path) -> None:
    skip_without("one writable folder")
    (tmp_path / "secret").write_text("secret")
    assert tried(attempts.read, tmp_path / "secret") == "PermissionError"
    assert tried(attempts.read, Path("/etc/passwd")) == "PermissionError"
    assert called_in_child((tmp_path,), attempts.nothing, attempts.read, tmp_path / "secret") == ""


def test_a_folder_that_is_named_for_all_models_can_be_read(
    tried: Tried, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weights").write_text("linked to")
    monkeypatch.setenv("DIVERGRAPH_MODEL_FOLDERS", str(tmp_path))
    assert tried(attempts.read, tmp_path / "weights") == ""


def test_memory_has_a_limit_also_in_copies_of_the_process(tried: Tried) -> None:
    assert tried(attempts.take_memory, 100) == str(100 << 20)
    with pytest.raises(ExecutionError, match=r"needs more memory than 256 MiB.*MODEL_MEMORY"):
        tried(attempts.take_memory, 300)
    assert tried(attempts.take_memory_in_copies, 4, 300) == "0"
    assert tried(attempts.take_memory_in_copies, 2, 50) == "2"


def test_what_a_model_before_kept_is_not_taken_from_the_next(tried: Tried) -> None:
    assert [tried(attempts.keep_memory, 10) for _ in range(2)] == ["1", "2"]
    assert tried(attempts.keep_memory, 150) == "3"
    assert tried(attempts.keep_memory, 150) == "1"


def test_an_error_that_says_nothing_where_no_memory_is_left_is_one_of_memory(tried: Tried) -> None:
    with pytest.raises(ExecutionError, match=r"needs more memory than 256 MiB"):
        tried(attempts.fail_without_a_word_when_full)


def test_a_file_has_a_limit(tried: Tried) -> None:
    assert tried(attempts.fill_disk, 100) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "given", "said"),
    [
        (attempts.end_by, (signal.SIGSEGV,), r"crashed the process that ran it \(SIGSEGV\)"),
        (attempts.end_by, (signal.SIGABRT,), r"crashed the process that ran it \(SIGABRT\)"),
        (attempts.end_by, (signal.SIGKILL,), "was killed: the system had no memory left"),
        (attempts.end_by, (signal.SIGXCPU,), "more than 3 s without a result.*MODEL_SECONDS"),
        (attempts.read_nowhere, (), "SIGSEGV"),
        (attempts.sleep, (30,), "more than 3 s without a result.*MODEL_SECONDS"),
        (attempts.answer_rubbish, (), "gave what is no answer"),
    ],
    ids=lambda given: getattr(given, "__name__", None),
)
def test_an_end_is_one_sentence_and_the_next_model_runs(
    tried: Tried, function: Tried, given: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(ExecutionError, match=said):
        tried(function, *given)
    assert tried(attempts.write_in_own_folder) == ""


def test_what_is_no_plain_value_does_not_come_out(tried: Tried) -> None:
    with pytest.raises(DivergraphError, match="not JSON serializable"):
        tried(attempts.answer_of_objects)


def test_an_answer_of_objects_is_never_made_into_them() -> None:
    sent = bytearray()
    send_answer(lambda data: sent.extend(bytes(data)), {"values": {"a": X, "b": np.array([b"t"])}})

    def heard(data: bytes, most: int = 1 << 20) -> dict[str, Any]:
        left = memoryview(data)

        def fill(buffer: memoryview) -> None:
            nonlocal left
            buffer[:], left = left[: len(buffer)], left[len(buffer) :]

        return read_answer(fill, most)

    np.testing.assert_array_equal(heard(bytes(sent))["values"]["a"], X)
    with pytest.raises(AnswerError):
        heard(bytes(sent).replace(b"<f4", b"|O8"))
    with pytest.raises(AnswerError):
        heard(bytes(sent), most=8)


@pytest.mark.slow
def test_what_a_model_starts_ends_with_it(tried: Tried) -> None:
    left = int(tried(attempts.leave_a_copy))
    with pytest.raises(ExecutionError):
        tried(attempts.sleep, 30)
    assert gone(left)


def gone(pid: int) -> bool:
    """Whether a process ends within 10 s."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


_WAITS = """
import sys
from divergraph.execute.child.process import _PROCESSES
from divergraph.execute.installed import open_executor
from divergraph.execute.onnx.executor import OnnxRuntimeFactory
from divergraph.execute.translate.ge.executor import DeviceOpsFactory
from importers.registry import read_graph
from pathlib import Path
path = Path(sys.argv[1])
executor = open_executor(path, read_graph(path))
(process,) = _PROCESSES._known.values()
print(process._process.pid, process.folder, flush=True)
import numpy as np
try:
    list(executor.run({"x": np.zeros((2, 4), np.float32)}))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_whoever_goes_takes_the_model_along(
    tmp_path: Path, number: int, ctrl_c_heard: None
) -> None:
    model = endless(tmp_path)
    parent = subprocess.Popen(
        [sys.executable, "-c", _WAITS, str(model)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid, folder = parent.stdout.readline().split()
    time.sleep(0.5)
    os.kill(parent.pid, number)
    parent.communicate(timeout=30)
    assert gone(int(pid))
    # The process may write in its folder only, so it cannot remove that itself.
    assert not Path(folder).exists() or not any(Path(folder).iterdir())


def endless(folder: Path) -> Path:
    """n = -x, and y, which a loop never ends to make."""
    truth = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["d"]),
            helper.make_node("Identity", ["v"], ["w"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            truth,
            helper.make_tensor_value_info("v", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Loop", ["most", "true", "n"], ["y"], body=body),
    ]
    weights = {"most": np.array(2**62), "true": np.array(True)}
    graph = helper.make_graph(
        nodes,
        "endless",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    path = folder / "endless.onnx"
    sets = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=sets, ir_version=8), str(path))
    return path


def opened(path: Path) -> Executor:
    return open_executor(path, read_graph(path))


@pytest.mark.slow
def test_the_ops_around_one_that_never_ends_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIVERGRAPH_MODEL_SECONDS", "2")
    executor = opened(endless(tmp_path))
    subgraphs = [
        RunnableSubgraph("before", ("x",), ("n",)),
        RunnableSubgraph("never", ("n",), ("y",)),
        RunnableSubgraph("after", ("x",), ("n",)),
    ]
    results = list(executor.run_subgraphs(subgraphs, lambda piece: dict.fromkeys(piece.inputs, X)))
    found = {each.key: each for each in results}
    assert len(results) == len(found) == 3
    assert "more than 2 s without a result" in found["never"].failure
    for name in ("before", "after"):
        np.testing.assert_array_equal(found[name].values["n"], -X)


@pytest.mark.slow
def test_a_model_that_always_ends_its_process_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIVERGRAPH_MODEL_SECONDS", "1")
    executor = opened(endless(tmp_path))
    subgraphs = [RunnableSubgraph(str(number), ("n",), ("y",)) for number in range(40)]
    start = time.monotonic()
    results = list(executor.run_subgraphs(subgraphs, lambda _: {"n": X}))
    assert [each.key for each in results] == [piece.key for piece in subgraphs]
    assert all("without a result" in each.failure for each in results)
    assert time.monotonic() - start < 60


def test_what_gives_the_inputs_may_run_the_model_itself(tmp_path: Path) -> None:
    executor = opened(endless(tmp_path))

    def values(piece: RunnableSubgraph) -> dict[str, np.ndarray]:
        (inner,) = executor.run_subgraphs(
            [RunnableSubgraph("inner", ("x",), ("n",))], lambda _: {"x": X}
        )
        return {"x": inner.values["n"]}

    pieces = [RunnableSubgraph(str(number), ("x",), ("n",)) for number in range(3)]
    for each in executor.run_subgraphs(iter(pieces), values):
        np.testing.assert_array_equal(each.values["n"], X)


def test_an_error_in_what_gives_the_inputs_is_raised_here(tmp_path: Path) -> None:
    executor = opened(endless(tmp_path))

    def values(piece: RunnableSubgraph) -> dict[str, np.ndarray]:
        raise LookupError(piece.key)

    pieces = [RunnableSubgraph("no inputs", ("x",), ("n",))]
    with pytest.raises(LookupError, match="no inputs"):
        list(executor.run_subgraphs(pieces, values))
    (again,) = executor.run_subgraphs(pieces, lambda _: {"x": X})
    np.testing.assert_array_equal(again.values["n"], -X)


@pytest.mark.parametrize("name", ["DIVERGRAPH_MODEL_MEMORY", "DIVERGRAPH_MODEL_SECONDS"])
@pytest.mark.parametrize("given", ["0", "-1", "2.5", "much"])
def test_a_limit_that_is_no_number_is_said(
    monkeypatch: pytest.MonkeyPatch, name: str, given: str
) -> None:
    monkeypatch.setenv(name, given)
    with pytest.raises(InputError, match=f"{name}={given} is no number"):
        ModelLimits.of_environment()
