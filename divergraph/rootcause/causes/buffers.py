"""An op read other values of an operand than its dump holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, Foreign, SampledTensors, Trial
from divergraph.rootcause.causes.limits import SURE
from divergraph.rootcause.causes.reruns.operands import LARGEST, first_that_fits


def read_before(view: SampledTensors) -> Cause | None:
    """The op read the right values of an operand whose dump is wrong."""
    return _read(
        view,
        view.case.right,
        "dumped_otherwise",
        "what {operand} should have been: it was right when it was read, and its dump is of "
        "another moment or was overwritten since",
    )


def read_after(view: SampledTensors) -> Cause | None:
    """The op read an operand after another op had overwritten it with its own output."""
    return _read(
        view,
        view.case.beside,
        "overwritten_input",
        "{by} in place of {operand}, of which it is made: the buffer was overwritten by an op that "
        "works in place, or the wrong buffer was read",
    )


def _read(view: SampledTensors, foreign: Sequence[Foreign], label: str, words: str) -> Cause | None:
    case = view.case
    if not foreign or case.reweigh is None or case.device.size > LARGEST:
        return None
    if not view.visible:
        return None
    match = first_that_fits(view, _trials(foreign, label, words))
    if match is None:
        return None
    trial, output = match
    words, operands = f"of {trial.words}", list(trial.values)
    return view.cause_of_rerun(case.ops[-1], label, words, output, operands=operands)


def _trials(foreign: Sequence[Foreign], label: str, words: str) -> Iterator[Trial[Array]]:
    for other in foreign:
        values = other.values()
        if values is not None and values.size <= LARGEST:
            words_of_trial = words.format(operand=other.operand, by=other.by)
            yield Trial(label, words_of_trial, {other.operand: values})


CAUSES = (CauseRule(read_before, CauseStage.MISSING, 20, {"dumped_otherwise": SURE}),)
