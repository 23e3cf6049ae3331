"""The program: ``divergraph`` and ``python -m divergraph``."""

from __future__ import annotations

import gc
import sys

_NEW_OBJECTS = 20_000
"""Objects made before a collection of garbage, usually 700."""


def start() -> None:
    """Run the command line; Ctrl-C while Python still reads its files ends quietly, too."""
    # Modules are loaded for good: collecting garbage meanwhile, and at exit, finds none.
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    try:
        from divergraph.cli.main import main
    except KeyboardInterrupt:
        sys.exit(130)
    except ImportError:
        from divergraph.files.own_packages import strange_packages

        if not (strangers := strange_packages()):
            raise
        sys.stderr.write(f"divergraph: {strangers}\n")
        sys.exit(3)
    main()


if __name__ == "__main__":
    start()
