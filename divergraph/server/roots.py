"""Which folders of this machine a server reads for others."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from starlette.exceptions import HTTPException

from divergraph.server.settings import UPLOADS, ServerSettings

_PATH = re.compile(r"(?<![\w:/.\-])/(?:[^\s/'\"]+/)+[^\s/'\",;:)]*")
"""An absolute path in a sentence; names of ops begin with no slash."""


@dataclass(frozen=True, slots=True)
class Roots:
    """The *folders* whose files may be read, by name in ``named``; None: all that we may read.
    Uploads lie below ``sent``."""

    folders: tuple[Path, ...] | None
    named: Mapping[str, Path] = field(default_factory=dict)
    sent: Path | None = None

    @classmethod
    def of(cls, settings: ServerSettings) -> Roots:
        """Those that were named; if none was, no file at all for others than this machine's
        users."""
        if not settings.roots and not settings.needs_tokens:
            return cls(None)
        named = {name: path.resolve() for name, path in settings.roots}
        if settings.state is None:
            return cls((*named.values(),), named)
        sent = (settings.state / UPLOADS).resolve()
        return cls((*named.values(), sent), named, sent)

    def path(self, text: str) -> Path:
        """The file or folder that *text* names: ``ROOT:PATH/BELOW/IT``; on one's own machine and
        without roots any path.

        Raises:
            HTTPException: there is no such root, or it leads out of it; where it lies is not said.
        """
        root, sign, below = text.partition(":")
        folder = self.named.get(root)
        if folder is None or not sign:
            if self.folders is None:
                return Path(text).expanduser().resolve()
            raise HTTPException(403, f"paths start with a root: {', '.join(self.named) or 'none'}:")
        return path_within(folder, below)

    def check(self, paths: Iterable[Path]) -> None:
        """Return if the files and folders *paths* lie in the roots, and no link leads out of them.

        Raises:
            HTTPException: one does not; where it lies is not said.
        """
        if self.folders is None:
            return
        for path in paths:
            if path.exists() and not path.is_file() and not path.is_dir():
                raise HTTPException(403, "it is no file and no folder")
            if not all(self._hold(path) for path in _with_links(path)):
                raise HTTPException(403, "the files are in none of the server's roots")

    def shown(self, path: str) -> str:
        """*path* as others may see it: ``ROOT:PATH/BELOW/IT``, or its name alone; on one's own
        machine and without roots as it is."""
        for name, folder in self.named.items():
            if Path(path).is_relative_to(folder):
                return f"{name}:{Path(path).relative_to(folder)}"
        if self.sent is not None and Path(path).is_relative_to(self.sent):
            name, _, *below = (*Path(path).relative_to(self.sent).parts, "", "")
            return f"{UPLOADS}:{'/'.join(filter(None, (name, *below)))}"
        return path if self.folders is None or not path.startswith("/") else Path(path).name

    def told(self, text: str) -> str:
        """*text* with each path in it as others may see it."""
        return _PATH.sub(lambda match: self.shown(match[0]), text)

    def for_guests(self) -> Roots:
        """What whoever comes by a link may see of paths: never where this machine keeps them."""
        return self if self.folders is not None else replace(self, folders=())

    def _hold(self, path: Path) -> bool:
        real = path.resolve()
        return any(real.is_relative_to(folder) for folder in self.folders or ())


def path_within(folder: Path, below: str) -> Path:
    """The file or folder called *below* in *folder*; it need not be there.

    Raises:
        HTTPException: it lies elsewhere, a link in it leads elsewhere, or it is no path at all.
    """
    try:
        path = (folder / below.lstrip("/")).resolve()
        Roots((folder,)).check([path])
    except (OSError, RuntimeError, ValueError) as error:  # too long, or links without an end
        raise HTTPException(400, "no file can be called so in a root") from error
    return path


def _with_links(path: Path) -> Iterator[Path]:
    """*path*, and every link below it."""
    yield path
    if path.is_dir():
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                below = Path(folder, name)
                if below.is_symlink():
                    yield below
