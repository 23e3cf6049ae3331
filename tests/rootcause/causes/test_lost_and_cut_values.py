"""Values that are lost, cut off or past the largest number."""

from __future__ import annotations

import numpy as np
from feature_maps import case, expected, on_device

from divergraph.rootcause.causes.rules import explain


def test_an_overflow_names_the_limit() -> None:
    reference = np.array([[1e3, 1.27e5, 3e4, 7e4]], np.float32)
    device = reference.copy()
    device[0, [1, 3]] = np.inf
    finding = explain(case(device, reference))
    assert finding is not None
    assert finding.label == "overflow"
    assert "65504" in finding.sentence
    assert finding.evidence["over_limit"] == 2


def test_a_single_value_that_is_cut_off_is_told_as_one():
    reference = expected(shape=(40,))
    reference[7] = 9.0
    finding = explain(case(np.minimum(reference, 6.0), reference))
    assert finding is not None
    assert finding.sentence.startswith("1 value (2.5 %) is cut off at 6; up to 9 is expected")


def test_of_an_output_of_one_value_that_value_is_said() -> None:
    finding = explain(case(np.float32([2.5]), np.float32([2.0])))
    assert finding is not None
    assert finding.sentence.startswith("its only value is 2.5 in place of 2, 1.25 times it")


def test_channels_of_which_the_bias_is_left_are_said_to_hold_one_value() -> None:
    device = on_device(expected())
    device[:, 3:6] = np.array([0.25, -0.5, 0.75], np.float32).reshape(3, 1, 1)
    finding = explain(case(device, expected()))
    assert finding is not None
    assert finding.label == "dead_channels"
    assert "one value throughout (-0.5 to 0.75)" in finding.sentence
    assert finding.evidence["slices"] == [3, 4, 5]


def test_channels_that_lost_their_weights_and_kept_a_little_are_dead():
    device = on_device(expected())
    device[:, 3:5] = 0.002 * expected(seed=4)[:, 3:5]
    finding = explain(case(device, expected()))
    assert finding.label == "dead_channels"
    assert finding.evidence["slices"] == [3, 4]
    assert "next to nothing" in finding.sentence


def test_one_wrong_value_of_four_is_not_called_cut_off():
    """It happens to be the largest, as one of four often is."""
    reference = np.array([[0.3, -0.2, 0.9, 0.1]], np.float32)
    device = reference.copy()
    device[0, 2] = 0.5
    finding = explain(case(device, reference))
    assert finding is None or finding.label != "saturation"
