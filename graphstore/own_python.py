"""Our own interpreter, started beside us: with the packages that we have, and no others."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_OURS = str(Path(__file__).resolve().parents[1])
"""Where our packages lie, if only the empty entry of an interactive ``sys.path`` leads there."""


def own_python(*arguments: str) -> list[str]:
    """The command that runs our interpreter with *arguments*.

    It imports nothing from the working directory, which may be a folder of strangers' files: one
    called ``random.py`` would be run.
    """
    return [sys.executable, "-P", *arguments]


def own_environment(**added: str) -> dict[str, str]:
    """Our environment for :func:`own_python`, with our module path and the variables *added*."""
    path = [*filter(None, sys.path), _OURS]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), **added}
