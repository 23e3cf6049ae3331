"""What a run says in the end: its result, whom to blame, and the verdict that fits both."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from divergraph.graphs.pairing import Pair
from divergraph.results.damage import Damage, damage_of
from divergraph.results.ends import result_tensors
from divergraph.text.unlike_inputs import unlike_inputs_text
from divergraph.text.words import counted
from divergraph.thresholds.doubts import undecided, with_doubt
from divergraph.values.array_types import Array
from divergraph.values.pairs import read_pair
from divergraph.values.unread import Unread
from graphstore.columns.op_attributes import RANKS
from graphstore.contract import RunData
from graphstore.model import (
    Blamed,
    Comparison,
    DamagedOutput,
    Method,
    ResultState,
    RunBlame,
    RunResult,
    TensorIO,
    TensorRef,
    Verdict,
)

SEVERAL = 4.0
"""The device's error over that of rounding in every op, up to which rounding explains the error:
each is one draw of many."""
_NAMED = 3
_UNEXPLAINED = "the result is damaged, and neither an op nor rounding explains it"
_FINE = (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)

Values = Callable[[TensorRef], tuple[Array, Array] | None]
"""The values of a device output and of its golden tensor, both in golden's shape; None if there are
none that can be held against each other."""
Rounded = Callable[[Sequence[TensorRef]], Mapping[TensorRef, Array] | str]
"""Device outputs as they are where every op from the model's inputs on rounds as the device does
and is right otherwise; or why nobody can say."""


@dataclass(frozen=True, slots=True)
class _OutputDamage:
    """Damage to a device output, with its values on both sides, None where they are not known."""

    output: TensorRef
    damage: Damage
    record: DamagedOutput
    pair: tuple[Array, Array] | None


def with_result(data: RunData, values: Values, rounded: Rounded) -> RunData:
    """*data* with the answer whether the outputs of its model are damaged.

    What *rounded* gives is asked for only where an output is damaged and no op is guilty.
    """
    tensors = result_tensors(data)
    names = {
        TensorRef(op.id, port): tensor.name
        for op in data.golden.ops
        for port, tensor in enumerate(op.outputs)
    }
    damages = [
        damage
        for item in tensors.compared
        for damage in _damages(item, _name(item, names), values(TensorRef(item.op, item.port)))
    ]
    if damages and not data.origins and data.run.verdict in _FINE:
        damages = list(_against_rounding(damages, rounded))
    records = [damage.record for damage in damages]
    records += [
        DamagedOutput(_name(item, names), item.op, item.port, "", f"shapes differ: {item.detail}")
        for item in tensors.misshapen
    ]
    looked_at = len(tensors.compared) + len(tensors.misshapen)
    return replace(data, run=replace(data.run, result=_result(looked_at, records)))


def _name(item: Comparison, names: Mapping[TensorRef, str]) -> str:
    return item.op if item.golden is None else names.get(item.golden, str(item.golden))


def _damages(item: Comparison, name: str, pair: tuple[Array, Array] | None) -> list[_OutputDamage]:
    device, golden = pair or (None, None)
    return [
        _OutputDamage(
            TensorRef(item.op, item.port),
            damage,
            damage.of(item, name, None if pair is None else damage.error(*pair)),
            pair,
        )
        for damage in damage_of(item, device, golden)
    ]


def _against_rounding(damages: Sequence[_OutputDamage], rounded: Rounded) -> list[_OutputDamage]:
    """*damages* with what rounding in every op gives in their places. Where that is not known,
    parts that are merely far off are left out: rounding may well do that to a small part."""
    wanted = list(dict.fromkeys(damage.output for damage in damages if damage.pair is not None))
    rounded_values = rounded(wanted)
    if isinstance(rounded_values, str):
        return [damage for damage in damages if damage.damage.axis is None or damage.damage.lost]
    return [_explained(damage, rounded_values.get(damage.output)) for damage in damages]


def _explained(damage: _OutputDamage, rounded: Array | None) -> _OutputDamage:
    record = damage.record
    if rounded is None or damage.pair is None:
        return damage
    by_rounding = damage.damage.error(rounded, damage.pair[1])
    inherent: bool | None = None
    if damage.damage.lost:
        inherent = False
    elif by_rounding is not None and record.error is not None:
        inherent = record.error <= SEVERAL * by_rounding
    elif by_rounding is None and record.error is None:
        inherent = True  # neither is finite
    return replace(damage, record=replace(record, rounding=by_rounding, inherent=inherent))


def _result(outputs: int, damaged: Sequence[DamagedOutput]) -> RunResult:
    if not outputs:
        return RunResult(because="no output of the model was compared, nor what it is made of")
    if not damaged:
        words = "the output and its parts are" if outputs == 1 else f"all {outputs} outputs are"
        return RunResult(ResultState.RIGHT, f"{words} within their limits")
    worst_first = sorted(damaged, key=lambda output: -(output.error or math.inf))
    more = f"; and {len(damaged) - 1} more" if len(damaged) > 1 else ""
    return RunResult(ResultState.DAMAGED, damage_text(worst_first[0]) + more, tuple(worst_first))


def with_inherent_damage(data: RunData) -> RunData:
    """*data*, of calls that each give what their own inputs give: what is damaged then is what
    rounding has become from call to call. It makes no other shape, what came through a call
    between ranks that was not run again may be that call's, and of an input of another shape
    nothing shows that it is golden's."""
    result = data.run.result
    is_broken = any(item.misshapen and item.io is TensorIO.INPUT for item in data.comparisons)
    if not result.damaged or is_broken or _leaves_calls_between_ranks(data):
        return data
    misshapen = {(item.op, item.port) for item in result_tensors(data).misshapen}
    records = [
        output if (output.op, output.port) in misshapen else replace(output, inherent=True)
        for output in result.damaged
    ]
    return replace(data, run=replace(data.run, result=_result(len(records), records)))


