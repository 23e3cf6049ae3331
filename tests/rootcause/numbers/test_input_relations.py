"""How an input of a device follows from golden's, in words."""

from __future__ import annotations

import numpy as np
import pytest

from divergraph.rootcause.graph_inputs import inputs_differ
from divergraph.rootcause.input_relations.known import relation

RNG = np.random.default_rng(0)
IMAGE = np.cumsum(RNG.normal(size=(2, 3, 20, 24)), -1).astype(np.float32)
WORDS = RNG.integers(5, 900, (2, 16))
WORDS[0, 11:] = WORDS[1, 14:] = 0
ROUNDING = 3e-3  # a few roundings to float16


def shifted(values, down, right):
    found = np.zeros_like(values)
    found[..., down:, right:] = values[..., : values.shape[-2] - down, : values.shape[-1] - right]
    return found


MEAN, DEVIATION = (np.array(each).reshape(1, 3, 1, 1) for each in ((1, -2, 3), (2, 4, 0.5)))
IMAGES = {
    "with indices 0 and 2 of axis 1 exchanged (RGB for BGR)": IMAGE[:, ::-1],
    "with indices 1, 2, 0 in the places 0, 1, 2 of axis 1": IMAGE[:, [1, 2, 0]],
    "with its numbers in memory in the order of axes 0, 2, 3, 1 (NHWC for NCHW)": (
        IMAGE.transpose(0, 2, 3, 1).reshape(IMAGE.shape)
    ),
    "flipped along axis 3 (left for right)": IMAGE[..., ::-1],
    "turned by 180 degrees in axes 2 and 3": IMAGE[:, :, ::-1, ::-1],
    "times 0.003922": IMAGE / 255,
    "plus -2": IMAGE - 2,
    "times 2 plus -1": IMAGE * 2 - 1,
    "times 0.5, 0.25, 2 plus -0.5, 0.5, -6 by index of axis 1": (IMAGE - MEAN) / DEVIATION,
    "with indices 0 and 2 of axis 1 exchanged (RGB for BGR) and times 2": IMAGE[:, ::-1] * 2,
    "shifted by +2 along axis 2 and by +3 along axis 3, zeros coming in": shifted(IMAGE, 2, 3),
    "shifted by +3 along axis 3, what leaves at one end coming in at the other": (
        np.roll(IMAGE, 3, 3)
    ),
    "cut off at -2 and 3": np.clip(IMAGE, -2, 3),
    "rounded to integers": np.rint(IMAGE),
    "replaced by zeros": IMAGE * 0,
    "with the indices 1, 1 in the places 0, 1, 2, ... of axis 0 (the batch)": IMAGE[[1, 1]],
}


@pytest.mark.parametrize(("words", "device"), IMAGES.items(), ids=IMAGES)
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_a_relation_of_images_is_told(words, device, kind):
    assert relation(IMAGE, device.astype(kind), ROUNDING) == words


TOKENS = {
    "shifted by -1 along axis 1, zeros coming in": np.pad(WORDS, ((0, 0), (0, 1)))[:, 1:],
    "shifted by +1 along axis 1, other data coming in": (
        np.pad(WORDS, ((0, 0), (1, 0)), constant_values=101)[:, :-1]
    ),
    "padded at the left": np.stack([np.roll(row, (row == 0).sum()) for row in WORDS]),
    "plus 4": WORDS + 4,
    "flipped along axis 1": WORDS[:, ::-1],
    "with other values in 2 of 32 places, the first at [0, 7]": (
        np.where(np.arange(16) == 7, 3, WORDS)
    ),
}


@pytest.mark.parametrize(("words", "device"), TOKENS.items(), ids=TOKENS)
def test_a_relation_of_tokens_is_told(words, device):
    assert relation(WORDS, device, 1e-6) == words


def test_other_data_is_no_relation():
    other = RNG.normal(size=IMAGE.shape)
    assert relation(IMAGE, other, ROUNDING).startswith("replaced by other data")
    near = IMAGE + other * 0.05 * IMAGE.std()
    assert relation(IMAGE, near, ROUNDING).startswith("prepared in another way")


def test_rounding_to_a_type_is_no_other_input():
    half = IMAGE.astype(np.float16).astype(np.float32)
    assert not inputs_differ(half, IMAGE, 1e-6)
    assert inputs_differ(half + np.float32(0.01), IMAGE, 1e-6)


def test_one_pixel_of_many_is_seen():
    one = IMAGE.copy()
    one[0, 1, 5, 5] += 0.2 * float(np.abs(IMAGE).max())
    assert inputs_differ(one, IMAGE, 0.02)


def test_any_other_token_is_another_input():
    other = WORDS.copy()
    other[1, 3] += 1
    assert inputs_differ(other, WORDS, 0.5)
    assert not inputs_differ(WORDS.astype(np.int32), WORDS, 0.5)
