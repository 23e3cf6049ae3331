"""Steps that ``divergraph.torch`` recorded, read and judged where PyTorch is not installed."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from itertools import pairwise
from pathlib import Path

import pytest

import divergraph as dg
from graphstore.model import Framework, Verdict
from importers.registry import read_graph

DATA = Path(__file__).parents[1] / "data/torch"


def test_the_call_at_fault_is_named_with_its_argument():
    run = dg.compare(DATA / "golden", None, DATA / "faulty", None)
    assert run.verdict is Verdict.DIVERGED
    (origin,) = run.data.origins
    assert origin.op.endswith("Functional.layer_norm.0.forward")
    assert origin.cause == "eps 0.1, golden 1e-05"


def test_views_casts_and_own_gradients_are_run_again():
    run = dg.compare(DATA / "golden", None, DATA / "faulty", None)
    (line,) = [each for each in run.data.run.warnings if "were run again" in each]
    assert line.startswith("27 of 28 calls were run again; 1 not: 1 float.backward")


def test_inputs_have_the_sources_that_were_recorded():
    graph = read_graph(DATA / "golden")
    ops = {op.name: op for op in graph.ops}
    chain = ["Functional.gelu", "Functional.layer_norm", "Functional.linear"]
    for reader, maker in pairwise(chain):
        assert ops[f"{reader}.0.forward"].inputs[0].producer.op == ops[f"{maker}.0.forward"].id
    linear = ops["Functional.linear.0.forward"]
    assert linear.inputs[1].tensor == "Module.0.Linear.forward.0.parameters.weight"


def as_mindspore(source: Path, target: Path) -> Path:
    """The step *source* in the names that msprobe has for calls of MindSpore, which does not say
    which tensor a call reads."""
    folder = target / "step0/rank0"
    shutil.copytree(source / "step0/rank0", folder)
    kinds = {"Torch": "Mint", "Functional": "MintFunctional", "Module": "Cell", "Linear": "Dense"}
    for name in ("dump.json", "construct.json"):
        content = json.loads((folder / name).read_text(), object_hook=without_source)
        text = re.sub(
            r'"(?:Torch|Functional|Module)\.[^"]*"',
            lambda call: (
                f'"{".".join(kinds.get(part, part) for part in call[0][1:-1].split("."))}"'
            ),
            json.dumps(content),
        )
        text = text.replace('"torch.Tensor"', '"mindspore.Tensor"').replace('"torch.', '"')
        text = text.replace('"framework": "pytorch"', '"framework": "mindspore"')
        (folder / name).write_text(text)
    return target


def without_source(entry: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in entry.items() if key != "source"}


def test_calls_of_mindspore_are_run_again_beside_those_of_pytorch(tmp_path):
    device = as_mindspore(DATA / "faulty", tmp_path / "device")
    golden = as_mindspore(DATA / "golden", tmp_path / "golden")
    for right in (golden, DATA / "golden"):
        run = dg.compare(right, None, device, None)
        assert run.data.device.framework is Framework.MINDSPORE
        linked = {link.device for link in run.data.links}
        unlinked = [op.type for op in run.data.device.ops if op.id not in linked]
        assert unlinked == ["float.backward"]  # of bfloat16 alone
        (origin,) = run.data.origins
        assert origin.op.endswith("MintFunctional.layer_norm.0.forward")
        assert origin.cause == "eps 0.1, golden 1e-05"
        (line,) = [each for each in run.data.run.warnings if "were run again" in each]
        assert not line.startswith("0 of")


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Path:
    """Steps of one language model, set up or called otherwise than golden's: all calls right."""
    folder = tmp_path_factory.mktemp("settings")
    with tarfile.open(DATA / "settings.tar.xz") as packed:
        # Python 3.11.3 and older has no filters.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)
    return folder / "settings"


@pytest.mark.parametrize(
    ("setting", "first", "cause"),
    [
        ("detached", "mixed.1.Linear.forward.0", "its result takes no gradient, and golden's does"),
        ("behind", "linear.3.forward", "takes no gradient here, and golden's does"),
        ("short", "linear.1.forward", "the last 2 of 8 products of each sum left out"),
        ("frozen", "linear.1.forward", "its weight takes no gradient (is frozen)"),
        ("untied", "head.Linear.parameters_grad.0", "golden's modules share the weight"),
        ("kept", "parameters_grad.0", "those of before were not set to zero"),
        ("places", "embedding.1.forward", "golden calls Tensor.__getitem__.0.forward"),
        ("scales", "add.1.forward", "a constant or a buffer that no recorded call made"),
    ],
)
def test_a_step_that_is_set_up_otherwise_has_one_origin(settings, setting, first, cause):
    run = dg.compare(settings / "golden", None, settings / setting, None)
    (origin,) = run.data.origins
    assert origin.op.endswith(first)
    assert cause in origin.cause


def test_other_labels_are_other_data(settings):
    run = dg.compare(settings / "golden", None, settings / "labels", None)
    assert run.verdict is Verdict.INPUTS_DIFFER


def test_another_argument_without_an_error_is_said(settings):
    run = dg.compare(settings / "golden", None, settings / "decay", None)
    assert not run.data.origins
    (line,) = [each for each in run.data.run.warnings if each.startswith("another argument")]
    assert "argument 1 is 0.9999, golden 0.99999, of Tensor.mul_.0.forward" in line


def test_a_step_that_is_set_up_alike_is_right(settings):
    run = dg.compare(settings / "golden", None, settings / "right", None)
    assert run.verdict in (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)
    assert not any(each.startswith("another argument") for each in run.data.run.warnings)
