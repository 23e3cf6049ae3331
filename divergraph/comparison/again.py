"""The root-cause analysis of a run that was compared before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from divergraph.jobs.progress import Progress
from divergraph.metrics.limits.thresholds import load_thresholds
from divergraph.results.conclusion import concluded
from divergraph.rootcause.coarse_golden import with_fair_root_cause
from divergraph.rootcause.options import MethodChoice, RootCauseOptions
from divergraph.rootcause.stored import dumps_written_since, sources_of, with_warnings
from divergraph.thresholds.judged_again import judged_again
from divergraph.verification.witness import with_witness
from graphstore.contract import RunData
from graphstore.model import Method


def analysed_again(
    data: RunData,
    options: RootCauseOptions,
    progress: Progress,
    thresholds: Path | None = None,
) -> RunData:
    """*data* with its errors split and judged by *options*; its metrics stay as they are.

    With *thresholds*, its tensors are judged by these first; that is all that is done to a run
    whose origins were found by thresholds, and it needs no files. Dump files written since the
    comparison are named in its warnings.

    Raises:
        InputError: a model or dump is gone or another one than was compared.
        ExecutionError: the golden model cannot be run here.
    """
    if thresholds is not None:
        by_limits = data.run.method is Method.THRESHOLDS
        data = judged_again(data, load_thresholds(thresholds))
        inputs = {**data.run.inputs, "thresholds": str(thresholds)}
        data = replace(data, run=replace(data.run, inputs=inputs))
        if by_limits:
            return concluded(data)
    sources = sources_of(data, progress, options.memory)
    data = with_warnings(data, dumps_written_since(data.run, sources.pairs))
    analysed = with_fair_root_cause(data, sources, MethodChoice.ROOT_CAUSE, options, progress)
    return concluded(with_witness(analysed, sources, options), sources.pairs)
