"""The root-cause analysis of a run that was compared before."""

from __future__ import annotations

from divergraph.jobs.progress import Progress
from divergraph.rootcause.coarse_golden import with_fair_root_cause
from divergraph.rootcause.options import MethodChoice, RootCauseOptions
from divergraph.rootcause.stored import dumps_written_since, sources_of, with_warnings
from divergraph.verification.witness import with_witness
from graphstore.contract import RunData


def analysed_again(data: RunData, options: RootCauseOptions, progress: Progress) -> RunData:
    """*data* with its errors split and judged by *options*; its metrics stay as they are.

    Dump files written since the comparison are named in its warnings.

    Raises:
        InputError: a model or dump is gone or another one than was compared.
        ExecutionError: the golden model cannot be run here.
    """
    sources = sources_of(data, progress, options.memory)
    data = with_warnings(data, dumps_written_since(data.run, sources.pairs))
    found = with_fair_root_cause(data, sources, MethodChoice.ROOT_CAUSE, options, progress)
    return with_witness(found, sources, options)
