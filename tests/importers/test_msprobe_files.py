"""Files and folders of msprobe: which run is read, what is wrong with one, and real ones."""

from __future__ import annotations

import json

import pytest

from graphstore.errors import ImportFormatError, InputError
from graphstore.model import Framework
from graphstore.traverse.topological_order import topo_order
from importers.registry import read_graph


def test_half_characters_are_no_text(tmp_path):
    path = tmp_path / "dump.json"
    name = r"Torch.\ud83d\ude00\ud800\\ud800.0.forward"
    path.write_text('{"task": "statistics", "data": {"' + name + '": {}}}')
    (op,) = read_graph(path).ops
    assert op.name == "Torch.\U0001f600\ufffd\\ud800.0.forward"
    assert op.name.encode()


def test_folders_with_several_runs_are_listed_and_chosen(tmp_path):
    for step in (0, 1):
        for rank in (0, 1):
            folder = tmp_path / f"step{step}" / f"rank{rank}"
            folder.mkdir(parents=True)
            calls = {f"Torch.a.{step}{rank}.forward": {}}
            content = {"task": "statistics", "level": "L1", "data": calls}
            (folder / "dump.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"4 runs are in this folder.*step0/rank0") as caught:
        read_graph(tmp_path)
    assert not isinstance(caught.value, ImportFormatError)
    with pytest.raises(InputError, match="no run of rank 7"):
        read_graph(tmp_path, {"rank": "7"})
    graph = read_graph(tmp_path, {"step": "1", "rank": "0"})
    assert graph.ops[0].name == "Torch.a.10.forward"
    assert graph.name == "step1-rank0"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ('{"task": "statistics", "data": {\n"a": }}', "no JSON"),
        ('{"task": "statistics", "data": [1]}', "not a list of calls"),
        ('{"task": "statistics", "data": {}}', "holds no call"),
        ('{"task": "statistics", "data": {"a": 3}}', "is not an object"),
        ('{"task": "statistics", "data": ' + "[" * 100_000, "no JSON"),
        ('{"task": "statistics", "data": {"a": ' + "9" * 10_000 + "}}", "no JSON"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path, content, what):
    path = tmp_path / "dump.json"
    path.write_text(content)
    with pytest.raises(ImportFormatError, match=what):
        read_graph(path)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("folder", "framework", "calls", "first", "last"),
    [
        (
            "gpu_step0",
            Framework.PYTORCH,
            760,
            "Functional.conv2d.0.forward",
            "Module.conv1.Conv2d.parameters_grad.0",
        ),
        (
            "pytorch_data",
            Framework.PYTORCH,
            12,
            "Tensor.__add__.0.forward",
            "NPU.npu_fusion_attention.0.backward",
        ),
        (
            "mindspore_data",
            Framework.MINDSPORE,
            13,
            "Tensor.__add__.0.forward",
            "Functional.flash_attention_score.0.backward",
        ),
    ],
)
def test_the_real_runs(shared_data, folder, framework, calls, first, last):
    graph = read_graph(shared_data / "msprobe" / folder)
    assert (graph.framework, len(graph.ops)) == (framework, calls)
    assert (graph.ops[0].name, graph.ops[-1].name) == (first, last)
    assert topo_order(graph) == [op.id for op in graph.ops]


@pytest.mark.shared
def test_the_data_of_a_real_step_runs_from_its_input_to_its_loss(shared_data):
    """Every convolution is reached from the first, as in any ResNet."""
    graph = read_graph(shared_data / "msprobe" / "gpu_step0")
    reached = {graph.ops[0].id}
    for op in graph.ops:
        if any(ref.producer and ref.producer.op in reached for ref in op.inputs if ref):
            reached.add(op.id)
    convolutions = [op.id for op in graph.ops if op.type == "conv2d"]
    assert len(convolutions) == 53
    assert set(convolutions) <= reached
    assert any(op.type == "cross_entropy" and op.id in reached for op in graph.ops)


def test_ranks_are_told_by_every_name_msprobe_has_for_them(tmp_path):
    for name in ("proc2016", "proc2017"):
        folder = tmp_path / "step3" / name
        folder.mkdir(parents=True)
        (folder / "dump.json").write_text(
            json.dumps({"task": "statistics", "data": {"Torch.a.0.forward": {}}})
        )
    graph = read_graph(tmp_path, {"step": "3", "rank": "2017"})
    assert graph.name == "step3-proc2017"
