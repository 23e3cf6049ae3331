"""Record what a PyTorch model does, call by call, so that two runs of it can be compared.

>>> import divergraph.torch  # doctest: +SKIP
>>> with divergraph.torch.recorded("golden", model=model) as record:  # doctest: +SKIP
...     loss = model(batch).mean()
...     loss.backward()
...     optimizer.step()

The folder is read like one of msprobe's (``divergraph compare --golden golden ...``). PyTorch is
needed only where something is recorded: ``pip install 'divergraph[torch]'``.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from graphstore.errors import ExecutionError

if TYPE_CHECKING:
    from divergraph.torch.recorder import Recording

__all__ = ["recorded"]


def recorded(
    folder: str | os.PathLike[str], *, model: Any = None
) -> AbstractContextManager[Recording]:
    """Record every call of PyTorch in the block into *folder*, as ``step0/rank0``.

    Recorded are functions and methods of tensors that take a tensor (views, casts and in-place
    calls as well, these with the values from before), the modules of *model* (a
    ``torch.nn.Module``; without it those called in the block) with their parameters, the gradients
    by what each call took, those of parameters, and what an optimizer calls. Tensors keep their
    bits: bfloat16 and float8 are not widened. Equal values are written once. ``step()`` of what the
    block is given ends a step and begins the next; where ``torch.distributed`` is initialised, each
    rank writes its own folder. What the block computes is not changed, but compiled parts run as
    they are written (``torch.compile`` is passed over), which the recording says.

    A step appears in the folder when it is whole; one that an exception ends does not.

    Raises:
        ExecutionError: PyTorch is not installed.
        InputError: the folder cannot be written.
    """
    check_torch()
    from divergraph.torch.recorder import recording

    return recording(folder, model)


def check_torch() -> None:
    """Return if PyTorch is installed.

    Raises:
        ExecutionError: it is not.
    """
    if find_spec("torch") is None:
        raise ExecutionError(
            "PyTorch is not installed", hint="pip install 'divergraph[torch]', or torch by itself"
        )
