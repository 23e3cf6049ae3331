"""What our packages log, printed: what ``-v`` shows."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, process_time

from divergraph.cli.say import say_beside

_PACKAGES = ("divergraph", "graphstore", "importers")


class _Lines(logging.Handler):
    """Prints records as all else is printed: safe to look at."""

    def emit(self, record: logging.LogRecord) -> None:
        say_beside(self.format(record))


@contextmanager
def log_lines() -> Iterator[None]:
    """What our packages log is printed while the block runs, and at the end what it took."""
    began, used = perf_counter(), process_time()
    handler, loggers = _Lines(), [logging.getLogger(name) for name in _PACKAGES]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
        took, busy = perf_counter() - began, process_time() - used
        say_beside(f"{took:8.3f} s  in all, {busy:.3f} s of them computing in this process")
