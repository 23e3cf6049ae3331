"""The oracle that runs a program of the user's on a bundle. Exit code 0 means that the part passes,
1 that it fails, anything else that it is undecided: a part that does not compile does not compute
wrongly. A program that only runs the device writes what came out to the bundle's folder ``made``
and exits 0; it is compared here."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from divergraph.execute.contract import Array
from divergraph.files.os_errors import os_errors_told
from divergraph.submodel.bundle import Bundle, BundleRequest, write_bundle
from divergraph.submodel.export.contract import own_format, writer_of
from divergraph.submodel.minimize.oracle import OracleOptions, Part
from divergraph.submodel.minimize.part_values import NoValueError, PartValues
from divergraph.submodel.minimize.verdicts import Variant
from divergraph.submodel.run_parts import RunParts
from graphstore.errors import ImportFormatError, InputError
from graphstore.model import OracleAnswer, PartVerdict
from graphstore.own_folder import OwnFolder
from importers.dumps.arrays.npy import load_any_npy

MADE = "made"
_PASS, _FAIL = 0, 1
_BROKE_OFF = b"Traceback (most recent call last)"
_SAID = 300


class Command:
    """Runs *argument*, in which ``{bundle}`` stands for the bundle's folder.

    Raises:
        InputError: no command, one that is not there, or parts of this model cannot be
            written.
    """

    def __init__(self, parts: RunParts, argument: str, options: OracleOptions) -> None:
        self._words = _words(argument)
        writer_of(own_format(parts.golden), parts.golden)
        self._options = options
        self._running: set[subprocess.Popen[bytes]] = set()
        self._values = PartValues(parts)
        self._place = OwnFolder("probe")
        self.identity = f"command {argument} x{options.factor:g} {_programs(self._words)}"
        self.variants = (Variant.GOLDEN, Variant.DEVICE)

    def judge(self, part: Part, variant: Variant) -> OracleAnswer:
        """Write the part's bundle, run the program on it, and read its verdict."""
        if part.selection.refused:
            return OracleAnswer(PartVerdict.UNKNOWN, part.selection.refused[0].sentence)
        with tempfile.TemporaryDirectory(dir=self._place.path) as place:
            try:
                wanted = BundleRequest(Path(place), variant=variant.value)
                bundle = write_bundle(part.parts, part.selection, wanted)
            except InputError as error:
                return OracleAnswer(
                    PartVerdict.UNKNOWN, f"its bundle cannot be written: {error.what}"
                )
            (bundle.path / MADE).mkdir()
            code, last_line = self._run(bundle.path, variant)
            if code is None:
                return OracleAnswer(PartVerdict.UNKNOWN, last_line)
            if code == _FAIL:
                return OracleAnswer(PartVerdict.FAIL, last_line or "the program exits 1")
            if code != _PASS:
                detail = f": {last_line}" if last_line else ""
                return OracleAnswer(PartVerdict.UNKNOWN, f"the program exits {code}{detail}")
            if not any((bundle.path / MADE).iterdir()):
                return OracleAnswer(PartVerdict.PASS, last_line or "the program exits 0")
            return self._compared(part, variant, bundle)

    def _run(self, bundle: Path, variant: Variant) -> tuple[int | None, str]:
        """The exit code (None without one) and the last line of what was printed."""
        words = [word.replace("{bundle}", str(bundle)) for word in self._words]
        environment = os.environ | {
            "DIVERGRAPH_BUNDLE": str(bundle),
            "DIVERGRAPH_VARIANT": variant.value,
            "DIVERGRAPH_PRECISION": self._values.precision.name,
        }
        with tempfile.TemporaryFile() as output:
            with os_errors_told("the oracle's program cannot be started", words[0]):
                program = subprocess.Popen(  # noqa: S603 - the user's own command
                    words,
                    cwd=bundle,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._running.add(program)
            try:
                code = program.wait(self._options.timeout)
            except subprocess.TimeoutExpired:
                return None, f"the program did not end within {self._options.timeout:g} s"
            finally:
                _kill(program)
                program.wait()
                self._running.discard(program)
            output.seek(0)
            printed = output.read()
            if code == _FAIL and _BROKE_OFF in printed:
                # Python's exit code for a program that is itself in error, too
                return None, f"the program failed: {_last_line(printed)}"
            return code, _last_line(printed)

    def _compared(self, part: Part, variant: Variant, bundle: Bundle) -> OracleAnswer:
        try:
            outputs = _written_outputs(bundle)
            feeds = self._values.feeds(part.selection, variant)
            expected = self._values.expected(part.selection, variant, feeds)
        except NoValueError as error:
            return OracleAnswer(PartVerdict.UNKNOWN, str(error))
        return self._values.judged(part.selection, feeds, expected, outputs, self._options.factor)

    def cancel(self) -> None:
        """End the programs that run."""
        for program in list(self._running):
            _kill(program)

    def close(self) -> None:
        """Release the golden model, and remove the parts."""
        self._place.remove()
        self._values.close()


def _words(argument: str) -> list[str]:
    try:
        words = shlex.split(argument)
    except ValueError as error:
        raise InputError(f"the oracle's command cannot be read: {error}") from error
    if not words:
        raise InputError(
            "--oracle command needs a program", hint="--oracle command:'./check.sh {bundle}'"
        )
    program = shutil.which(words[0])
    if program is None:
        raise InputError(
            "the oracle's program is not there, or may not be run",
            where=words[0],
            hint="give a path, and chmod +x",
        )
    # A path is relative to where the user is, not to the bundle the program runs in.
    return [str(Path(program).absolute()), *(_absolute(word) for word in words[1:])]


def _absolute(word: str) -> str:
    return str(Path(word).absolute()) if "{" not in word and Path(word).is_file() else word


def _programs(words: list[str]) -> str:
    """A digest of the command's files: a changed program is a different oracle."""
    digest = hashlib.blake2b(digest_size=8)
    for word in words:
        path = Path(word)
        if path.is_file():
            status = path.stat()
            digest.update(f"{path}|{status.st_size}|{status.st_mtime_ns}".encode(errors="replace"))
    return digest.hexdigest()


def _kill(program: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a program and its child processes."""
    if sys.platform == "win32":  # no groups of processes: what it started goes on
        program.kill()
        return
    with suppress(ProcessLookupError):  # all have ended
        os.killpg(program.pid, signal.SIGKILL)


def _last_line(output: bytes) -> str:
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines()]
    last_line = next((line for line in reversed(lines) if line), "")
    return "".join(char if char.isprintable() else "?" for char in last_line)[:_SAID]


def _written_outputs(bundle: Bundle) -> Mapping[str, Array]:
    """The outputs the program wrote, in files named as the golden outputs without ``.golden``.

    Raises:
        NoValueError: a file is missing or is no array.
    """
    outputs: dict[str, Array] = {}
    for entry in bundle.manifest["outputs"]:
        if entry["golden"] is None:
            continue
        name = Path(str(entry["golden"])).name.removesuffix(".golden.npy") + ".npy"
        path = bundle.path / MADE / name
        try:
            value = load_any_npy(path)
        except FileNotFoundError:
            raise NoValueError(f"the program wrote no {MADE}/{name}") from None
        except (OSError, ValueError, EOFError, ImportFormatError) as error:
            message = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise NoValueError(f"{MADE}/{name} is not an array: {message}") from error
        if not isinstance(value, np.ndarray):
            raise NoValueError(f"{MADE}/{name} is an archive of arrays, not one")
        outputs[entry["name"]] = value
    return outputs
