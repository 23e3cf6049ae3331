"""How the kernels of a device scale what they quantise dynamically, as their own outputs show.

Quantising costs a per cent or so, and which one depends on what shares a scale. Under the right
hypothesis nearly every value lies next to the emulation, except in a channel with a fault; under
the others most lie nearer to the exact product. Runtimes choose kernels op by op: a convolution of
1x1 may be one of rows where its neighbours are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from divergraph.rootcause import calibration
from divergraph.rootcause.devices.dynamic_scales import DYNAMIC_SCALES, DynamicScale
from divergraph.rootcause.devices.mixed_precision import Arithmetics
from divergraph.rootcause.groups.group_runs import GroupSample
from divergraph.rootcause.groups.groups import DYNAMIC, Group
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.values import is_numeric, same_shape


def with_dynamic_scales(
    run: PreparedRun, groups: Sequence[Group], arithmetics: Arithmetics
) -> tuple[Sequence[Group], Arithmetics]:
    """The groups and emulations of a run in which the kernels whose scales are known now are
    emulated, and no more taken for kernels of unknown scales."""
    dynamic = run.quantisers.dynamic
    own = [group for group in groups if DYNAMIC in group.kernels and not group.failure]
    if not own:
        return groups, arithmetics
    floors = arithmetics.usual
    chosen = scales_of(run.runs.run, own, floors)
    usual = replace(floors, quantisers=replace(floors.quantisers, scales=chosen))
    settled = {
        group.output
        for group in own
        if any(op in chosen for op in group.ops)
        and all(op in chosen for op in group.ops if op in dynamic)
    }
    settled_groups = [
        replace(group, kernels=group.kernels - {DYNAMIC}) if group.output in settled else group
        for group in groups
    ]
    return settled_groups, replace(arithmetics, usual=usual)


def scales_of(
    samples: Callable[[Sequence[Group]], Iterable[GroupSample]],
    groups: Sequence[Group],
    floors: Emulation,
) -> dict[str, DynamicScale]:
    """By golden op how the device scales what it is given there: as its own output shows, or else
    the likeliest of what the others show. No op is in it if none shows anything.

    *samples* runs groups on the device's inputs.
    """
    votes: Counter[DynamicScale] = Counter()
    chosen_scales: dict[str, DynamicScale] = {}
    open_shares: list[tuple[list[str], dict[DynamicScale, float]]] = []
    for sample in samples(groups):
        ops = [op for op in sample.group.ops if op in floors.quantisers.dynamic]
        shares: dict[DynamicScale, float] = {}
        # What was shown most is tried first, and mostly nothing else needs to be.
        for scale in sorted(DYNAMIC_SCALES, key=lambda kind: -votes[kind]):
            shares[scale] = _share(sample, floors, dict.fromkeys(ops, scale))
            if shares[scale] >= calibration.DYNAMIC_ALIKE:
                votes[scale] += 1
                chosen_scales |= dict.fromkeys(ops, scale)
                break
        else:
            open_shares.append((ops, shares))
    for ops, shares in open_shares if votes else ():
        chosen_scales |= dict.fromkeys(
            ops, max(votes, key=lambda kind: (shares[kind], votes[kind]))
        )
    return chosen_scales


def _share(sample: GroupSample, floors: Emulation, scales: Mapping[str, DynamicScale]) -> float:
    """``share_alike`` with *scales*."""
    return share_alike(
        sample, replace(floors, quantisers=replace(floors.quantisers, scales=scales))
    )


def share_alike(sample: GroupSample, floors: Emulation) -> float:
    """The share of the values that are much nearer to what quantising as *floors* do gives than to
    the reference, of those where the two differ; 0 where that cannot be told."""
    device = same_shape(sample.device, sample.reference.shape)
    if device is None or not (is_numeric(device) and is_numeric(sample.reference)):
        return 0.0
    (imitated,) = replace(floors, plain=True).emulated([sample.group], [sample.given])
    if imitated is None or imitated.shape != sample.reference.shape:
        return 0.0
    actual, right, like = (
        np.asarray(array, np.float64) for array in (device, sample.reference, imitated)
    )
    differ = like != right
    nearer = np.abs(actual - like)[differ] < 0.5 * np.abs(right - like)[differ]
    return float(np.mean(nearer)) if nearer.size else 0.0