def _leaves_calls_between_ranks(data: RunData) -> bool:
    judged = {item.op for item in data.comparisons if item.split and not item.split.failure}
    return any(RANKS in op.attrs and op.id not in judged for op in data.device.ops)


def damage_text(damaged: DamagedOutput) -> str:
    """``output0, 4-9 of axis 2: all are 0 where golden's go from 0.01 to 0.21``, with the word of
    rounding where it was asked."""
    where = f"{damaged.tensor}, {damaged.part}" if damaged.part else damaged.tensor
    text = f"{where}: {damaged.damage}"
    if damaged.inherent is None:
        return text
    if damaged.rounding is not None and damaged.error == damaged.rounding and not damaged.inherent:
        return f"{text}; every op rounds as its scales say, so a scale is too coarse for this part"
    figures = ""
    if damaged.error is not None and damaged.rounding is not None:
        figures = f" ({damaged.rounding:.2g} by rounding, {damaged.error:.2g} on the device)"
    if damaged.inherent:
        return f"{text}; inherent: the rounding of all ops together gives it{figures}"
    return f"{text}; the rounding of all ops together does not give it{figures}"


def concluded(data: RunData, pairs: Sequence[Pair] = ()) -> RunData:
    """*data* with the answer who is to blame; where no original op ran, also with the answer
    whether the outputs are damaged, as the values of *pairs* show.

    A damaged result that neither an op nor rounding explains is no good verdict: the run is
    undecided then.
    """
    if data.run.verdict is Verdict.LAYOUTS_DIFFER:
        reason = "parts of a job cannot be held against those of a job that is split otherwise"
        data = replace(data, run=replace(data.run, result=RunResult(because=reason)))
    if not data.run.result.because:
        by_output = {TensorRef(p.op.id, p.port): p for p in pairs if p.io is TensorIO.OUTPUT}
        data = with_result(
            data, lambda ref: _read(by_output.get(ref)), lambda _: "no original op was run"
        )
    if data.run.verdict in _FINE and not _is_excused(data):
        data = undecided(with_doubt(data, _UNEXPLAINED))
    return replace(data, run=replace(data.run, blame=_blame(data)))


def _is_excused(data: RunData) -> bool:
    """Whether it is said of all damage why nobody is to blame: rounding explains it or, where
    limits alone decide, a note says why what is over a limit is no origin (ties)."""
    damaged = [output for output in data.run.result.damaged if not output.inherent]
    if not damaged or data.run.method is not Method.THRESHOLDS:
        return not damaged
    outputs = [item for item in data.comparisons if item.io is TensorIO.OUTPUT]
    over = {(item.op, item.port) for item in outputs if item.over}
    return all(not output.part and (output.op, output.port) in over for output in damaged)


def _read(pair: Pair | None) -> tuple[Array, Array] | None:
    if pair is None or pair.device.statistics or pair.golden.statistics:
        return None
    values = read_pair(pair.tensors)
    return None if isinstance(values, Unread) else (values.device, values.golden)


def _blame(data: RunData) -> RunBlame:
    run = data.run
    if run.verdict is Verdict.DIVERGED:
        first = data.origins[0]
        more = len(data.origins) - 1
        words = f"{first.op}: {first.cause}" if first.cause else first.op
        sentence = words + (f"; and {counted(more, 'more op')}" if more else "")
        return RunBlame(Blamed.OPS, sentence, tuple(origin.op for origin in data.origins))
    doubt = run.analysis.doubt
    if run.verdict is Verdict.INPUTS_DIFFER:
        return RunBlame(Blamed.INPUTS, unlike_inputs_text(run.analysis.mismatches) or doubt)
    if run.verdict is Verdict.LAYOUTS_DIFFER:
        return RunBlame(Blamed.LAYOUT, doubt or "the sides split the job differently")
    if run.verdict in _FINE:
        if run.method is Method.ROOT_CAUSE:
            return RunBlame(Blamed.NOBODY, "no op makes more error than rounding explains")
        excuses = [warning for warning in run.warnings if warning.startswith("no origin: ")]
        return RunBlame(Blamed.NOBODY, "; ".join(excuses[:_NAMED]) or "no error starts at an op")
    if run.blame.on is not Blamed.NOT_KNOWN:
        return run.blame  # whoever found nothing to decide knows why
    return RunBlame(because=doubt or "nothing could be compared")
