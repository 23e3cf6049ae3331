"""Models that mean harm end in a sentence or run harmlessly, and nothing outside is touched.

Of ONNX and TensorFlow, made by code: `hostile_onnx` and, for files, `test_hostile_tensorflow`.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hostile_onnx
import hostile_sides
import hostile_tensorflow
import numpy as np
import onnx
import pytest

from divergraph.execute.tensorflow.files import tensorflow

pytestmark = pytest.mark.exhaustive

Command = Callable[..., Any]
MEMORY, SECONDS, PATIENCE = 700, 4, 240
"""MiB and seconds a model may take; seconds a command may, on a busy machine."""


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIVERGRAPH_MODEL_MEMORY", str(MEMORY))
    monkeypatch.setenv("DIVERGRAPH_MODEL_SECONDS", str(SECONDS))
    monkeypatch.delenv("DIVERGRAPH_MODEL_FOLDERS")


def seen(folder: Path) -> dict[str, str]:
    """Every file below *folder*, with what is in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def ends_well(done: Any, start: float) -> None:
    """A sentence on each line, the right code, in time."""
    assert done.code in (0, 2), done.err
    assert "Traceback" not in done.err + done.out
    assert "internal" not in done.err
    assert (done.code == 0) or done.err.strip()
    assert all(each.isprintable() for each in (done.err + done.out).splitlines())
    assert time.monotonic() - start < PATIENCE


