"""Searches for the smallest failing parts of a run's model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from divergraph.api.arguments import at_least_one, word
from divergraph.present.declared_answer import answer_json
from divergraph.submodel.minimize.minimize_run import (
    AUTO,
    Minimized,
    MinimizeRequest,
    with_minimized,
)
from divergraph.submodel.minimize.oracle import OracleOptions, template_text
from divergraph.submodel.minimize.prober import SearchLimits
from divergraph.submodel.minimize.verdicts import Variant
from graphstore.contract import RunData

__all__ = ["AUTO", "MinimizeRequest", "minimize_request", "template_text", "with_search"]


def minimize_request(
    oracle: str,
    starts: Sequence[str],
    ends: Sequence[str],
    variant: str,
    budget: int | None,
    seconds: float | None,
    jobs: int,
    flaky: bool,
    timeout: float,
    factor: float,
    output: Path | None,
    weights: Path | None,
    fresh: bool,
) -> MinimizeRequest:
    """The request that the arguments of ``ComparedRun.minimize`` stand for."""
    return MinimizeRequest(
        oracle,
        tuple(starts),
        tuple(ends),
        None if variant == "auto" else word(Variant, variant, "variant"),
        SearchLimits(budget, seconds, at_least_one(jobs, "jobs"), flaky),
        OracleOptions(timeout, factor),
        output,
        weights,
        fresh,
    )


def with_search(data: RunData, found: Minimized) -> RunData:
    """*data* with the result of a search for minimal parts in its analysis."""
    return with_minimized(data, answer_json(found, run=data.run.name), found.answers)
