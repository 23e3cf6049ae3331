"""Comparing what a running job dumps, as it comes."""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Unpack

from divergraph.api.arguments import AnyPath
from divergraph.api.compare import CompareOptions, compare
from divergraph.api.progress import ProgressOption
from divergraph.api.store import AnyStore, opened_for_keeping
from divergraph.comparison.growing_dumps import QUIET, GrowingDumps, check_folder
from divergraph.inputs.kept_paths import kept_path
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import Origin, Run
from importers.dumps.detect import list_dumps
from importers.dumps.folder import Leaf


@dataclass(frozen=True, slots=True)
class WatchedDump:
    """A dump that was compared, or the ``problem`` why it could not be.

    ``origins`` are where its error starts, ``run`` its record, in the store if it was ``kept``.
    """

    path: Path
    name: str
    run: Run | None = None
    origins: tuple[Origin, ...] = ()
    kept: bool = False
    problem: str = ""


def watch(
    golden: AnyPath,
    golden_dump: AnyPath,
    device: AnyPath,
    folder: AnyPath,
    *,
    store: AnyStore,
    name: str = "watched",
    quiet: float = QUIET,
    idle: float | None = None,
    stop: Event | None = None,
    progress: ProgressOption = None,
    **options: Unpack[CompareOptions],
) -> Generator[WatchedDump, None, None]:
    """Compare each dump below *folder* once nothing in it changes any more.

    Goes on until *stop* is set, or nothing changed for *idle* seconds. A dump is whole after
    *quiet* seconds without a change, when no process has a file of it open to write; runs are
    called *name* and the place of the dump. One that the store has a run of is compared again only
    if it grows.

    Raises:
        InputError: a path or option cannot be used.
        StoreError: the store cannot be written.
    """
    root, opened = Path(folder), opened_for_keeping(store)
    check_folder(root)
    opened.check_writable()
    dumps, ended = GrowingDumps(root, quiet), stop or Event()
    watching = _Watching(opened, (golden, golden_dump, device), root, name, progress, options)
    try:
        while not ended.is_set():
            for leaf in dumps.look():
                if (watched := watching.compared(leaf)) is not None:
                    yield watched
                if ended.is_set():
                    return
            if idle is not None and not dumps.waiting and dumps.seconds_still() >= idle:
                return
            ended.wait(dumps.pause())
    finally:
        if opened is not store:
            opened.close()


class _Watching:
    """Compares one dump after the other with the same golden side."""

    def __init__(
        self,
        store: GraphStore,
        sides: tuple[AnyPath, AnyPath, AnyPath],
        root: Path,
        name: str,
        progress: ProgressOption,
        options: CompareOptions,
    ) -> None:
        self._store, self._sides, self._root, self._name = store, sides, root, name
        self._progress, self._options = progress, options
        golden = list_dumps(Path(sides[1]))
        self._steps = {int(dump.step) for dump in golden if dump.step.isdecimal()}
        self._ranks = {int(dump.rank) for dump in golden if dump.rank.isdecimal()}
        self._before = {run.name: run for run in store.runs()}

    def compared(self, leaf: Leaf) -> WatchedDump | None:
        """What comes of a dump; None if the store had a run of it before this watch began."""
        name = ".".join([self._name, *leaf.path.relative_to(self._root).parts])
        before = self._before.pop(name, None)
        if before is not None:
            if _is_of(before, leaf.path):
                return None
            self._before[name] = before
            message = f"there is a run named {name!r} of another dump"
            return WatchedDump(leaf.path, name, problem=f"{message} (choose another name)")
        options = self._options.copy()
        try:
            options["step"] = _chosen(leaf.step, self._steps, "step")
            options["rank"] = _chosen(leaf.device, self._ranks, "rank")
            run = compare(
                *self._sides,
                leaf.path,
                name=name,
                store=self._store,
                replace=True,
                progress=self._progress,
                **options,
            )
        except InputError as error:
            return WatchedDump(leaf.path, name, problem=str(error))
        data = run.data
        problem = "" if run.kept else "nothing in it could be compared"
        return WatchedDump(leaf.path, name, data.run, data.origins, run.kept, problem)


def _is_of(run: Run, dump: Path) -> bool:
    """True if *run* was made of the dump in this folder."""
    try:
        return kept_path(run, "device_dump").resolve() == dump.resolve()
    except InputError:  # what it was made of is not there any more
        return False


def _chosen(text: str, golden: Collection[int], level: str) -> int | None:
    """The *level* of the golden dump that a dump is held against; None if there is no choice.

    Raises:
        InputError: it has several, and not the one that the dump says.
    """
    if text.isdecimal() and int(text) in golden:
        return int(text)
    if len(golden) > 1:
        listed = ", ".join(map(str, sorted(golden)[:8]))
        text = f"the golden dump has no {level} {text}" if text else f"the dump says no {level}"
        raise InputError(text, hint=f"the golden dump has {listed}")
    return None
