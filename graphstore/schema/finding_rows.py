"""The rows of the table Finding, and the findings behind them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from graphstore.model import Finding, FindingKind, TensorIO
from graphstore.schema import codec
from graphstore.schema.codec import plain_text
from graphstore.schema.row_slices import Row


def finding_rows(
    findings: Sequence[Finding], run: str, ids: Sequence[int], nodes: Sequence[int | None]
) -> list[Row]:
    """One row a finding; *ids* are its node ids, *nodes* those of its ops, if there are any."""
    return [
        (
            ids[seq],
            run,
            seq,
            finding.kind.value,
            plain_text(finding.label),
            plain_text(finding.sentence),
            nodes[seq],
            plain_text(finding.op) if finding.op and nodes[seq] is None else None,
            finding.io.value,
            finding.port,
            None if math.isnan(finding.confidence) else float(finding.confidence),
            codec.values_text(finding.evidence),
        )
        for seq, finding in enumerate(findings)
    ]


def finding_value(row: Mapping[str, Any]) -> Finding:
    """The finding behind a row of the query ``run_findings``."""
    return Finding(
        kind=FindingKind(row["kind"]),
        label=row["label"],
        sentence=row["sentence"],
        op=row["op"] or "",
        io=TensorIO(row["io"]),
        port=row["port"],
        confidence=math.nan if row["confidence"] is None else row["confidence"],
        evidence=codec.values_of(row["evidence"]),
    )
