"""The demo's files laid out as precision_tool keeps them, and a stand-in for a device."""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path

import pytest

from importers.proto.messages import dump_data_pb2

DEVICE = '''
"""Stands in for Ascend's module: a device that always computes the same."""
import os
import shutil


class DumpConfig:
    def __init__(self, **settings):
        self.settings = settings


class NPURunConfig:
    def __init__(self, dump_config):
        self.dump_config = dump_config

    def train(self, files):
        settings = self.dump_config.settings
        if settings.get("enable_dump"):
            graphs = os.environ["DUMP_GRAPH_PATH"]
            shutil.copytree(os.path.join(files, "graph"), graphs, dirs_exist_ok=True)
            shutil.copytree(os.path.join(files, "dump"), settings["dump_path"], dirs_exist_ok=True)
        if settings.get("enable_dump_debug"):
            graphs = os.environ["DUMP_GRAPH_PATH"]
            shutil.copytree(os.path.join(files, "graph"), graphs, dirs_exist_ok=True)
            if os.path.isdir("overflowed"):
                shutil.copytree("overflowed", settings["dump_path"], dirs_exist_ok=True)
'''
SCRIPT = """
import sys

import precision_tool.tf_config as npu_tf_config
from npu_bridge.npu_init import NPURunConfig

config = NPURunConfig(dump_config=npu_tf_config.estimator_dump_config())
print("settings", sorted(config.dump_config.settings))
config.train(sys.argv[1])
"""


@pytest.fixture
def overflowed(lenet, training) -> None:
    """What the stand-in writes when conv2 overflows: its dump, and the record of its task."""
    folder = Path("overflowed", "20230101000000", "0")
    (op,) = (lenet / "npu_fault" / "dump").rglob("Conv2D.LeNet_conv2_Conv2DRelu.*")
    folder.mkdir(parents=True)
    shutil.copy(op, folder)
    *_, task, stream, time = op.name.split(".")
    record = bytearray(2048)
    struct.pack_into("<6Q", record, 256, 1, int(stream), int(task), 0, 0x1000, 0x2000)
    struct.pack_into("<3Q", record, 1024, 0xABC, 4, 0x100)
    header = dump_data_pb2.DumpData(version=b"2.0", dump_time=1)
    output = header.output.add(data_type=4, format=2, size=len(record))
    output.shape.dim.append(len(record))
    head = header.SerializeToString()
    file = folder / f"Opdebug.Node_OpDebug.99.8.{int(time) + 50}"
    file.write_bytes(len(head).to_bytes(8, "little") + head + bytes(record))


@pytest.fixture
def data(lenet, tmp_path) -> Path:
    """A data folder with both sides."""
    root = tmp_path / "precision_data"
    shutil.copytree(lenet / "golden", root / "tf" / "dump")
    (root / "tf" / "graph").mkdir()
    shutil.copy(lenet / "model.ckpt.meta", root / "tf" / "graph")
    for name in ("graph", "dump"):
        shutil.copytree(lenet / "npu_fault" / name, root / "npu" / "debug_0" / name)
    return root


@pytest.fixture
def training(tmp_path, lenet, monkeypatch) -> list[str]:
    """The command that trains on the stand-in, in its own folder, in which divergraph works."""
    folder = tmp_path / "work"
    (folder / "npu_bridge").mkdir(parents=True)
    (folder / "npu_bridge" / "__init__.py").write_text("")
    (folder / "npu_bridge" / "npu_init.py").write_text(DEVICE)
    (folder / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return [sys.executable, "train.py", str(lenet / "npu_fault")]
