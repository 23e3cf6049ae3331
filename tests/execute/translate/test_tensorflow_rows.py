"""Every row of the table against TensorFlow, on shapes, types and paddings drawn at random."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.made.tensorflow_ops import BUILDS, CASES
from tests.made.tensorflow_ops.drawing import Build
from tests.made.tensorflow_ops.running import check_rows

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]


def _named(build: Build) -> str:
    return next(name for name, each in CASES.items() if each is build)


def options(examples: int) -> settings:
    return settings(
        max_examples=examples,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


@pytest.mark.parametrize("build", BUILDS, ids=_named)
@options(2)
@given(data=st.data())
def test_a_row_gives_what_tensorflow_gives(
    tmp_path: Path, build: Build, data: st.DataObject
) -> None:
    check_rows(tmp_path, build, data.draw)


@pytest.mark.exhaustive
@pytest.mark.parametrize("build", BUILDS, ids=_named)
@options(60)
@given(data=st.data())
def test_a_row_gives_it_in_all_cases(tmp_path: Path, build: Build, data: st.DataObject) -> None:
    check_rows(tmp_path, build, data.draw)
