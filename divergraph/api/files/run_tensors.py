"""The outputs of an op of a run as files of both sides, for what compares files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from divergraph.api.runs.compared_run import ComparedRun
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import Side, TensorIO
from graphstore.own_folder import OwnFolder
from importers.dumps.names import written


@contextmanager
def run_tensors(store: GraphStore, run: str, op: str) -> Iterator[tuple[Path, Path]]:
    """(device, golden): folders with a ``.npy`` file of each compared output, in golden's shape and
    order, for as long as the block lasts.

    Raises:
        UnknownNameError: no such run or op.
        InputError: no output was compared, or the dumps are gone.
    """
    from divergraph.ask.facts import resolve_op

    op_id = resolve_op(store, run, op)
    ports = [
        item.port
        for item in store.comparisons(run, [op_id])
        if item.io is TensorIO.OUTPUT and item.metrics is not None
    ]
    if not ports:
        raise InputError(f"no output of {op_id} was compared", hint="`divergraph op` says why")
    compared = ComparedRun(run, store=store)
    with OwnFolder("tensors") as folder:
        sides = {side: folder / side.value for side in (Side.DEVICE, Side.GOLDEN)}
        for side, place in sides.items():
            place.mkdir()
            for port in ports:
                values = compared.tensor(op_id, port).plain(side)
                np.save(place / f"{written(op_id)[:200]}.{port}.npy", values)
        yield sides[Side.DEVICE], sides[Side.GOLDEN]
