"""Fixtures every test can use."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadGroupScheduling

if TYPE_CHECKING:
    from graphstore.contract import RunData

# A busy machine is no failure: nothing here asserts on time.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# TensorFlow is the oracle of its ops as they are defined. With kernels of oneDNN it gives wrong
# numbers: a VALID Conv2D of two images whose output is one column wide takes the wrong rows.
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

# Runs and other values that several folders of tests are made of; tests are no package.
sys.path.insert(0, str(Path(__file__).with_name("made")))
# Servers for a test's time are those that are measured, too.
sys.path.append(str(Path(__file__).parents[1]))

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two more than there are processors: tests of servers wait for them most of their time."""
    return (os.cpu_count() or 1) + 2


class _FilesTogether(LoadGroupScheduling):
    """Tests of one file run in one process: what they share is made once, not in each."""

    def _split_scope(self, nodeid: str) -> str:
        group = super()._split_scope(nodeid)
        return group.partition("::")[0] if group == nodeid else group


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _FilesTogether:
    """Who hands out tests."""
    return _FilesTogether(config, log)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Ten thousand tests and their modules stay: the collector need not walk them again."""
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Have the files of Neo4j fetched before the tests run."""
    import neo4j_files  # found only now: see sys.path above

    config.pluginmanager.register(neo4j_files)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """README's second command asks Neo4j what shows that it answers as the embedded store does."""
    for item in items:
        if item.get_closest_marker("thorough_on_neo4j") and item.get_closest_marker("neo4j"):
            item.add_marker("thorough")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of what TensorFlow or PyTorch runs wait for an environment that has it."""
    for package in ("tensorflow", "torch"):
        if item.get_closest_marker(package) and find_spec(package) is None:
            pytest.skip(f"needs the extra divergraph[{package}]")


@pytest.fixture(scope="session", autouse=True)
def nobodys_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Who runs the tests has settings, passwords, perhaps a server; no test may see them.

    The cache is shared: what was downloaded once is not downloaded again.
    """
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("CONFIG", "DATA", "STATE"):
            patch.setenv(f"XDG_{kind}_HOME", str(home / kind.lower()))
        for name in ("NEO4J_USERNAME", "NEO4J_PASSWORD", "DIVERGRAPH_STORE", "DIVERGRAPH_GLYPHS"):
            patch.delenv(name, raising=False)
        # One process runs the models of all tests: each start of one takes half a second,
        # with TensorFlow five.
        shared = (tmp_path_factory.getbasetemp(), _SHARED)
        patch.setenv("DIVERGRAPH_MODEL_FOLDERS", os.pathsep.join(map(str, shared)))
        yield


@pytest.fixture
def ctrl_c_heard() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, here and in programs started meanwhile.

    A shell starts what runs in the background with SIGINT ignored, and children inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The larger sample data beside the checkout; skips where it is not there."""
    if not _SHARED.is_dir():
        pytest.skip("the larger sample data is not beside this checkout")
    return _SHARED


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The small sample files kept with the tests."""
    return Path(__file__).resolve().parent / "data"


@pytest.fixture(scope="session")
def lenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The LeNet training step that ships with the package: model, golden, two device runs."""
    from divergraph.comparison.demo import unpack_demo_data

    folder = tmp_path_factory.mktemp("lenet")
    unpack_demo_data(folder)
    return folder


@pytest.fixture(scope="session")
def lenet_runs(lenet: Path) -> dict[str, RunData]:
    """LeNet's two device runs, ``npu_clean`` and ``npu_fault``, compared and analysed once."""
    from divergraph.comparison import CompareRequest, compare

    golden = lenet / "model.ckpt.meta", lenet / "golden"
    sides = {name: lenet / name for name in ("npu_clean", "npu_fault")}
    return {
        name: compare(CompareRequest(*golden, side / "graph", side / "dump", name=name))
        for name, side in sides.items()
    }


@dataclass(frozen=True)
class Ended:
    """What a command gave back."""

    code: int
    out: str
    err: str
    command: str = ""

    @property
    def json(self) -> Any:
        """The document it printed, which its command's schema allows."""
        import jsonschema

        from divergraph.present.schema import shipped_schema

        printed = json.loads(self.out)
        if self.command:
            jsonschema.validate(printed, json.loads(shipped_schema(self.command)))
        return printed


@pytest.fixture
def divergraph(capsys) -> Callable[..., Ended]:
    """Runs the command line in this process."""
    from divergraph.cli.main import run

    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Ended(code, said.out, said.err, str(arguments[0]))

    return call
