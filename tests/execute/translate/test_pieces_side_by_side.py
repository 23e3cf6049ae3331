"""Pieces of translated models in one session: one that does not run costs the others nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from divergraph.execute.contract import RunnableSubgraph
from divergraph.execute.translate.contract import NotTranslatedError, OpRows
from divergraph.execute.translate.executor import TranslatedExecutor
from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.step import tensorflow_program
from importers.registry import read_graph

X = np.arange(6, dtype=np.float32) - 2
RIGHT, WRONG = 40, 8


def test_pieces_that_fail_are_the_only_ones_translated_again(tmp_path: Path) -> None:
    path = tmp_path / "many.pbtxt"
    names = [f"n{number}" for number in range(RIGHT)]
    wrong = [f"a{number}" for number in range(WRONG)]
    for number, name in enumerate(wrong):
        names.insert(5 * number, name)
    kinds = {"a": "Abs", "n": "Neg"}
    typed = 'attr { key: "T" value { type: DT_FLOAT } }'
    nodes = [f'node {{ name: "{n}" op: "{kinds[n[0]]}" input: "x" {typed} }}' for n in names]
    fed = 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }'
    path.write_text("\n".join([fed, *nodes]))
    made: Counter[str] = Counter()
    rows = OpRows("tensorflow")

    @rows.row("Neg", source="here")
    def neg(p: Piece) -> Sequence[str]:
        made[p.op.id] += 1
        return [p.add("Neg", p.name())]

    @rows.row("Abs", source="here")
    def refused(p: Piece) -> Sequence[str]:
        raise NotTranslatedError("not here")

    program = tensorflow_program(read_graph(path), "", {}, (), ())
    executor = TranslatedExecutor(replace(program, rows=rows))
    pieces = [RunnableSubgraph(name, ("x:0",), (f"{name}:0",)) for name in names]
    found = {each.key: each for each in executor.run_subgraphs(pieces, lambda _: {"x:0": X})}
    failed = {key: each.failure for key, each in found.items() if each.failure}
    assert failed == dict.fromkeys(wrong, "not here")
    right = [name for name in names if name not in wrong]
    for name in right:
        np.testing.assert_array_equal(found[name].values[f"{name}:0"], -X)
    assert made == dict.fromkeys(right, 1)
