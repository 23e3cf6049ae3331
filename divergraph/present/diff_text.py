"""The JSON of ``divergraph diff`` as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from divergraph.dump_diff.diff_dumps import DiffResult
from divergraph.dump_diff.single_pair import CloseLook
from divergraph.present.declared_answer import answer_json


def diff_json_text(result: DiffResult, look: CloseLook | None) -> Iterator[str]:
    """What ``diff --json`` prints, line by line; ``elements`` is null but for a single pair. There
    may be many thousands of pairs, so each is one line, which takes half of the time and space."""
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    yield '{\n  "pairs": ['
    last = len(result.pairs) - 1
    for place, pair in enumerate(result.pairs):
        yield f"    {encode(answer_json(pair))}{',' if place < last else ''}"
    rest = answer_json(replace(result, pairs=()), result=result, look=look)
    del rest["pairs"]
    yield "  ]," + json.dumps(rest, indent=2, ensure_ascii=False, allow_nan=False)[1:]
