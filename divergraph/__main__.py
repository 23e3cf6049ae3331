"""``python -m divergraph``: the command line."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    try:
        from divergraph.cli.main import main
    except KeyboardInterrupt:  # Ctrl-C while Python still reads the program's files
        sys.exit(130)
    main()
