"""Records as JSON: whatever stands in them comes back."""

from __future__ import annotations

import pytest

from graphstore.model import Finding, FindingKind
from graphstore.schema import codec


@pytest.mark.parametrize("zeros_unsigned", [False, True])
def test_evidence_is_json_of_any_kind(zeros_unsigned: bool) -> None:
    evidence = {"text": "fp16", "list": [1, 2.5, "x"], "inner": {"none": None}, "yes": True}
    finding = Finding(FindingKind.CAUSE, "lost_bias", "it is lost", evidence=evidence)
    text = codec.text_of(finding, zeros_unsigned=zeros_unsigned)
    assert codec.record_of(Finding, text) == finding
