"""Small graphs written as text."""

from __future__ import annotations

import pytest

from graphstore.model import (
    DType,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Tensor,
    TensorRef,
)


def _graph(text: str) -> ModelGraph:
    lines = [line.split() for line in text.strip().splitlines()]
    made = {words[0] for words in lines}
    used = {name for words in lines for name in words[3:]}
    ops = tuple(
        Op(
            words[0],
            words[0],
            words[2],
            tuple(
                InputRef(name, TensorRef(name, 0) if name in made else None) for name in words[3:]
            ),
            outputs=(Tensor(words[0], DType.FLOAT32, (2, 3)),),
            sequence=place,
        )
        for place, words in enumerate(lines)
    )
    return ModelGraph(
        "g",
        GraphKind.ORIGINAL,
        Framework.ONNX,
        "onnx",
        ops,
        inputs=tuple(Tensor(name, DType.FLOAT32, (2, 3)) for name in sorted(used - made)),
        outputs=tuple(TensorRef(op.id, 0) for op in ops if op.id not in used),
    )


@pytest.fixture(scope="session")
def graph_of():
    """``d = Add b c`` a line; a name that is no op is an input of the model."""
    return _graph