@pytest.mark.slow
@pytest.mark.parametrize("build", hostile_onnx.HOSTILE, ids=lambda build: build.__name__)
def test_an_onnx_model(divergraph: Command, tmp_path: Path, build: hostile_onnx.Build) -> None:
    path = hostile_onnx.written(build, tmp_path / "model", tmp_path / "place")
    before = seen(tmp_path)
    start = time.monotonic()
    done = divergraph("capture", path, "--random", 1, "-o", tmp_path / "out")
    ends_well(done, start)
    made = {name: digest for name, digest in seen(tmp_path).items() if not name.startswith("out/")}
    assert made == before
    for each in (tmp_path / "out").rglob("*.npy"):
        values = np.load(each)
        assert hostile_onnx.SECRET not in values.astype(np.uint8, copy=False).tobytes(), each


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("build", hostile_tensorflow.HOSTILE, ids=lambda build: build.__name__)
def test_a_tensorflow_model(
    divergraph: Command,
    tmp_path: Path,
    build: hostile_tensorflow.Build,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One process for all of them: TensorFlow takes seconds to start.
    monkeypatch.setenv("DIVERGRAPH_MODEL_FOLDERS", str(tmp_path.parent))
    folder, place = tmp_path / "model", tmp_path / "place"
    folder.mkdir()
    place.mkdir()
    (place / "secret").write_bytes(hostile_onnx.SECRET)
    path = folder / "model.pb"
    path.write_bytes(build(tensorflow()).SerializeToString())
    before = seen(tmp_path)
    start = time.monotonic()
    done = divergraph("capture", path, "--random", 1, "-o", tmp_path / "out")
    ends_well(done, start)
    made = {name: digest for name, digest in seen(tmp_path).items() if not name.startswith("out/")}
    assert made == before


def check_command(divergraph: Command, tmp_path: Path, options: list[object]) -> None:
    """It ends with an answer or a sentence, and no file but those of the store is another."""
    before = seen(tmp_path)
    done = divergraph(*options)
    assert done.code in (0, 1, 2), done.err
    assert "Traceback" not in done.err + done.out
    assert "internal" not in done.err
    assert (done.out + done.err).strip()
    assert all(each.isprintable() for each in (done.err + done.out).splitlines())
    made = seen(tmp_path)
    assert {name: made[name] for name in made if not name.startswith("store/")} == before
    kept = (path for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert not any(hostile_onnx.SECRET in path.read_bytes() for path in kept)


def options_of(face: str, model: Path, tmp_path: Path, shape: tuple[int, ...]) -> list[object]:
    """How a command is given the model."""
    if face == "compare":
        return ["compare", *hostile_sides.compare_options(model, tmp_path, shape)]
    if face == "verify":
        options = hostile_sides.verify_options(model, tmp_path)
        return ["verify", *options] if options else pytest.skip("no device graph")
    runner = "onnx" if model.suffix == ".onnx" else "tf"
    return ["replay", hostile_sides.bundle(tmp_path, model, runner, shape)]


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("face", ["compare", "replay", "verify"])
@pytest.mark.parametrize("build", hostile_onnx.HOSTILE, ids=lambda build: build.__name__)
def test_an_onnx_model_by_other_commands(
    divergraph: Command, tmp_path: Path, build: hostile_onnx.Build, face: str
) -> None:
    path = hostile_onnx.written(build, tmp_path / "model", tmp_path / "place")
    check_command(divergraph, tmp_path, options_of(face, path, tmp_path, (2, 4)))


@pytest.mark.exhaustive
@pytest.mark.tensorflow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("face", ["compare", "replay", "verify"])
@pytest.mark.parametrize("build", hostile_tensorflow.HOSTILE, ids=lambda build: build.__name__)
def test_a_tensorflow_model_by_other_commands(
    divergraph: Command,
    tmp_path: Path,
    build: hostile_tensorflow.Build,
    face: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DIVERGRAPH_MODEL_FOLDERS", str(tmp_path.parent))
    path = tmp_path / "model.pb"
    model = build(tensorflow())
    for node in model.node:
        if node.op == "PlaceholderWithDefault":  # else it waits for a value nobody dumped
            node.op, kind = "Identity", node.attr["dtype"].type
            node.attr.clear()
            node.attr["T"].type = kind
    path.write_bytes(model.SerializeToString())
    check_command(divergraph, tmp_path, options_of(face, path, tmp_path, (4,)))


def test_there_are_enough() -> None:
    assert len(hostile_onnx.HOSTILE) >= 40


@pytest.mark.slow
@pytest.mark.parametrize(
    "build", [hostile_onnx.a_constant_of_2_to_the_40, hostile_onnx.a_long_range]
)
def test_what_takes_all_memory_says_how_to_give_it_more(
    divergraph: Command, tmp_path: Path, build: hostile_onnx.Build
) -> None:
    path = hostile_onnx.written(build, tmp_path / "model", tmp_path / "place")
    done = divergraph("capture", path, "--random", 1, "-o", tmp_path / "out")
    assert (done.code, done.out) == (2, "")
    assert f"the model needs more memory than {MEMORY} MiB" in done.err
    assert "DIVERGRAPH_MODEL_MEMORY" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_what_never_ends_says_how_to_give_it_more_time(divergraph: Command, tmp_path: Path) -> None:
    build = hostile_onnx.an_endless_loop
    path = hostile_onnx.written(build, tmp_path / "model", tmp_path / "place")
    done = divergraph("capture", path, "--random", 1, "-o", tmp_path / "out")
    assert done.code == 2
    assert f"more than {SECONDS} s without a result" in done.err
    assert "DIVERGRAPH_MODEL_SECONDS" in done.err


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A part with one op, as `submodel` writes it; its program would leave a file."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    onnx.save(hostile_onnx.model(hostile_onnx.node("Neg", "x")), str(folder / "part.onnx"))
    value = np.ones((2, 4), np.float32)
    np.save(folder / "in.npy", value)
    np.save(folder / "out.npy", -value)
    (folder / "replay.py").write_text(f"open({str(tmp_path / 'written')!r}, 'w')")
    tensor = {"name": "x", "called": "x", "numpy": None, "codes": None, "golden": "in.npy"}
    made = {"name": "y", "called": "y", "codes": None, "golden": "out.npy"}
    write_manifest(
        folder,
        runner="onnx",
        needs="onnxruntime",
        files=["part.onnx"],
        inner=[],
        inputs=[{**tensor, "device": None}],
        outputs=[{**made, "device": "out.npy"}],
        tolerance={"golden": 1e-6, "device": 1e-2},
    )
    return folder


def write_manifest(folder: Path, **entries: Any) -> None:
    path = folder / "manifest.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known.update(entries)
    files = [each for each in folder.glob("*.*") if each != path and each.is_file()]
    digests = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in files}
    path.write_text(json.dumps({**known, "sha256": {**digests, **entries.get("sha256", {})}}))


def test_a_bundle_is_run_and_its_program_is_not(
    divergraph: Command, bundle: Path, tmp_path: Path
) -> None:
    done = divergraph("replay", bundle)
    assert (done.code, done.out) == (0, "ok     y: relative error 0\n")
    assert not (tmp_path / "written").exists()
    told = divergraph("replay", bundle, "--json").json
    assert told == {
        "bundle": str(bundle),
        "side": "golden",
        "passed": True,
        "lines": ["ok     y: relative error 0"],
    }
    device = divergraph("replay", bundle, "--device")
    assert (device.code, device.out) == (2, "the device value of the input x was not dumped\n")


def test_other_outputs_and_changed_files_are_told(divergraph: Command, bundle: Path) -> None:
    np.save(bundle / "out.npy", np.ones((2, 4), np.float32))
    assert divergraph("replay", bundle).out == "changed since the export: out.npy\n"
    write_manifest(bundle)
    done = divergraph("replay", bundle)
    assert (done.code, done.out) == (1, "FAILED y: relative error 2\n")


@pytest.mark.parametrize("name", ["../secret.npy", "/etc/passwd", "linked.npy", "in.npy/../../x"])
@pytest.mark.parametrize("where", ["inputs", "outputs", "files", "sha256"])
def test_a_bundle_with_files_outside_is_refused(
    divergraph: Command, bundle: Path, tmp_path: Path, name: str, where: str
) -> None:
    np.save(tmp_path / "secret.npy", np.ones((2, 4), np.float32))
    told = json.loads((bundle / "manifest.json").read_text())
    entries = {
        "inputs": [{**told["inputs"][0], "golden": name}],
        "outputs": [{**told["outputs"][0], "golden": name}],
        "files": [name],
        "sha256": {name: "0"},
    }
    write_manifest(bundle, **{where: entries[where]})
    if name == "linked.npy":
        (bundle / name).symlink_to(tmp_path / "secret.npy")
    done = divergraph("replay", bundle)
    assert (done.code, done.out) == (2, "")
    assert "lies outside of the bundle" in done.err


class Evil:
    """What a pickle would do."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("written"),)


def test_a_pickle_in_a_bundle_is_not_loaded(
    divergraph: Command, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save(bundle / "in.npy", np.array([Evil()], object), allow_pickle=True)
    write_manifest(bundle)
    done = divergraph("replay", bundle)
    assert done.code == 2
    assert "allow_pickle=False" in done.out
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"runner": 1}', "[" * 100000, '{"runner": "onnx", "files": 3}', "\x00"],
)
def test_a_manifest_that_is_none_is_one_sentence(
    divergraph: Command, bundle: Path, text: str
) -> None:
    (bundle / "manifest.json").write_text(text)
    done = divergraph("replay", bundle)
    assert (done.code, done.out) == (2, "")
    assert "manifest.json is not that of a bundle" in done.err


def test_what_is_no_bundle_is_one_sentence(divergraph: Command, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        done = divergraph("replay", place)
        assert (done.code, "this is no bundle" in done.err) == (2, True)
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "manifest.json").write_text("{}")
    done = divergraph("replay", tmp_path)
    assert (done.code, f"(replay {tmp_path / 'part'})" in done.err) == (2, True)


def test_a_bundle_that_takes_all_memory_is_one_sentence(divergraph: Command, bundle: Path) -> None:
    model = hostile_onnx.a_constant_of_2_to_the_40(bundle, bundle)
    (bundle / "part.onnx").write_bytes(model.SerializeToString())
    write_manifest(bundle)
    done = divergraph("replay", bundle)
    assert done.code == 2
    assert done.out.count("\n") == 1
