"""The demo's files laid out as precision_tool keeps them, and a stand-in for a device."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

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
    return [sys.executable, "train.py", str(lenet / "npu_fault")]
