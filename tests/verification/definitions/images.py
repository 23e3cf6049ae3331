"""What cameras give, made into what networks take."""

from __future__ import annotations

import json

import numpy as np

TO_BGR = ((298, 516, 0), (298, -100, -208), (298, 0, 409))
TO_YUV = ((66, 129, 25), (-38, -74, 112), (112, -94, -18))


def _said(**config):
    return json.dumps({"aipp_mode": "static", **config})


def _matrix(rows):
    return {f"matrix_r{r}c{c}": rows[r][c] for r in range(3) for c in range(3)}


def _converted(pixels, rows, before, behind):
    """Pixels with their channels last through a matrix over 256."""
    level = pixels.astype(np.int64) - np.array(before)
    found = (level @ np.array(rows).T) // 256 + np.array(behind)
    return np.clip(found, 0, 255).astype(np.float64)


def cameras(add, draw):
    rng = np.random.default_rng(5)
    light, pairs = rng.integers(16, 236, (6, 8)), rng.integers(16, 240, (3, 4, 2))
    image = np.concatenate([light.ravel(), pairs.ravel()]).astype(np.uint8).reshape(1, 9, 8)
    whole = np.dstack([light, pairs.repeat(2, 0).repeat(2, 1)])
    made = _converted(whole, TO_BGR, (16, 128, 128), (0, 0, 0)) - np.array([104, 117, 123])
    config = _said(
        input_format="YUV420SP_U8",
        csc_switch=True,
        **_matrix(TO_BGR),
        **{f"input_bias_{at}": bias for at, bias in enumerate((16, 128, 128))},
        **{f"mean_chn_{at}": mean for at, mean in enumerate((104, 117, 123))},
    )
    out = made.transpose(2, 0, 1)[None]
    add("yuv", "Aipp", [image], [out], ("", "NCHW"), aipp_config_path=config)

    image = rng.integers(0, 256, (2, 5, 4, 3)).astype(np.uint8)
    config = _said(
        input_format="RGB888_U8",
        rbuv_swap_switch=True,
        **{f"min_chn_{at}": 3 for at in range(3)},
        **{f"var_reci_chn_{at}": 0.0078125 for at in range(3)},
    )
    out = (image[..., ::-1].astype(np.float64) - 3) / 128
    add("rgb", "Aipp", [image], [out], ("", "NHWC"), aipp_config_path=config)

    image = rng.integers(0, 256, (1, 6, 7, 4)).astype(np.uint8)
    cut = {"crop": True, "load_start_pos_h": 1, "load_start_pos_w": 2}
    config = _said(
        input_format="XRGB8888_U8",
        **{**cut, "crop_size_h": 4, "crop_size_w": 4, "src_image_size_h": 6},
        **{"src_image_size_w": 7, "csc_switch": True, **_matrix(TO_YUV)},
        **{f"output_bias_{at}": bias for at, bias in enumerate((16, 128, 128))},
    )
    out = _converted(image[0, 1:5, 2:6, 1:], TO_YUV, (0, 0, 0), (16, 128, 128))
    out = out.transpose(2, 0, 1)[None]
    add("argb", "Aipp", [image], [out], ("", "NCHW"), aipp_config_path=config)

    image = rng.integers(0, 256, (1, 4, 6, 1)).astype(np.uint8)
    config = _said(input_format="YUV400_U8", mean_chn_0=100)
    out = image.transpose(0, 3, 1, 2) - 100.0
    add("grey", "Aipp", [image], [out], ("", "NCHW"), aipp_config_path=config)


PARTS = (cameras,)
