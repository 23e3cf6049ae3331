"""Where precision_tool's commands look: a data folder, a store, and the run that is meant."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from divergraph.api.files.data_folder import DEFAULT, DataFolder, data_folder, is_made_of
from divergraph.cli.options import opened_to_read, store_url
from divergraph.cli.say import say_beside
from graphstore.errors import InputError
from importers.dumps.ascend.index import is_device_dump

_MOST_FOUND = 5
_DECODED = "decode"
_ONE_TENSOR = re.compile(r"(?P<dump>.+)\.(?P<io>input|output)(\.(?P<port>\d{1,4}))?\.npy")
"""One tensor of a device's dump file, as precision_tool has it after decoding."""


@dataclass(frozen=True, slots=True)
class ToolPlace:
    """A data folder, and the run or graph of a store that commands are about; None: the one made of
    the folder, else the newest."""

    data: Path = DEFAULT
    store: str | None = None
    run: str | None = None
    as_json: bool = False

    @property
    def folder(self) -> DataFolder:
        """The parts of the data folder.

        Raises:
            InputError: it is none.
        """
        return data_folder(self.data)

    @property
    def run_name(self) -> str:
        """The run a comparison of the folder is kept as."""
        return self.run or self.data.absolute().name

    def ours(self, *line: object, keeps: bool = True) -> int:
        """Run one of our commands, and say on standard error which; *keeps*: it takes a store."""
        from divergraph.cli.main import run

        words = [*map(str, line), *(["--json"] if self.as_json else [])]
        say_beside(f"> divergraph {shlex.join(words)}")
        return run([*words, "--store", store_url(self.store)] if keeps else words)

    def target(self) -> str:
        """The run or graph that is meant: that of this folder, whose graph is imported if it has to
        be; in a folder without graphs the last run of the store.

        Raises:
            InputError: there is none, and no graph to import.
        """
        graph_name = f"{self.data.absolute().name}.device"
        if (target := self._known(graph_name)) is not None:
            return target
        graph = self.folder.device.graph
        if graph is None:
            raise InputError("there is no graph here and no run in the store", where=str(self.data))
        if self.ours("import", graph, "--name", graph_name):
            raise InputError("the graph cannot be read", where=str(graph))
        return graph_name

    def _known(self, graph_name: str) -> str | None:
        if self.run is not None:
            return self.run
        if not Path(store_url(self.store)).exists() and "://" not in store_url(self.store):
            return None
        with opened_to_read(self.store) as store:
            all_runs = store.runs()
            graphs = [info.name for info in store.graphs()]
        # Other data folders have runs of the same name where a store is shared.
        of_here = [run.name for run in all_runs if is_made_of(run, self.data)]
        runs = [run.name for run in all_runs]
        if of_here:
            return self.run_name if self.run_name in of_here else of_here[-1]
        if graph_name in graphs or self.folder.device.graph is not None:
            return graph_name if graph_name in graphs else None
        return next(reversed(runs), None)

    @property
    def decoded(self) -> Path:
        """Where what a dump file holds is written as files of its own."""
        return self.data / "temp" / _DECODED / "dump_decode"

    def text_folder(self, path: Path) -> Path:
        """Where the text of the file at *path* goes: beside it, but not among a device's dumps."""
        if is_device_dump(path.name, {}):
            return self.decoded
        return path.parent if os.access(path.parent, os.W_OK) else Path()

    def file(self, name: str) -> Path:
        """A file by its path, or by its name anywhere in the data folder; one tensor of a device's
        dump file is written there first.

        Raises:
            InputError: there is none, or several.
        """
        path = Path(name)
        if path.exists() or path.name != name:
            return path
        file_path = self._sole(name)
        part = _ONE_TENSOR.fullmatch(name)
        if file_path is None and part is not None:
            dump = self._sole(part["dump"])
            if dump is not None:
                self.ours("convert", "-d", dump, "-out", self.decoded, keeps=False)
                file_path = self._sole(f"{part['dump']}.{part['io']}.{part['port'] or 0}.npy")
        return file_path or path

    def _sole(self, name: str) -> Path | None:
        every = sorted(path for path in self.data.rglob("*") if path.name == name)
        # What was written from a dump twice is one and the same.
        paths = [path for path in every if _DECODED not in path.parts] or every[:1]
        if len(paths) > 1:
            places = ", ".join(map(str, paths[:_MOST_FOUND]))
            raise InputError(f"{name} is there several times: {places}", hint="give its path")
        return paths[0] if paths else None
