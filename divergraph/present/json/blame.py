"""The JSON of ``blame``; see docs/reference/json.md."""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.blame.attribution import Blame
from divergraph.present.json.shapes import Json, number, record_json


def blame_json(run: str, others: Sequence[str], found: Blame, top: int) -> dict[str, Json]:
    """What ``blame --json`` prints."""
    return {
        "run": run,
        "others": list(others),
        "outputs": [
            {
                "tensor": name,
                "part": found.parts.get(name),
                "error": number(error),
                "stands_in": name in found.stand_ins,
            }
            for name, error in found.errors.items()
        ],
        "unexplained": number(found.unexplained),
        "shares": [
            {
                **record_json(each, {"port": "output"}),
                "by_output": [
                    {"tensor": name, "share": number(share)}
                    for name, share in each.by_output.items()
                ],
            }
            for each in found.shares[:top]
        ],
        "keep": [record_json(each) for each in found.keep],
        "what_if": None if found.what_if is None else record_json(found.what_if),
        "imitated": found.imitated,
        "not_imitated": found.not_imitated or None,
        "runs": found.runs,
        "left_out": list(found.left_out),
        "warnings": list(found.warnings),
    }
