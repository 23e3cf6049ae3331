"""The run as a device would have made it that rounds in every op and is right otherwise.

Each group is emulated as for its noise floor, but on what the groups before it gave instead of the
device's dumped values, so rounding adds up from the model's inputs to its outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from divergraph.execute.contract import Array
from divergraph.rootcause.devices.mixed_precision import Arithmetics
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.op_graph import Source
from divergraph.rootcause.prepared import PreparedRun
from graphstore.model import TensorRef
from graphstore.traverse.reach import reached


def rounded_from_the_inputs(
    run: PreparedRun,
    groups: Mapping[TensorRef, Group],
    arithmetics: Arithmetics,
    wanted: Sequence[TensorRef],
) -> Mapping[TensorRef, Array] | str:
    """The device outputs *wanted*, in golden's shapes, rounded from the model's inputs on; or why
    they cannot be had: an op before them that cannot be run here."""
    sources = {ref: _reads(groups[ref]) for ref in groups}
    needed = reached([ref for ref in wanted if ref in groups], lambda ref: sources.get(ref, ()))
    missing = next((ref for ref in (*wanted, *needed) if ref not in groups), None)
    if missing is not None:
        return f"{missing.op} was not judged"
    waiting = dict.fromkeys(needed)
    readers = Counter(source for ref in needed for source in sources[ref])
    values: dict[TensorRef, Array] = {}
    needed_values = set(wanted)
    while waiting:
        ready = [ref for ref in waiting if all(source in values for source in sources[ref])]
        if not ready:
            return f"{next(iter(waiting)).op} takes part in a loop"
        for chunk in run.runs.chunks([groups[ref] for ref in ready]):
            failure = _emulate(run, arithmetics, chunk, values)
            if failure:
                return failure
        for ref in ready:
            del waiting[ref]
            for source in sources[ref]:
                readers[source] -= 1
                if not readers[source] and source not in needed_values:
                    del values[source]
    return {ref: values[ref] for ref in wanted}


def _reads(group: Group) -> tuple[TensorRef, ...]:
    """The device outputs a group is made of; those of a source are none of the run's."""
    if group.source is not None:
        return ()
    return group.measured if group.is_passthrough is None else (group.is_passthrough,)


def _emulate(
    run: PreparedRun,
    arithmetics: Arithmetics,
    chunk: Sequence[Group],
    values: dict[TensorRef, Array],
) -> str:
    """Adds the outputs of *chunk* to *values*; gives why that failed, "" if it did not."""
    runnable: list[Group] = []
    feeds: list[dict[str, Array]] = []
    for group in chunk:
        if group.source in (Source.ENTRY, Source.RANDOM, Source.VARIABLE):
            value = run.values.golden(group.golden)  # drawn or fed: both sides have the same
            if value is None:
                return f"golden has no values of {group.golden}"
            values[group.output] = value
        elif group.failure:
            return f"{group.output.op}: {group.failure}"
        elif group.is_passthrough is not None:
            passed = arithmetics.of(group).passed_on(group, values[group.is_passthrough])
            values[group.output] = passed
        else:
            group_feeds, missing = _feeds(run, group, values)
            if missing:
                return f"no values of {missing}"
            runnable.append(group)
            feeds.append(group_feeds)
    emulated = arithmetics.emulated(runnable, feeds)
    for group, value in zip(runnable, emulated, strict=True):
        if value is None:
            return f"{group.output.op} cannot be emulated"
        values[group.output] = value
    return ""


def _feeds(
    run: PreparedRun, group: Group, values: Mapping[TensorRef, Array]
) -> tuple[dict[str, Array], str]:
    group_feeds: dict[str, Array] = {}
    for feed in group.feeds:
        if feed.device is not None:
            value: Array | None = values[feed.device]
        elif feed.golden is not None:
            value = run.values.golden(feed.golden)
        else:
            value = run.values.golden_input(feed.tensor)
            value = run.values.device_input(feed.tensor) if value is None else value
        if value is None:
            return group_feeds, feed.tensor
        group_feeds[feed.tensor] = value
    return group_feeds, ""
