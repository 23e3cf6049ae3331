"""Limits for some tensors only: which rule wins, and what a file may and may not say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from divergraph.metrics.limits.defaults import BY_DTYPE, DEFAULT_FAIL, DEFAULT_WARN
from divergraph.metrics.limits.quantities import QUANTITIES
from divergraph.metrics.limits.thresholds import NO_LIMIT, Thresholds, load_thresholds
from divergraph.metrics.measure import measure
from graphstore.errors import ConfigError
from graphstore.model import DType, Level, Metric

VALUES = np.linspace(1, 2, 100, dtype=np.float32)
TEN_OFF = measure(VALUES * np.float32(1.1), VALUES)
RULES = """
relative_euclidean_distance = 0.2

[warn]
relative_euclidean_distance = 0.15

[dtypes.bfloat16]
relative_euclidean_distance = 0.3

[types.MatMul.fail]
relative_euclidean_distance = 0.02

[types."*Grad*"]
relative_euclidean_distance = 0.5

[types.ReluGrad]
relative_euclidean_distance = 0.04

[names."*/logits"]
relative_euclidean_distance = 0.01

[names."head/*"]
relative_euclidean_distance = false
worst_error = false
"""


@pytest.fixture
def rules(tmp_path: Path) -> Thresholds:
    return written(tmp_path, RULES)


def written(folder: Path, text: str) -> Thresholds:
    path = folder / "limits.toml"
    path.write_text(text, "utf-8")
    return load_thresholds(path)


def limit(thresholds: Thresholds, **of: str) -> str:
    return thresholds.judge(TEN_OFF.metrics, TEN_OFF.figures, **of).limit


def test_without_a_rule_of_its_own_a_tensor_has_the_general_limits(rules):
    assert limit(rules, op_type="Conv2D") == "global: within every limit"


def test_a_rule_for_a_type_beats_the_general_one(rules):
    said = "types.MatMul: relative_euclidean_distance > 0.02"
    assert limit(rules, op_type="MatMul", device=DType.FLOAT16) == said


def test_of_two_rules_for_types_the_one_that_says_more_wins(rules):
    assert limit(rules, op_type="SoftmaxGrad") == "types.*Grad*: within every limit"
    said = "types.ReluGrad: relative_euclidean_distance > 0.04"
    assert limit(rules, op_type="ReluGrad") == said


def test_a_rule_for_names_beats_all_others(rules):
    said = "names.*/logits: relative_euclidean_distance > 0.01"
    assert limit(rules, op_type="Add", name="model/logits", device=DType.BFLOAT16) == said
    # The longer pattern is the more specific one, and both fit.
    assert limit(rules, op_type="MatMul", name="head/logits") == said
    assert limit(rules, op_type="MatMul", name="head/3") == "names.head/*: within every limit"


def test_a_name_with_brackets_can_be_given_as_it_is(tmp_path):
    rules = written(tmp_path, '[names."layer[3]/out"]\nsnr = 90\n')
    assert limit(rules, name="layer[3]/out") == "names.layer[3]/out: snr < 90"
    assert limit(rules, name="layer4/out").startswith("default")


def test_a_rule_for_an_element_type_beats_what_is_built_in(rules):
    assert limit(rules, device=DType.BFLOAT16) == "dtypes.bfloat16: within every limit"


def test_a_file_without_that_type_leaves_what_is_built_in(tmp_path):
    rules = written(tmp_path, "[warn]\nmax_absolute_error = 9\n")
    assert limit(rules, device=DType.BFLOAT16).startswith("default.bfloat16: relative_euclidean")
    assert limit(rules).startswith("default: relative_euclidean")


def test_the_general_limit_of_a_file_holds_for_coarse_types_too(tmp_path):
    rules = written(tmp_path, "relative_euclidean_distance = 0.07\n")
    assert limit(rules, device=DType.BFLOAT16) == "global: relative_euclidean_distance > 0.07"


FIGURE_LIMITS = {
    "bad_share": (0.01, "bad_share > 0.01"),
    "close_share": (0.99, "close_share < 0.99"),
    "equal_share": (0.5, "equal_share < 0.5"),
    "snr": (40, "snr < 40"),
    "psnr": (40, "psnr < 40"),
    "worst_absolute_error": (0.1, "worst_absolute_error > 0.1"),
    "worst_error": (0.01, "worst_error > 0.01"),
    "max_relative_error": (0.05, "max_relative_error > 0.05"),
    "root_mean_square_error": (0.01, "root_mean_square_error > 0.01"),
}


@pytest.mark.parametrize("name", FIGURE_LIMITS)
def test_figures_can_be_limited_like_metrics(tmp_path, name):
    bound, said = FIGURE_LIMITS[name]
    rules = written(
        tmp_path, f"relative_euclidean_distance = false\n[types.Add]\n{name} = {bound}\n"
    )
    result = rules.judge(TEN_OFF.metrics, TEN_OFF.figures, op_type="Add")
    assert (result.level, result.limit) == (Level.FAIL, f"types.Add: {said}")
    assert result.failed
    assert rules.judge(TEN_OFF.metrics, TEN_OFF.figures).level is Level.WARN


def test_a_limit_on_what_was_not_measured_says_nothing():
    rules = Thresholds.only({"max_ulp": 1.0, "snr": 90.0}, {})
    assert rules.judge(TEN_OFF.metrics).level is Level.PASS
    assert rules.judge(TEN_OFF.metrics, TEN_OFF.figures).limit == "global: snr < 90"


def test_everything_but_the_deviation_can_be_limited():
    assert set(Metric) - set(QUANTITIES) == {Metric.STANDARD_DEVIATION}


def test_a_run_keeps_the_limits_it_was_judged_by(rules):
    stored = rules.as_mapping()
    assert stored["relative_euclidean_distance"] == 0.2
    assert stored["warn.relative_euclidean_distance"] == 0.15
    assert stored["types.MatMul.relative_euclidean_distance"] == 0.02
    assert stored["names.head/*.worst_error"] == NO_LIMIT


def test_what_is_built_in_is_excused_and_what_a_file_says_is_not(tmp_path):
    grid = np.clip(np.round(VALUES * 40 - 60), -128, 126).astype(np.int8)
    found = measure(grid + np.int8(1), grid)
    of = {"device": DType.INT8, "golden": DType.INT8}
    built_in = Thresholds().judge(found.metrics, found.figures, **of)
    assert built_in.limit == "default.int8: one step of the grid at most"
    strict = written(tmp_path, "[dtypes.int8]\nmax_absolute_error = 0\n")
    said = strict.judge(found.metrics, found.figures, **of)
    assert said.limit == "dtypes.int8: max_absolute_error > 0"


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("[dtypes.float17]\nsnr = 3\n", ":1", "did you mean float16?"),
        ("snr = 1\n[types.Add.warn]\n\nsnrr = 3\n", ":4", "did you mean snr?"),
        ('[names."a.b*".fail]\nbad_share = 2\n', ":2", "a maximum from 0 to 1"),
        ("[types.Add]\nclose_share = -1\n", ":2", "a minimum from 0 to 1"),
        ("[types]\nAdd = 3\n", ":2", "types.Add is not a table"),
        ("types = 3\n", ":1", "types is not a table"),
        ("[types.Add.error]\nsnr = 3\n", "", "error is not a table of limits"),
        ("[types.Add]\nstandard_deviation = 1\n", ":2", "four numbers"),
    ],
)
def test_a_wrong_rule_is_refused_with_the_line(tmp_path, text, where, says):
    with pytest.raises(ConfigError) as caught:
        written(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'limits.toml'}{where}: ")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "relative_euclidean_distance = 0.5\n",
        "relative_euclidean_distance = false\n",
        "max_absolute_error = 3\nrelative_euclidean_distance = 0.5\n",
        "[types.Add]\nrelative_euclidean_distance = 0.5\n",
    ],
)
def test_who_allows_a_larger_distance_allows_larger_single_errors(tmp_path, text):
    """So files from before there was a limit of the worst error mean what they did."""
    golden = np.where(np.arange(100) == 7, 4, VALUES).astype(np.float32)
    device = golden.copy()
    device[7] = 2
    found = measure(device, golden)
    of = {"op_type": "Add"}
    assert Thresholds().judge(found.metrics, found.figures, **of).level is Level.FAIL
    rules = written(tmp_path, text)
    assert rules.judge(found.metrics, found.figures, **of).level is not Level.FAIL
    own = written(tmp_path, f"worst_error = 0.5\n{text}")
    assert own.judge(found.metrics, found.figures, **of).limit == "global: worst_error > 0.5"


def test_the_page_has_the_limits_of_each_element_type():
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "thresholds.md").read_text("utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    told = {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows}
    names = {
        "bfloat16": DType.BFLOAT16,
        "8-bit floats with 3 bits of fraction": DType.FLOAT8_E4M3FN,
        "8-bit floats with 2 bits of fraction": DType.FLOAT8_E5M2,
        "int8, uint8": DType.UINT8,
        "int4, uint4": DType.INT4,
    }
    for words, dtype in names.items():
        assert told[words] == [f"{bound:g}" for bound in BY_DTYPE[dtype][:4]], words
    usual = told["float16, float32, float64"]
    distance = Metric.RELATIVE_EUCLIDEAN_DISTANCE
    bounds = [DEFAULT_FAIL[distance], DEFAULT_FAIL["cosine_similarity"]]
    bounds += [DEFAULT_FAIL["worst_error"], DEFAULT_WARN[distance]]
    assert usual == [f"{bound:g}" for bound in bounds]
