"""Who writes: the name that notes and baselines carry."""

from __future__ import annotations

import getpass
import os

VARIABLE = "DIVERGRAPH_AUTHOR"


def author_name() -> str:
    """The name in ``DIVERGRAPH_AUTHOR``, else that of the user of this machine."""
    name = os.environ.get(VARIABLE, "").strip()
    if name:
        return name
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user without a name, as in some containers
        return "somebody"
