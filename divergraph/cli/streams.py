"""Standard input, output and error: fit to use at the start, and silent at the end."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper


def fit_streams() -> None:
    """Make them fit to use, however the process was started.

    Without one, its number would go to the next file that is opened, and what is printed into it.
    Characters the encoding of a terminal does not have are printed as escapes.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nowhere, mode, encoding="utf-8"))
        elif mode == "w" and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def drop_unwritten() -> None:
    """Leave nothing for Python to flush when it ends.

    What could not be written stays in a stream's buffer. Python would try once more at exit,
    complain of it in lines of its own and end with 120, whatever the exit code was.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # the command said so already, if anything could be said
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
