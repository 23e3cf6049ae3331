"""Faults in a training step: fed into one tensor, everything behind it computed anew by TensorFlow.

    python benchmarks/root_cause/training.py model.ckpt.meta GOLDEN_DUMP IteratorGetNext:0 ...

The last arguments are the tensors to be fed from the golden dump in every run. Needs
``divergraph[tensorflow]``. Prints a line for each of some tensors, gradients among them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from faults import VALUE_FAULTS, Context, FaultKind, faulty_values

from divergraph.capture import CaptureRequest, capture
from divergraph.pipeline import CompareRequest, compare
from divergraph.root_cause.limits import MethodChoice
from graphstore.errors import DivergraphError
from graphstore.model import TensorIO
from importers.dumps import scan_golden_dumps
from importers.registry import read_graph

_RUNS = 12
_LEAST = 16


def main() -> None:
    """Inject one value fault after the other into tensors chosen by a seed."""
    model, dump, *fed = sys.argv[1:]
    first = 0
    runs = 0
    with tempfile.TemporaryDirectory() as folder:
        for tensor, kind, ranked in results(Path(model), Path(dump), fed, Path(folder)):
            runs += 1
            first += ranked[:1] == [tensor.rpartition(":")[0]]
            print(f"{kind.value:18} {tensor}: {', '.join(ranked[:3]) or 'nobody'}", flush=True)
    print(f"{first} of {runs} ranked first")


def results(
    model: Path, dump: Path, fed: list[str], folder: Path
) -> Iterator[tuple[str, FaultKind, list[str]]]:
    """The faulty tensor, its fault, and the ops called guilty or suspect in rank order."""
    files = golden_files(model, dump)
    rng = np.random.default_rng(1)
    kinds = list(VALUE_FAULTS)
    names = sorted(set(files) - set(fed))
    done = 0
    for number, place in enumerate(rng.permutation(len(names)).tolist()):
        tensor, kind = names[place], kinds[number % len(kinds)]
        wrong = faulty_values(kind, np.load(files[tensor]), rng, Context())
        if wrong is None or wrong.size < _LEAST:
            continue
        np.save(folder / f"{number}.npy", wrong)
        inputs = {name: files[name] for name in fed} | {tensor: folder / f"{number}.npy"}
        device = folder / f"device{number}"
        try:
            capture(CaptureRequest(model, device, inputs, options={"variables": str(dump)}))
        except DivergraphError as error:
            print(f"{tensor} cannot be fed: {error}", file=sys.stderr)
            continue
        request = CompareRequest(model, dump, model, device, method=MethodChoice.ROOT_CAUSE)
        found = compare(request)
        yield tensor, kind, [each.op for each in (*found.origins, *found.suspects)]
        done += 1
        if done == _RUNS:
            return


def golden_files(model: Path, dump: Path) -> dict[str, Path]:
    """The dumped files by tensor name, those of floats that depend on nothing fed left in."""
    graph = read_graph(model)
    ops = graph.op_index()
    index = scan_golden_dumps(dump, graph)
    return {
        ops[op].outputs[port].name: tensor.path
        for (op, io, port), tensor in index.tensors.items()
        if io is TensorIO.OUTPUT
    }


if __name__ == "__main__":
    main()
