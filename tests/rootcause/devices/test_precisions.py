"""Each arithmetic of a device: found like plug-ins, rounding like the type it is named after."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import numpy as np
import pytest

from divergraph.api.arguments import precision_names, root_cause_of
from divergraph.files import discovered as registry
from divergraph.rootcause.devices import precision as contract
from divergraph.rootcause.devices.precision import precision_named, precision_of, precisions
from divergraph.rootcause.devices.precisions.bf16 import BF16, Brain
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.devices.precisions.int8 import INT8
from graphstore.errors import InputError
from graphstore.model import DType

RNG = np.random.default_rng(3)
VALUES = RNG.standard_normal(500).astype(np.float32)


class Coarse(Brain):
    """An arithmetic of 4 bits of mantissa, as an installed package would bring it."""

    name = "fp8"
    unit = 2.0**-4
    dtype = None
    coarseness = 9

    def rounded(self, value):
        fraction, exponent = np.frexp(value)
        return np.ldexp(np.rint(fraction * 16) / 16, exponent).astype(value.dtype)


@pytest.fixture
def installed(monkeypatch):
    """Coarse, found by its entry point, beside one that cannot be loaded."""
    group = contract.ENTRY_POINT_GROUP
    entry = EntryPoint("gone", "no_such_package:thing", group)

    class Found:
        name, value = "fp8", "test"

        def load(self):
            return Coarse()

    monkeypatch.setattr(registry, "entry_points", lambda group: [Found(), entry])
    precisions.cache_clear()
    yield
    precisions.cache_clear()


def test_the_built_in_ones_are_found_the_coarsest_first() -> None:
    assert [str(each) for each in precisions()] == ["bf16", "fp16", "fp32", "int8"]
    assert precision_named("fp16") is FP16
    with pytest.raises(InputError, match="no precision 'fp7'"):
        precision_named("fp7")


def test_precisions_are_listed_without_loading_them_as_they_are_called(installed) -> None:
    words = ("auto", "bf16", "fp16", "fp32", "hf32", "int8", "tf32")
    assert precision_names(installed=False) == words
    assert {*precision_names(installed=True)} == {*words, "fp8"}
    for word in words:
        assert root_cause_of(6.0, 10.0, word, 1).precision is not None or word == "auto"


def test_an_installed_arithmetic_is_found_in_dumps(installed) -> None:
    fp8 = precision_named("fp8")
    assert precisions()[0] is fp8
    assert precision_of(fp8.rounded(VALUES), DType.FLOAT32) is fp8
    assert precision_of(BF16.rounded(VALUES), DType.FLOAT32) is BF16


@pytest.mark.parametrize("precision", [FP16, BF16], ids=str)
def test_rounding_stays_within_the_unit_and_fits(precision) -> None:
    rounded = precision.rounded(VALUES)
    errors = np.abs(rounded - VALUES) / np.abs(VALUES)
    assert precision.unit / 4 < errors.max() <= precision.unit
    assert precision.fits(rounded)
    assert not precision.fits(VALUES)
    assert precision.rounds


def test_float16_has_subnormals_and_no_upper_end() -> None:
    assert FP16.rounded(np.array([3e-8], np.float32))[0] == np.float32(2.0**-24) * 1
    assert FP16.rounded(np.array([1e6], np.float32))[0] == pytest.approx(1e6, rel=1e-3)
    assert FP16.largest == float(np.finfo(np.float16).max)
    assert FP16.smallest_normal == float(np.finfo(np.float16).smallest_normal)


@pytest.mark.parametrize("precision", [FP32, INT8], ids=str)
def test_what_does_not_round_is_disturbed(precision) -> None:
    seen = []

    def disturb(value, size):
        seen.append(size)
        return value + 1

    assert precision.rounded(VALUES) is VALUES
    assert np.array_equal(precision.emulate(VALUES, disturb), VALUES + 1)
    assert 2.0**-24 < seen[0] < 2.0**-18
    assert not precision.rounds


def test_dumps_of_a_type_tell() -> None:
    assert precision_of(np.zeros(3, np.float16), DType.FLOAT16) is FP16
    assert precision_of(np.zeros(3, np.float32), DType.FLOAT32) is None
