"""The pictures of a tensor pair, held against numpy on the whole arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from divergraph.dump_diff.error_picture import error_map, error_picture

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, max_side=7)
VALUES = st.floats(-100, 100, width=32)


def picture(device, golden):
    return error_picture(device, golden, atol=1e-3, rtol=1e-3)


@given(st.data())
def test_the_means_along_each_axis_are_those_of_the_whole(data):
    shape = data.draw(SHAPES)
    golden, device = (data.draw(hnp.arrays(np.float32, shape, elements=VALUES)) for _ in "gd")
    errors = np.abs(device.astype(np.float64) - golden)
    made = picture(device, golden)
    assert sorted(each.axes[0] for each in made.by_axis) == [
        axis for axis, size in enumerate(shape) if size > 1
    ]
    for each in made.by_axis:
        others = tuple(axis for axis in range(len(shape)) if axis != each.axes[0])
        np.testing.assert_allclose(each.means, errors.mean(axis=others), atol=1e-9)


@given(st.data())
def test_a_map_in_fewer_cells_holds_the_mean_of_its_indices(data):
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=3, min_side=2, max_side=9))
    golden, device = (data.draw(hnp.arrays(np.float32, shape, elements=VALUES)) for _ in "gd")
    cells = (data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9)))
    made = error_map(device, golden, (0, 1), cells)
    errors = np.abs(device.astype(np.float64) - golden)
    errors = errors.reshape(*shape[:2], -1).mean(axis=2)
    down, across = made.steps
    for row, column in np.ndindex(made.means.shape):
        part = errors[row * down : (row + 1) * down, column * across : (column + 1) * across]
        assert made.means[row, column] == pytest.approx(part.mean(), abs=1e-9)
    assert made.means.shape[0] <= cells[0]
    assert made.means.shape[1] <= cells[1]


@given(st.data())
def test_every_pair_of_finite_values_is_a_point_and_equal_ones_lie_on_the_diagonal(data):
    shape = data.draw(SHAPES)
    golden = data.draw(hnp.arrays(np.float32, shape, elements=VALUES))
    made = picture(golden.copy(), golden).scatter
    assert made is not None
    assert made.counts.sum() == golden.size == made.taken
    assert np.array_equal(made.counts, np.diag(np.diag(made.counts)))


def test_values_that_are_no_numbers_are_left_out_of_the_points_and_make_a_mean_infinite():
    golden = np.ones((2, 3), np.float32)
    device = golden.copy()
    device[1, 2] = np.nan
    made = picture(device, golden)
    assert made.scatter.counts.sum() == 5
    by_axis = {each.axes[0]: each.means.tolist() for each in made.by_axis}
    assert by_axis == {0: [0, np.inf], 1: [0, 0, np.inf]}
    assert made.by_axis[0].most == 0


def test_the_axis_of_a_wrong_channel_comes_first():
    rng = np.random.default_rng(0)
    golden = rng.normal(size=(3, 8, 20, 20)).astype(np.float32)
    device = golden + rng.normal(0, 1e-3, golden.shape).astype(np.float32)
    device[:, 5] += np.float32(0.01)
    made = picture(device, golden)
    assert made.axes[0] == (1,)
    assert int(made.by_axis[0].means.argmax()) == 5
    assert len(made.axes) == 4 + 6


def test_errors_of_one_size_are_not_apart_and_those_of_a_part_are():
    rng = np.random.default_rng(0)
    golden = rng.normal(size=(64, 64)).astype(np.float32)
    device = golden + rng.normal(0, 1e-5, golden.shape).astype(np.float32)
    assert not picture(device, golden).is_apart
    device[3] += np.float32(0.5)
    assert picture(device, golden).is_apart
    assert not picture(golden, golden).is_apart


def test_a_long_axis_shares_its_cells():
    golden = np.zeros(5000, np.float32)
    device = golden.copy()
    device[4999] = 4
    (made,) = picture(device, golden).by_axis
    assert made.steps == (5,)
    assert made.means.shape == (1000,)
    assert made.means[-1] == pytest.approx(4 / 5)


def test_one_element_has_no_axes():
    made = picture(np.float32(2).reshape(()), np.float32(1).reshape(()))
    assert (made.axes, made.shape) == ([], ())
    assert made.table.worst_absolute[0].absolute == 1


def test_elements_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="have no differences"):
        picture(np.array(["a"]), np.array(["b"]))
