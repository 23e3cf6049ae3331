"""The operand precision of a device's matrix ops, found from the errors of a few of them."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.floors import floor_of
from divergraph.rootcause.devices.operand_precision import (
    CANDIDATES,
    Family,
    OperandEvidence,
    Operands,
    ShortOperands,
    decided,
    family_of,
)
from divergraph.rootcause.devices.tiles.told_tiles import told_tiles
from divergraph.rootcause.groups.group_runs import GroupSample, Samples
from divergraph.rootcause.groups.groups import Group, sampled_groups
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.values import is_numeric, relative, same_shape

_LOOKED_AT = 16
"""Ops of a family that are run, spread over the model. Bounds cost: a median of 16 is stable."""


def find_operands(
    golden: OpGraph,
    groups: Iterable[Group],
    samples: Callable[[Sequence[Group]], Samples],
    floors: Callable[[ShortOperands], Emulation],
    suspect: float,
) -> dict[Family, Operands]:
    """The operand precision of each family whose errors float32 operands do not explain.

    *samples* runs groups on the device's inputs, *floors* gives the emulation under a hypothesis;
    *suspect* is the limit of suspicion below which float32 is explanation enough.
    """
    families = {group: family for family, group in _chosen(golden, groups)}
    if not families:
        return {}
    ran, plain = samples(list(families)), floors({})
    known = {each.group: ratio for each in ran if (ratio := ratio_of(each, plain)) is not None}
    if not _are_explained(known, families, suspect):
        known |= dict.fromkeys(_tiled(ran, plain, known, suspect), 1.0)
    if _are_explained(known, families, suspect):
        return {}
    counts = Counter(families[group] for group in known)
    made: dict[Operands, Emulation] = {
        each: floors(dict.fromkeys(Family, each)) for each in CANDIDATES
    }
    found = []
    for sample in ran.of(list(known)):
        family = families[sample.group]
        alone = counts[family] < calibration.ENOUGH_OPS
        found.append(_evidence(family, sample, known[sample.group], made, alone=alone))
    return decided(found, suspect)


def _are_explained(
    known: Mapping[Group, float], families: Mapping[Group, Family], suspect: float
) -> bool:
    """Whether float32 explains each family: the median of its errors over floors."""
    by_family: dict[Family, list[float]] = {}
    for group, ratio in known.items():
        by_family.setdefault(families[group], []).append(ratio)
    return all(statistics.median_low(own) <= suspect for own in by_family.values())


def _tiled(
    ran: Samples, plain: Emulation, known: Mapping[Group, float], suspect: float
) -> Iterator[Group]:
    """The groups whose errors are not of their operands but of float32 over transformed tiles."""
    wide = [group for group, ratio in known.items() if ratio > suspect]
    for sample in ran.of(wide):
        reference = sample.reference
        device = same_shape(sample.device, reference.shape)
        if device is not None and told_tiles(plain, sample.group, sample.given, device, reference):
            yield sample.group


def _chosen(golden: OpGraph, groups: Iterable[Group]) -> Iterator[tuple[Family, Group]]:
    """Groups with ops of one family only, with their family: the shortest groups, longer ones only
    where too few are left. Other ops in a group would add errors of their own."""
    by_family: dict[Family, list[Group]] = {}
    for group in groups:
        if group.failure or group.is_passthrough is not None:
            continue
        families = {family_of(golden.ops[op_id]) for op_id in group.ops} - {None}
        if len(families) == 1 and (family := next(iter(families))) is not None:
            by_family.setdefault(family, []).append(group)
    for family, found in by_family.items():
        sizes = sorted(len(group.ops) for group in found)
        most = max(sizes[0] + 1, sizes[: calibration.ENOUGH_OPS][-1])
        plain = [group for group in found if len(group.ops) <= most]
        yield from ((family, group) for group in sampled_groups(plain, _LOOKED_AT))


def _evidence(
    family: Family,
    sample: GroupSample,
    plain: float,
    floors: Mapping[Operands, Emulation],
    *,
    alone: bool,
) -> OperandEvidence:
    """Error over floor of one op under each hypothesis. A family of few ops (*alone*) has no
    telling median: there the errors must also point the same way as the emulation's. Not those of
    recurrent layers, which hand their own rounding on from step to step."""
    alone = alone and family is not Family.RECURRENT
    ratios = {Operands.FULL: plain}
    for operands, each in floors.items():
        ratio = ratio_of(sample, each)
        if alone and ratio is not None and _agreement(sample, each) < calibration.OPERANDS_ALIKE:
            ratio = math.inf
        ratios[operands] = plain if ratio is None else ratio
    return OperandEvidence(family, ratios)


def _agreement(sample: GroupSample, floors: Emulation) -> float:
    """The cosine between the device's errors and the emulation's; 1 where it is not defined, so
    that nothing is ruled out by it."""
    (emulated,) = floors.emulated([sample.group], [sample.given])
    device = same_shape(sample.device, sample.reference.shape)
    if emulated is None or device is None or emulated.shape != sample.reference.shape:
        return 1.0
    found = agreement(device, emulated, sample.reference)
    return 1.0 if found is None else found


def is_of_operands(sample: GroupSample, floors: Emulation) -> bool:
    """Whether the errors of a product are those of operands in 16 bits: then it shows nothing of
    how its weight is held. *floors* emulate it in float32. Operands that are cut off make the
    output smaller, as cut weights do, but twice as much: so the errors must be of one size."""
    device = same_shape(sample.device, sample.reference.shape)
    for kind in CANDIDATES:
        rounding = replace(floors, operands=dict.fromkeys(Family, kind), plain=True)
        (made,) = rounding.emulated([sample.group], [sample.given])
        if device is None or made is None or made.shape != device.shape:
            return False
        alike = agreement(device, made, sample.reference) or 0.0
        if alike < calibration.OPERANDS_SEEN:
            continue
        size = relative(device, sample.reference) / relative(made, sample.reference)
        if calibration.OPERANDS_SEEN <= alike * size <= 1.0 / calibration.OPERANDS_SEEN:
            return True
    return False


def agreement(device: Array, emulated: Array, reference: Array) -> float | None:
    """The cosine between the errors of *device* and of *emulated*, arrays of the reference's
    shape: near 1 where they are the same errors. None where a side has none, or is not finite."""
    right = np.asarray(reference, np.float64)
    with np.errstate(all="ignore"):
        one, other = np.asarray(device) - right, np.asarray(emulated) - right
        sizes = float(np.sum(one**2) * np.sum(other**2))
        if not 0.0 < sizes < math.inf:
            return None
        return float(np.sum(one * other)) / math.sqrt(sizes)


def ratio_of(sample: GroupSample, floors: Emulation) -> float | None:
    """Introduced error over noise floor of one group; None where it cannot be measured."""
    found = measured(sample, floors)
    return None if found is None else found[0]


def measured(sample: GroupSample, floors: Emulation) -> tuple[float, Array, Array | None] | None:
    """Introduced error over noise floor of one group, its device output in the reference's shape
    and its emulation; None where it cannot be measured."""
    device = same_shape(sample.device, sample.reference.shape)
    if device is None or not (is_numeric(device) and is_numeric(sample.reference)):
        return None
    try:
        (emulated,) = floors.emulated([sample.group], [sample.given])
    except MemoryError:
        return None  # the other samples of its kind will do
    floor = floor_of(sample.reference, emulated, floors.precision, len(sample.group.ops))
    return relative(device, sample.reference) / floor, device, emulated
