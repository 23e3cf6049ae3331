"""The operand formats of a device's matrix ops, found from the errors of a few of them.

Where the value type explains the errors of a family, nothing is looked for. Else :mod:`.candidates`
names the likeliest formats, and those that leave less than half of the errors of several ops are
believed. Then each op of the family is asked whether it reads its operands so, as others of it do,
or as they are.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.candidates import ALIKE, likeliest_formats
from divergraph.rootcause.arithmetic.contract import (
    FULL,
    Combined,
    OperandFormat,
    all_sums,
    readings,
)
from divergraph.rootcause.arithmetic.families import (
    Exactness,
    Family,
    Loss,
    ReadOperands,
    family_of,
)
from divergraph.rootcause.arithmetic.family_groups import groups_by_family, sampled_by_family
from divergraph.rootcause.arithmetic.fits import FormatFits
from divergraph.rootcause.arithmetic.losses import common_loss
from divergraph.rootcause.devices.arithmetic import ratio_of
from divergraph.rootcause.devices.tiles.told_tiles import told_tiles
from divergraph.rootcause.groups.group_runs import GroupSample, Samples
from divergraph.rootcause.groups.groups import SEVERAL, Group, sampled_groups
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.values import TINY, same_shape

_MATCHED = 4
"""Ops that all scaled formats are tried on. Bounds cost."""
_FORMATS = 3
"""Formats that one family may have beside each other. Bounds cost."""


@dataclass
class OperandSearch:
    """Looks for the operand formats of the device of *golden*'s ops.

    *samples* runs groups on the device's inputs, *floors* gives the emulation under a hypothesis;
    *suspect* is the limit of suspicion below which float32 is explanation enough.
    """

    golden: OpGraph
    samples: Callable[[Sequence[Group]], Samples]
    floors: Callable[[ReadOperands], Emulation]
    suspect: float

    @cached_property
    def _fits(self) -> FormatFits:
        return FormatFits(self.floors)

    def found(self, groups: Sequence[Group]) -> ReadOperands:
        """The formats of all families whose errors the value type does not explain."""
        plain = self.floors(ReadOperands())
        rounds = plain.precision.rounds
        families = dict(sampled_by_family(groups, self.golden, rounds=rounds))
        if not families:
            return ReadOperands()
        ran = self.samples(list(families))
        ratios = {
            sample.group: ratio for sample in ran if (ratio := ratio_of(sample, plain)) is not None
        }
        # Errors of transformed tiles are of float32 as well.
        if not rounds:
            ratios |= dict.fromkeys(_tiled(ran, plain, ratios, self.suspect), 1.0)
        return self._formats_by_family(groups, ran, ratios, families)

    def _formats_by_family(
        self,
        groups: Sequence[Group],
        ran: Samples,
        ratios: Mapping[Group, float],
        families: Mapping[Group, Family],
    ) -> ReadOperands:
        """The formats of families in which several ops, or the only one, have *ratios* of error
        over floor that the value type does not explain."""
        formats: dict[Family, OperandFormat] = {}
        ops: dict[str, OperandFormat] = {}
        losses: dict[Family, Loss] = {}
        exact: dict[OperandFormat, Exactness] = {}
        limit = self._limit
        # The largest first: what is known of them is the likeliest for small ones.
        for family, _ in Counter(families.values()).most_common():
            own = [group for group in ratios if families[group] is family]
            off = [group for group in own if ratios[group] > limit]
            if len(off) < min(len(own), SEVERAL) or not off:
                continue
            all_of = groups_by_family(groups, self.golden)[family]
            over = self._over(all_of)
            wrong = [group for group in all_of if over.get(group, False)]
            pool = self.samples(sampled_groups(wrong))
            chosen = self._formats(pool, formats.values())
            summed = self._sums_in_some_order(pool) if not chosen else None
            if summed is not None:
                formats[family] = summed
                continue
            if not chosen:
                # Formats are looked for below the limit of suspects, as they explain exactly; a
                # loss that nobody would be suspected for needs no explanation.
                usual = statistics.median_low(ratios[group] for group in own)
                lost = common_loss(self.golden, ran.of(own)) if usual > self.suspect else None
                losses |= {} if lost is None else {family: lost}
                continue
            exact |= {kind: self._fits.exactness(pool, kind) for kind in chosen}
            of_op = self._assigned(all_of, over, chosen)
            ((commonest, _),) = Counter(of_op.values()).most_common(1)
            formats |= {} if commonest == FULL else {family: commonest}
            ops |= {op: kind for op, kind in of_op.items() if kind != commonest}
        return ReadOperands(formats, ops, losses, exact)

    @property
    def _limit(self) -> float:
        """Error over floor above which an op is not explained: floors that imitate the very
        roundings tell more than random ones."""
        rounds = self.floors(ReadOperands()).precision.rounds
        return calibration.FUNCTION_INEXACT if rounds else self.suspect

    def _formats(
        self, samples: Samples, confirmed: Collection[OperandFormat]
    ) -> list[OperandFormat]:
        """The formats that leave less than half of the errors of several of *samples*, or of one
        where other families have it (*confirmed*)."""
        chosen: list[OperandFormat] = []
        unexplained = list(samples)
        needed = min(len(unexplained), SEVERAL)
        while len(unexplained) >= needed and len(chosen) < _FORMATS:
            few = _unlike(unexplained)[:_MATCHED]
            every = {
                kind: [self._fits.fit(sample, kind).rest for sample in few]
                for kind in likeliest_formats(few, self._fits.imitation())
                # One weight held in fewer bits may be a fault of the converter; what rounds
                # activations computes so.
                if needed > 1 or not kind.leaves_activations
            }
            rests = _held_either_way(every)
            fitting = {
                kind: own
                for kind, own in rests.items()
                if are_shown(own, 1 if kind in confirmed else needed)
                and (kind in confirmed or not _is_chance(own, few))
            }
            if not fitting:
                break
            sums = {kind: sum(min(1.0, rest) for rest in own) for kind, own in fitting.items()}
            alike = [kind for kind in sums if sums[kind] <= ALIKE * min(sums.values())]
            # Where no numbers are small or large, float16 is TF32, as which float32 is read.
            best = min(alike, key=lambda kind: (kind.price, sums[kind], kind.name == "fp16"))
            chosen.append(best)
            unexplained = [
                sample
                for sample in unexplained
                if self._fits.fit(sample, best).rest > calibration.OPERANDS_REST
            ]
        return chosen

    def _sums_in_some_order(self, samples: Iterable[GroupSample]) -> OperandFormat | None:
        """The sums that make errors as large as those of most of *samples*, whatever their order;
        None without any, and where the samples are too few to tell that from a fault."""
        few = _unlike(samples)[:_MATCHED]
        if len(few) < SEVERAL:
            return None
        fitting: dict[OperandFormat, float] = {}
        for sums in (accumulator for accumulator in all_sums() if not accumulator.ordered):
            kind = Combined(None, None, sums)
            floors = self._fits.with_format(kind)
            ratios = [ratio for sample in few if (ratio := ratio_of(sample, floors)) is not None]
            middle = statistics.median_high(ratios) if len(ratios) >= SEVERAL else math.inf
            if 1.0 / calibration.FUNCTION_FITS <= middle <= calibration.FUNCTION_FITS:
                fitting[kind] = abs(math.log(middle))
        return min(fitting, key=fitting.__getitem__, default=None)

    def _over(self, groups: Sequence[Group]) -> dict[Group, bool]:
        """Whether the value type leaves errors of each group that can be run unexplained."""
        plain = self.floors(ReadOperands())
        ratios = ((sample.group, ratio_of(sample, plain)) for sample in self.samples(groups))
        return {group: ratio is None or ratio > self._limit for group, ratio in ratios}

    def _assigned(
        self,
        groups: Sequence[Group],
        over: Mapping[Group, bool],
        formats: Sequence[OperandFormat],
    ) -> dict[str, OperandFormat]:
        """By golden matrix op the format that its own errors hold, where they are *over* what the
        value type explains; for one that was not run, or is not finite, that of most."""
        kind_of_group: dict[Group, OperandFormat] = {
            group: FULL for group in over if not over[group]
        }
        for sample in self.samples([group for group in over if over[group]]):
            fits = {kind: self._fits.fit(sample, kind) for kind in formats}
            best = min(fits, key=lambda kind: fits[kind].rest)
            if math.isfinite(fits[best].projection):
                kind_of_group[sample.group] = best if fits[best].projection >= 0.5 else FULL
        commonest = Counter(kind_of_group.values()).most_common(1)
        usual = commonest[0][0] if commonest else formats[0]
        return {
            op_id: kind_of_group.get(group, usual)
            for group in groups
            for op_id in group.ops
            if family_of(self.golden.ops[op_id]) is not None
        }


def _held_either_way(
    rests: Mapping[OperandFormat, Sequence[float]],
) -> dict[OperandFormat, Sequence[float]]:
    """*rests* without the formats that round a product once: where that is left in float32, or in
    the type of all values, before a bias is added to it, the operands are the same."""
    either = {kind: own for kind, own in rests.items() if not _rounds_once(kind)}
    for kind, own in rests.items():
        if isinstance(kind, Combined) and _rounds_once(kind):
            operands = replace(kind, sums=None)
            either[operands] = list(map(min, own, rests[operands]))
    return either


def _rounds_once(kind: OperandFormat) -> bool:
    return kind.sums is not None and kind.sums.once


def _unlike(samples: Iterable[GroupSample]) -> list[GroupSample]:
    """*samples* with one of each size in front, the smallest first: in products of few terms many
    formats are the same."""
    by_size = sorted(samples, key=lambda sample: sample.nbytes)
    first = {sample.nbytes: sample for sample in reversed(by_size)}
    return [
        *reversed(first.values()),
        *(sample for sample in by_size if sample is not first[sample.nbytes]),
    ]


def _is_chance(rests: Iterable[float], samples: Iterable[GroupSample]) -> bool:
    """Whether one of all formats there are leaves these shares of the errors of *samples* by chance
    as well: of errors in n values a direction at random leaves a share s with the odds s^(n - 1).
    """
    chance = math.log((len(readings()) + 1) ** 2 * (len(all_sums()) + 1))
    for rest, sample in zip(rests, samples, strict=True):
        if rest <= calibration.OPERANDS_REST:
            chance += (sample.reference.size - 1) * math.log(max(rest, TINY))
    return chance > math.log(calibration.FALSE_ALARMS)


def are_shown(rests: Iterable[float], needed: int) -> bool:
    """Whether a format that leaves these shares of the errors of ops is shown by *needed* ones."""
    return sum(rest <= calibration.OPERANDS_REST for rest in rests) >= needed


def _tiled(
    ran: Samples, plain: Emulation, ratios: Mapping[Group, float], suspect: float
) -> Iterator[Group]:
    """The groups whose errors are not of their operands but of float32 over transformed tiles."""
    wide = [group for group, ratio in ratios.items() if ratio > suspect]
    for sample in ran.of(wide):
        reference = sample.reference
        device = same_shape(sample.device, reference.shape)
        if device is not None and told_tiles(plain, sample.group, sample.given, device, reference):
            yield sample.group
