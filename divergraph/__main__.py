"""The program: ``divergraph`` and ``python -m divergraph``."""

from __future__ import annotations

import sys


def start() -> None:
    """Run the command line; Ctrl-C while Python still reads its files ends quietly, too."""
    try:
        from divergraph.cli.main import main
    except KeyboardInterrupt:
        sys.exit(130)
    main()


if __name__ == "__main__":
    start()
