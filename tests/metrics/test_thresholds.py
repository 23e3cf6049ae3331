"""What limits say of metrics, and how a thresholds file changes or refuses them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from divergraph.metrics.limits.defaults import DEFAULT_FAIL, DEFAULT_WARN, SUPPORTING
from divergraph.metrics.limits.thresholds import ThresholdJudgement, Thresholds, load_thresholds
from divergraph.metrics.measure import measure
from graphstore.errors import ConfigError
from graphstore.model import Level, Metric

COSINE = Metric.COSINE_SIMILARITY
DISTANCE = Metric.RELATIVE_EUCLIDEAN_DISTANCE
WORST = Metric.MAX_ABSOLUTE_ERROR
VALUES = np.linspace(1, 2, 100, dtype=np.float32)


def judged(device, golden, limits: Thresholds | None = None) -> ThresholdJudgement:
    return (limits or Thresholds()).judge(measure(np.asarray(device), np.asarray(golden)).metrics)


def written(folder: Path, text: str) -> Path:
    path = folder / "limits.toml"
    path.write_text(text, "utf-8")
    return path


def test_equal_values_pass():
    assert judged(VALUES, VALUES) == ThresholdJudgement(
        Level.PASS, limit="default: within every limit"
    )


def test_two_per_cent_off_is_worth_a_warning():
    result = judged(VALUES * np.float32(1.02), VALUES)
    said = "default: relative_euclidean_distance > 0.01 (warn)"
    assert result == ThresholdJudgement(Level.WARN, (), (DISTANCE,), said)


def test_a_high_cosine_does_not_excuse_a_wrong_length():
    result = judged(VALUES * np.float32(1.2), VALUES)
    assert result.level is Level.FAIL
    assert result.failed == (DISTANCE,)
    assert result.limit == "default: relative_euclidean_distance > 0.05"


def test_a_value_at_its_limit_passes():
    limits = Thresholds.only({COSINE: 1.0, WORST: 0.0}, {})
    assert judged(VALUES, VALUES, limits).level is Level.PASS
    assert judged(VALUES + np.float32(1e-6), VALUES, limits).failed == (COSINE, WORST)


def test_a_scalar_is_judged_by_all_but_its_cosine():
    assert judged([3.0], [-3.0]).failed == (
        WORST,
        DISTANCE,
        Metric.ROOT_MEAN_SQUARE_ERROR,
        Metric.MAX_RELATIVE_ERROR,
        Metric.MEAN_RELATIVE_ERROR,
    )


def test_lost_values_fail():
    result = judged(np.zeros(4), np.ones(4))
    assert result.level is Level.FAIL
    assert DISTANCE in result.failed


@pytest.mark.parametrize("size", [2, 5])
def test_values_where_golden_has_only_zeros_fail_although_no_ratio_says_so(size):
    assert judged(np.full(size, 1e-3), np.zeros(size)).failed == (COSINE,)
    assert judged(np.full(size, 1e-7), np.zeros(size)).level is Level.PASS


def test_a_scalar_or_flag_where_golden_has_zero_fails():
    assert judged([1e-3], [0.0]).failed == (DISTANCE,)
    assert judged([True], [False]).failed == (DISTANCE,)
    assert judged([False], [True]).failed == (COSINE,)
    assert judged([[False, True]], [[False, False]]).level is Level.FAIL


def test_some_flags_of_many_may_differ():
    golden = np.ones(1000, dtype=np.bool_)
    device = golden.copy()
    device[:10] = False
    assert judged(device, golden).level is Level.WARN
    device[:30] = False
    assert judged(device, golden).failed == (COSINE,)


def test_the_divergence_of_a_constant_tensors_rounding_is_not_judged():
    golden = np.full(480, 0.5, dtype=np.float32)
    device = golden.copy()
    device[::7] = np.nextafter(np.float32(0.5), np.float32(1))
    result = measure(device, golden).metrics
    assert result.kullback_leibler_divergence > SUPPORTING[Metric.KULLBACK_LEIBLER_DIVERGENCE]
    assert Thresholds().judge(result).level is Level.PASS


def test_equal_flags_pass_without_the_metrics_they_do_not_have():
    assert judged([True, False], [True, False]).level is Level.PASS


def test_empty_tensors_pass():
    assert judged(np.empty(0), np.empty(0)).level is Level.PASS


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_on_one_side_fails(value):
    broken = VALUES.copy()
    broken[7] = value
    for sides in ((broken, VALUES), (VALUES, broken), (broken, broken[::-1])):
        result = judged(*sides)
        assert result.level is Level.FAIL
        assert COSINE in result.failed
    only_divergence_counts = Thresholds.only({}, {})
    assert judged(broken, VALUES, only_divergence_counts).failed == (WORST,)


def test_the_same_infinities_on_both_sides_are_a_warning():
    masked = VALUES.copy()
    masked[::2] = -np.inf
    result = judged(masked, masked)
    assert result.level is Level.WARN
    assert COSINE in result.warned


def test_limits_are_stored_by_name():
    stored = Thresholds.only({COSINE: 0.9}, {DISTANCE: 0.1}).as_mapping()
    assert stored == {"cosine_similarity": 0.9, "warn.relative_euclidean_distance": 0.1}


def test_without_a_file_the_documented_limits_hold():
    stored = load_thresholds(None).as_mapping()
    assert stored == dict(DEFAULT_FAIL) | {
        f"warn.{name}": bound for name, bound in DEFAULT_WARN.items()
    }


def test_a_file_changes_only_what_it_names(tmp_path):
    limits = load_thresholds(
        written(
            tmp_path,
            'cosine_similarity = 0.95\n[fail]\n"mean_relative_error" = false\n'
            "max_absolute_error = 2\n[warn]\nmax_absolute_error = 1\n",
        )
    )
    stored = limits.as_mapping()
    assert stored[COSINE] == 0.95
    assert stored[WORST] == 2.0
    assert stored["warn.max_absolute_error"] == 1.0
    assert stored[DISTANCE] == DEFAULT_FAIL[DISTANCE]
    assert judged([3.0], [-3.0], limits).failed == (
        WORST,
        DISTANCE,
        Metric.ROOT_MEAN_SQUARE_ERROR,
        Metric.MAX_RELATIVE_ERROR,
    ), "the mean relative error is switched off"


def test_an_empty_file_leaves_the_defaults(tmp_path):
    assert load_thresholds(written(tmp_path, "# nothing\n")) == Thresholds()


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("\ncosine_similarty = 0.9\n", ":2", "did you mean cosine_similarity?"),
        ("[warn]\nfoo = 1\n", ":2", "one of relative_euclidean_distance, cosine"),
        ("foo = 1\n[warn]\nfoo = 1\n", ":1", "unknown metric 'foo'"),
        ("[fail]\nstandard_deviation = 1\n", ":2", "four numbers"),
        ('cosine_similarity = "0.9"\n', ":1", "not a limit"),
        ("cosine_similarity = true\n", ":1", "not a limit"),
        ("[warn]\n\nmax_relative_error = nan\n", ":3", "limits nothing"),
        ("max_relative_error = inf\n", ":1", "false to switch"),
        ("max_relative_error = -1\n", ":1", "never hold"),
        ("cosine_similarity = 99\n", ":1", "from -1 to 1"),
        ("[limits]\ncosine_similarity = 0.9\n", ":1", "tables are [fail], [warn], [dtypes.*]"),
        ("fail = 1\n", ":1", "tables are"),
        ("cosine_similarity 0.9\n", "", "not a TOML file"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line(tmp_path, text, where, says):
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_thresholds(path)
    assert str(caught.value).startswith(f"{path}{where}: ")
    assert says in str(caught.value)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_thresholds(tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_thresholds(tmp_path)
    picture = tmp_path / "limits.png"
    picture.write_bytes(b"\x89PNG\r\n\xff")
    with pytest.raises(ConfigError, match="not a TOML file"):
        load_thresholds(picture)


def test_a_metric_without_a_limit_may_be_anything():
    assert math.isfinite(DEFAULT_FAIL[COSINE])
    assert WORST not in DEFAULT_FAIL
    assert (
        judged([1e6, 2e6 + 1], [1e6, 2e6], Thresholds.only({COSINE: 0.9}, {})).level is Level.PASS
    )


def test_values_too_small_for_the_devices_type_are_no_error():
    golden = np.array([2.8e-41, -1.8e-41, -3.8e-41, 6.8e-42, 9.1e-41], np.float32)
    device = np.array([0, -6e-8, 6e-8, 0, 0], np.float16)
    assert judged(device, golden).level is Level.PASS
    assert judged(device + np.float16(0.01), golden).level is Level.FAIL
