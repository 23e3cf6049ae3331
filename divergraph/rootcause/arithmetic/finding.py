"""The operand formats of a device's matrix ops, found from the errors of a few of them.

Where the value type explains the errors of a family, nothing is looked for. Else types that need no
scale are tried (float32 as TF32): the family's median of error over floor decides. What is left is
asked for scaled formats: :mod:`.matched` names the likeliest, and those that leave less than half
of the errors of several ops are believed. Then each op of the family is asked whether it reads its
operands so, as others of it do, or as they are.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.contract import (
    FULL,
    Combined,
    OperandFormat,
    Reading,
    Role,
    Sums,
    all_sums,
    readings,
    whole_formats,
)
from divergraph.rootcause.arithmetic.families import Family, Loss, ReadOperands, family_of
from divergraph.rootcause.arithmetic.matched import Matched, Side
from divergraph.rootcause.devices.arithmetic import agreement, ratio_of
from divergraph.rootcause.devices.floors import floor_of
from divergraph.rootcause.devices.quantised_ops import are_exact
from divergraph.rootcause.devices.tiles.told_tiles import told_tiles
from divergraph.rootcause.groups.group_runs import GroupSample, Samples
from divergraph.rootcause.groups.groups import Group, sampled_groups
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.input_relations.fits import correlation
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.values import relative, same_shape

_LOOKED_AT = 16
"""Ops of a family that are run, spread over the model. Bounds cost: a median of 16 is stable."""
_MOSTLY_GAIN = 0.9
"""The share of an error that is a gain from which on it is one. Changes the verdict of three
products that are all 1.2 times too large."""
_LOOKED_AT_ROUNDED = 8
"""As above on a device that rounds every value, whose floors spread less."""
_MATCHED = 4
"""Ops that all scaled formats are tried on, and (below) how many of these per side are run."""
_RUN_OF_SIDE = 2
_SEVERAL = 2
"""Ops of a family that no single fault is the reason for."""
_TO_SIGMA = 1.4826
"""Of normal numbers, the standard deviation over the median of their distances from the median."""
_ALIKE = 1.05
"""Formats that leave up to so many times the least are alike: they choose words, not guilt."""
_FORMATS = 3
"""Formats that one family may have beside each other. Bounds cost."""


@dataclass(frozen=True, slots=True)
class OperandEvidence:
    """For one matrix op the introduced error over the floor, under each hypothesis."""

    family: Family
    ratios: Mapping[OperandFormat, float]


@dataclass(frozen=True, slots=True)
class Fit:
    """How the errors of one op follow from a format: the ``rest`` |d - f| / |d - r| that is left,
    and the ``projection`` of the errors on those of the format, which is 1 if they hold them and 0
    if not, whatever a fault adds to them. Infinite and NaN where that cannot be told."""

    rest: float
    projection: float


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

    def found(self, groups: Sequence[Group]) -> ReadOperands:
        """The formats of all families whose errors the value type does not explain."""
        plain = self.floors(ReadOperands())
        families = {group: family for family, group in self._chosen(groups, plain)}
        if not families:
            return ReadOperands()
        ran = self.samples(list(families))
        known = {each.group: ratio for each in ran if (ratio := ratio_of(each, plain)) is not None}
        if not plain.precision.rounds:
            return self._scaled(groups, *self._unscaled(ran, plain, known, families))
        return self._scaled(groups, ReadOperands(), ran, known, families)

    def _unscaled(
        self,
        ran: Samples,
        plain: Emulation,
        known: Mapping[Group, float],
        families: Mapping[Group, Family],
    ) -> tuple[ReadOperands, Samples, Mapping[Group, float], Mapping[Group, Family]]:
        """The families of a float32 device whose operands have fewer bits, and the ratios of error
        over floor that are left under these."""
        if not _are_explained(known, families, self.suspect):
            tiled = dict.fromkeys(_tiled(ran, plain, known, self.suspect), 1.0)
            known = {**known, **tiled}
        if _are_explained(known, families, self.suspect):
            return ReadOperands(), ran, known, families
        counts = Counter(families[group] for group in known)
        made = {each: self.floors(_everywhere(each)) for each in whole_formats() if not each.scaled}
        found = []
        for sample in ran.of(list(known)):
            family = families[sample.group]
            alone = counts[family] < calibration.ENOUGH_OPS
            found.append(_evidence(family, sample, known[sample.group], made, alone=alone))
        chosen = decided(found, self.suspect)
        left = {group: ratio for group, ratio in known.items() if families[group] not in chosen}
        return ReadOperands(chosen), ran, left, families

    def _chosen(self, groups: Iterable[Group], plain: Emulation) -> Iterator[tuple[Family, Group]]:
        """Groups with ops of one family only, with their family: the shortest groups, longer ones
        only where too few are left. Other ops in a group would add errors of their own."""
        most_ops = _LOOKED_AT_ROUNDED if plain.precision.rounds else _LOOKED_AT
        for family, found in self._by_family(groups).items():
            sizes = sorted(len(group.ops) for group in found)
            most = max(sizes[0] + 1, sizes[: calibration.ENOUGH_OPS][-1])
            short = [group for group in found if len(group.ops) <= most]
            yield from ((family, group) for group in sampled_groups(short, most_ops))

    def _by_family(self, groups: Iterable[Group]) -> dict[Family, list[Group]]:
        by_family: dict[Family, list[Group]] = {}
        for group in groups:
            if group.failure or group.is_passthrough is not None:
                continue
            ops = (self.golden.ops[op_id] for op_id in group.ops)
            families = {family_of(op, self.golden) for op in ops} - {None}
            if len(families) == 1 and (family := next(iter(families))) is not None:
                by_family.setdefault(family, []).append(group)
        return by_family

    def _scaled(
        self,
        groups: Sequence[Group],
        known: ReadOperands,
        ran: Samples,
        ratios: Mapping[Group, float],
        families: Mapping[Group, Family],
    ) -> ReadOperands:
        """*known*, and the scaled formats of families in which several ops, or the only one, have
        *ratios* of error over floor that the value type does not explain."""
        formats, ops = dict(known.families), dict(known.ops)
        losses: dict[Family, Loss] = {}
        exact: set[OperandFormat] = set()
        limit = self._limit
        for family in dict.fromkeys(families.values()):
            own = [group for group in ratios if families[group] is family]
            off = [group for group in own if ratios[group] > limit]
            if len(off) < min(len(own), _SEVERAL) or not off:
                continue
            all_of = self._by_family(groups)[family]
            over = self._over(all_of)
            wrong = [group for group in all_of if over.get(group, False)]
            pool = self.samples(sampled_groups(wrong, _LOOKED_AT))
            chosen = self._formats(pool)
            if not chosen:
                # Formats are looked for below the limit of suspects, as they explain exactly; a
                # loss that nobody would be suspected for needs no explanation.
                usual = statistics.median_low(ratios[group] for group in own)
                lost = _common_loss(ran.of(own)) if usual > self.suspect else None
                losses |= {} if lost is None else {family: lost}
                continue
            exact |= {kind for kind in chosen if self._is_exact(pool, kind)}
            of_op = self._assigned(all_of, over, chosen)
            ((most, _),) = Counter(of_op.values()).most_common(1)
            formats |= {} if most == FULL else {family: most}
            ops |= {op: kind for op, kind in of_op.items() if kind != most}
        return ReadOperands(formats, ops, losses, frozenset(exact))

    @property
    def _limit(self) -> float:
        """Error over floor above which an op is not explained: floors that imitate the very
        roundings tell more than random ones."""
        rounds = self.floors(ReadOperands()).precision.rounds
        return calibration.FUNCTION_INEXACT if rounds else self.suspect

    def _formats(self, samples: Samples) -> list[OperandFormat]:
        """The scaled formats that leave less than half of the errors of several of *samples*."""
        found: list[OperandFormat] = []
        left = list(samples)
        needed = min(len(left), _SEVERAL)
        while len(left) >= needed and len(found) < _FORMATS:
            few = _unlike(left)[:_MATCHED]
            rests = {
                kind: [self._fit(each, kind).rest for each in few]
                for kind in self._likeliest(few)
                # One weight held in fewer bits may be a fault of the converter; what rounds
                # activations computes so.
                if needed > 1 or not kind.leaves_activations
            }
            fitting = {kind: own for kind, own in rests.items() if are_shown(own, needed)}
            if not fitting:
                break
            sums = {kind: sum(min(1.0, rest) for rest in own) for kind, own in fitting.items()}
            alike = [kind for kind in sums if sums[kind] <= _ALIKE * min(sums.values())]
            best = min(alike, key=lambda kind: (kind.price, sums[kind]))
            found.append(best)
            left = [each for each in left if self._fit(each, best).rest > calibration.OPERANDS_REST]
        return found

    def _is_exact(self, samples: Iterable[GroupSample], kind: OperandFormat) -> bool:
        """Whether all but a few of the ops that show this format are no further off than rounding
        makes them."""
        rounded = self.floors(_everywhere(kind))
        plain, precision = replace(rounded, plain=True), rounded.precision
        ratios = []
        for sample in samples:
            group, shape = sample.group, sample.reference.shape
            made, noisy = (each.emulated([group], [sample.given])[0] for each in (plain, rounded))
            device = same_shape(sample.device, shape)
            if made is None or device is None or made.shape != shape:
                continue
            if self._fit(sample, kind).rest <= calibration.OPERANDS_REST:
                floor = floor_of(made, noisy, precision, len(group.ops))
                ratios.append(relative(device, made) / floor)
        return are_exact(ratios)

    def _likeliest(self, samples: Sequence[GroupSample]) -> list[OperandFormat]:
        """The formats whose roundings show in the products of *samples*, the likeliest first."""
        plain = self._imitation()
        matched = [found for each in samples if (found := Matched.of(each, plain)) is not None]
        sides = [side for each in matched for side in each.sides()]
        by_role = {
            role: self._readings([each for each in sides if each.role is role]) for role in Role
        }
        pairs = product(by_role[Role.ACTIVATION], by_role[Role.WEIGHT])
        combined = [Combined(*pair) for pair in pairs]
        # Errors of sums may look a little like those of a format.
        summed = [
            Combined(each.activation, each.weight, sums)
            for each in dict.fromkeys((FULL, *combined))
            for sums in _likely_sums(matched, each)
        ]
        whole = [each for each in whole_formats() if each.scaled]
        return [*whole, *(each for each in combined if each != FULL), *summed]

    def _readings(self, sides: Sequence[Side]) -> list[Reading | None]:
        """The few readings that agree best with all of *sides*; None where none does better than
        chance."""

        def heard(reading: Reading) -> float:
            return sum(each.agreement(reading(each.value, -1)) for each in sides)

        agreements = {each: heard(each) for each in readings() if not each.layout.variant_of}
        # The sum of so many numbers, each of which is as large as 1 by chance.
        by_chance = calibration.TILES_BY_CHANCE * math.sqrt(len(sides))
        best = sorted(agreements, key=lambda each: -agreements[each])[:_RUN_OF_SIDE]
        likely = {(each.grid.name, each.layout.name) for each in best}
        for each in readings() if agreements[best[0]] > by_chance else ():
            if (each.grid.name, each.layout.variant_of) in likely:
                agreements[each] = heard(each)
        best = sorted(agreements, key=lambda each: -agreements[each])[:_RUN_OF_SIDE]
        return [each for each in best if agreements[each] > by_chance] or [None]

    def _fit(self, sample: GroupSample, kind: OperandFormat) -> Fit:
        """How the errors of a group follow from reading its operands in this format."""
        (made,) = self._imitation(kind).emulated([sample.group], [sample.given])
        device, reference = same_shape(sample.device, sample.reference.shape), sample.reference
        if made is None or device is None or made.shape != device.shape:
            return Fit(math.inf, math.nan)
        right = np.asarray(reference, np.float64)
        with np.errstate(all="ignore"):
            error, own = device - right, made - right
            there = np.isfinite(error) & np.isfinite(own)
            projection = float(np.sum((error * own)[there]) / np.sum(np.square(own[there])))
        apart = relative(device, reference)
        rest = relative(device, made) / apart if apart > 0.0 else math.inf
        return Fit(rest if math.isfinite(projection) else math.inf, projection)

    def _imitation(self, kind: OperandFormat = FULL) -> Emulation:
        """The emulation with this format in which nothing is random."""
        floors = self.floors(_everywhere(kind))
        return floors if floors.precision.rounds else replace(floors, plain=True)

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
        told: dict[Group, OperandFormat] = {group: FULL for group in over if not over[group]}
        for sample in self.samples([group for group in over if over[group]]):
            fits = {kind: self._fit(sample, kind) for kind in formats}
            best = min(fits, key=lambda kind: fits[kind].rest)
            if math.isfinite(fits[best].projection):
                told[sample.group] = best if fits[best].projection >= 0.5 else FULL
        most = Counter(told.values()).most_common(1)
        usual = most[0][0] if most else formats[0]
        return {
            op_id: told.get(group, usual)
            for group in groups
            for op_id in group.ops
            if family_of(self.golden.ops[op_id]) is not None
        }


def _likely_sums(matched: Sequence[Matched], kind: OperandFormat) -> list[Sums]:
    """The few ways of adding up whose errors are most like those that operands in the format *kind*
    leave of these products."""
    if not matched:
        return []
    every = [each.sums_agreements(kind, all_sums()) for each in matched]
    alike = {sums: statistics.median(own) for sums, *own in zip(all_sums(), *every, strict=True)}
    likely = [sums for sums in alike if alike[sums] >= calibration.OPERANDS_ALIKE]
    return sorted(likely, key=lambda sums: -alike[sums])[:_RUN_OF_SIDE]


def _common_loss(samples: Iterable[GroupSample]) -> Loss | None:
    """What most of the ops of a family lose alike; None where they are too few, or are not alike,
    as faults are not. One of them is wrong that loses so many times as much, and is so many spreads
    away, as a channel of a tensor would be."""
    found, gains = [], []
    for sample in samples:
        device = same_shape(sample.device, sample.reference.shape)
        lost = math.inf if device is None else relative(device, sample.reference)
        if device is not None and 0.0 < lost < math.inf:
            found.append(math.log(lost))
            right = np.asarray(sample.reference, np.float64)
            gains.append(abs(correlation(device - right, right)))
    # Arithmetic loses this way and that; what makes all outputs larger alike is a fault in each.
    if len(found) < calibration.ENOUGH_OPS or statistics.median(gains) > _MOSTLY_GAIN:
        return None
    middle = statistics.median(found)
    spread = _TO_SIGMA * statistics.median(abs(each - middle) for each in found)
    furthest = max(math.log(calibration.LONE_RATIO), calibration.LONE_SIGMA * spread)
    if furthest > math.log(calibration.GUILTY) or middle > math.log(calibration.MOST_LOST):
        return None
    usual = math.exp(middle)
    return Loss(usual, usual * math.exp(furthest) / calibration.GUILTY)


def _unlike(samples: Iterable[GroupSample]) -> list[GroupSample]:
    """*samples* with one of each size in front, the smallest first: in products of few terms many
    formats are the same."""
    by_size = sorted(samples, key=lambda each: each.nbytes)
    first = {each.nbytes: each for each in reversed(by_size)}
    return [
        *reversed(first.values()),
        *(each for each in by_size if each is not first[each.nbytes]),
    ]


def are_shown(rests: Iterable[float], needed: int) -> bool:
    """Whether a format that leaves these shares of the errors of ops is shown by *needed* ones."""
    return sum(rest <= calibration.OPERANDS_REST for rest in rests) >= needed


def _everywhere(kind: OperandFormat) -> ReadOperands:
    return ReadOperands(dict.fromkeys(Family, kind))


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


def _evidence(
    family: Family,
    sample: GroupSample,
    plain: float,
    floors: Mapping[OperandFormat, Emulation],
    *,
    alone: bool,
) -> OperandEvidence:
    """Error over floor of one op under each hypothesis. A family of few ops (*alone*) has no
    telling median: there the errors must also point the same way as the emulation's. Not those of
    recurrent layers, which hand their own rounding on from step to step."""
    alone = alone and family is not Family.RECURRENT
    ratios: dict[OperandFormat, float] = {FULL: plain}
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


def decided(evidence: Sequence[OperandEvidence], suspect: float) -> dict[Family, OperandFormat]:
    """The operand precision of each family whose ops agree that it is not full float32.

    A family whose median stays below *suspect* in full float32 needs no other explanation; a fault
    in a few of its ops does not move the median. A family of few ops is judged by itself, and if
    that leaves it open, together with the others.
    """
    found: dict[Family, OperandFormat] = {}
    by_family = {family: [each for each in evidence if each.family is family] for family in Family}
    # The largest families first: what was found for them is the likeliest for small families.
    for family, own in sorted(by_family.items(), key=lambda item: -len(item[1])):
        chosen = _likeliest(own, suspect, tuple(found.values())) if own else None
        few = len(own) < calibration.ENOUGH_OPS <= len(evidence)
        if chosen is None and few and _is_over(own, suspect):
            chosen = _likeliest(evidence, suspect)
        if chosen is not None:
            found[family] = chosen
    return found


def _is_over(evidence: Sequence[OperandEvidence], suspect: float) -> bool:
    ratios = [each.ratios[FULL] for each in evidence]
    return bool(ratios) and statistics.median_low(ratios) > suspect


def _likeliest(
    evidence: Sequence[OperandEvidence], suspect: float, known: Sequence[OperandFormat] = ()
) -> OperandFormat | None:
    """The hypothesis whose median of error over floor is nearest to 1, if one is near enough.

    For a family of few ops only what is *known* of other families is tried, if anything is. An op
    of few that no hypothesis explains has a fault, and is left out.
    """
    if len(evidence) < calibration.ENOUGH_OPS:
        told = [each for each in evidence if min(each.ratios.values()) <= suspect]
        evidence = told or evidence
    if not _is_over(evidence, suspect):
        return None
    fitting: list[tuple[float, OperandFormat]] = []
    scarce = len(evidence) < calibration.ENOUGH_OPS
    few = scarce and not known
    for hypothesis in known if scarce and known else evidence[0].ratios:
        if hypothesis == FULL:
            continue
        ratios = [each.ratios[hypothesis] for each in evidence]
        most = calibration.OPERANDS_LIKELY_FEW if few else calibration.OPERANDS_LIKELY
        low, high = 1.0 / most, most
        middle = statistics.median(ratios)
        if low <= middle <= high and (not few or all(low <= each <= high for each in ratios)):
            narrow = calibration.OPERANDS_SAME if hypothesis.name == "fp16" else 0.0
            fitting.append((abs(math.log(middle)) + narrow, hypothesis))
    return min(fitting, key=lambda each: each[0])[1] if fitting else None
