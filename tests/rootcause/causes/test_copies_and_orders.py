"""Right values in other places, and those of other tensors."""

from __future__ import annotations

import numpy as np
from feature_maps import case, expected, label, on_device

from divergraph.rootcause.causes.rules import explain
from divergraph.rootcause.tensor_hashes import TensorHashes


def test_an_op_that_did_nothing_gives_its_input() -> None:
    given, reference = expected(1), expected(2)
    assert label(on_device(given), reference, inputs={"x": given}) == "missing_op"


def test_a_stale_buffer_is_found_by_its_content() -> None:
    reference, foreign = expected(1), expected(7, (1, 32, 12, 10))
    hashes = TensorHashes()
    hashes.add("Conv_3:0", foreign)
    hashes.add("this:0", reference)
    stale = foreign.reshape(-1)[: reference.size].reshape(reference.shape).copy()
    finding = explain(
        case(stale, reference, others=lambda values: hashes.holding(values, "this:0"))
    )
    assert finding is not None
    assert finding.label == "stale_tensor"
    assert finding.evidence["same_as"] == ["Conv_3:0"]


def test_some_foreign_values_of_the_same_distribution_are_no_other_order() -> None:
    """Sorted, they are near the expected ones by chance, but not as near as noise is."""
    rng = np.random.default_rng(2)
    shape = (128, 128)
    reference = rng.standard_normal(shape).astype(np.float32)
    blocks = np.repeat(rng.random(256) < 0.2, 64).reshape(shape)
    device = np.where(blocks, rng.standard_normal(shape), reference)

    assert label(on_device(device), reference) != "reordered"


def test_slices_that_are_alike_are_moved_not_copied() -> None:
    reference = expected(4, (20, 12))
    reference[:, [2, 5, 9]] = 0
    device = np.concatenate([reference[:, 0::2], reference[:, 1::2]], axis=1)

    assert label(on_device(device), reference) == "reordered"


def test_slices_next_to_others_but_for_noise_are_exchanged_not_copied() -> None:
    """One of the two is as near to a third slice as to its own place."""
    reference = expected(4, (20, 12))
    reference[:, 7] = reference[:, 2] + 1e-3
    device = reference.copy()
    device[:, [2, 9]] = device[:, [9, 2]]
    device[:, 9] += 8e-4

    assert label(device, reference) == "reordered"


def test_slices_of_one_value_are_no_copies_of_those_with_the_same() -> None:
    reference = expected()
    reference[:, 9] = -0.25
    device = reference.copy()
    device[:, 4] = -0.25

    assert label(device, reference) != "repeated_slices"


def test_a_slice_near_the_mean_of_another_does_not_hold_it() -> None:
    """What a convolution makes of weights that are all alike hardly varies."""
    rng, reference = np.random.default_rng(6), expected()
    reference[:, 4] = 1.0 + 1e-3 * rng.standard_normal(reference[:, 4].shape)
    device = reference.copy()
    device[:, 4] = 1e-2 * rng.standard_normal(reference[:, 4].shape) - 1.0
    reference[:, 9] = 1e-2 * rng.standard_normal(reference[:, 9].shape) - 1.0
    device[:, 9] = reference[:, 9]

    assert label(device, reference) != "repeated_slices"
