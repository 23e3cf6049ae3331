"""Parts of models run again, from the bundle they were written to."""

from __future__ import annotations

from pathlib import Path

from divergraph.api.arguments import AnyPath
from divergraph.submodel.check import PartCheck, check_bundle


def replay(bundle: AnyPath, *, device: bool = False) -> PartCheck:
    """Run the part of a model in the folder *bundle* on its golden inputs and compare.

    With *device* on the device's inputs, against what the device made of them. The bundle's own
    program is not run; the model is, in a process with limits, without network. ``passed`` of
    the answer is None where the part cannot be run here, ``lines`` say how it went.

    Raises:
        InputError: this is no bundle, or one whose files lie outside of it.
    """
    return check_bundle(Path(bundle), device=device)
