"""The demo's run with a pass named in its graph, and runs of the same model without fusion."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from divergraph.cli.main import run

FUSED = "LeNet/conv2/Conv2DRelu"
PASS = "ConvBiasReluFusionPass"
_TIMES = {PASS: "2", "Unused": "0"}
_NAMES = '    attr {\n      key: "_datadump_original_op_names"\n'


@pytest.fixture(scope="module")
def store(lenet, tmp_path_factory) -> Path:
    """Run ``on`` with a fused op that is guilty, and three others without fusion or with it."""
    folder = tmp_path_factory.mktemp("fusion")
    graph = folder / "graph"
    shutil.copytree(lenet / "npu_fault" / "graph", graph)
    (file,) = graph.glob("*_Build.txt")
    text = file.read_text(encoding="utf-8")
    before, after = text.split(f'name: "{FUSED}"\n')
    value = f'      value {{\n        s: "{PASS}"\n      }}\n'
    named = f'    attr {{\n      key: "pass_name"\n{value}    }}\n'
    file.write_text(before + f'name: "{FUSED}"\n' + after.replace(_NAMES, named + _NAMES, 1))
    passes = {name: {"match_times": "3", "effect_times": times} for name, times in _TIMES.items()}
    result = {"session_and_graph_id": "0_61", "graph_fusion": passes}
    (graph / "fusion_result.json").write_text(json.dumps(result))
    plain, faulty = folder / "plain", folder / "faulty"
    for copy in (plain, faulty):
        shutil.copytree(lenet / "golden", copy)
    (wrong,) = faulty.glob("LeNet_conv2_BiasAdd.0.*")
    np.save(wrong, np.load(wrong) * np.float32(1.5))
    model, golden = lenet / "model.ckpt.meta", lenet / "golden"
    for name, device, dump in (
        ("on", graph, lenet / "npu_fault" / "dump"),
        ("off", model, plain),
        ("alone", model, faulty),
        ("again", graph, lenet / "npu_clean" / "dump"),
    ):
        sides = ["--golden", model, "--golden-dump", golden]
        sides += ["--device", device, "--device-dump", dump, "--run", name]
        sides += ["--method", "thresholds", "--store", folder / "store"]
        assert run(["compare", *map(str, sides)]) in (0, 1)
    return folder / "store"
