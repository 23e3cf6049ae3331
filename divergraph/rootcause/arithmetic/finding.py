"""The operand formats of a device's matrix ops, found from the errors of a few of them.

Where the value type explains the errors of a family, nothing is looked for. Else :mod:`.matched`
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
from itertools import product

import numpy as np

from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.contract import (
    FULL,
    Accumulator,
    Combined,
    OperandFormat,
    Reading,
    Role,
    all_sums,
    readings,
    whole_formats,
)
from divergraph.rootcause.arithmetic.families import (
    Exactness,
    Family,
    Loss,
    ReadOperands,
    factors_of,
    family_of,
)
from divergraph.rootcause.arithmetic.losses import common_loss
from divergraph.rootcause.arithmetic.matched import ProductErrors, Side
from divergraph.rootcause.devices.arithmetic import ratio_of
from divergraph.rootcause.devices.floors import floor_of
from divergraph.rootcause.devices.quantised_ops import are_exact
from divergraph.rootcause.devices.tiles.told_tiles import told_tiles
from divergraph.rootcause.groups.group_runs import GroupSample, Samples
from divergraph.rootcause.groups.groups import (
    FEW_GROUPS,
    MANY_GROUPS,
    SEVERAL,
    Group,
    sampled_groups,
)
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.values import relative, same_shape
from graphstore.model import Shape

_MATCHED = 4
"""Ops that all scaled formats are tried on, and (below) how many of these per side are run."""
_RUN_OF_SIDE = 2
_ALIKE = 1.05
"""Formats that leave up to so many times the least are alike: they choose words, not guilt."""
_FORMATS = 3
"""Formats that one family may have beside each other. Bounds cost."""


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
        ratios = {
            sample.group: ratio for sample in ran if (ratio := ratio_of(sample, plain)) is not None
        }
        # Errors of transformed tiles are of float32 as well.
        if not plain.precision.rounds:
            ratios |= dict.fromkeys(_tiled(ran, plain, ratios, self.suspect), 1.0)
        return self._formats_by_family(groups, ran, ratios, families)

    def _chosen(self, groups: Iterable[Group], plain: Emulation) -> Iterator[tuple[Family, Group]]:
        """Groups with ops of one family only, with their family: the shortest groups, longer ones
        only where too few are left. Other ops in a group would add errors of their own."""
        most_ops = FEW_GROUPS if plain.precision.rounds else MANY_GROUPS
        for family, own_groups in self._by_family(groups).items():
            sizes = sorted(len(group.ops) for group in own_groups)
            op_limit = max(sizes[0] + 1, sizes[: calibration.ENOUGH_OPS][-1])
            short = [group for group in own_groups if len(group.ops) <= op_limit]
            # In long sums, which are few, errors show that others have no room for.
            longest = sorted(short, key=self._terms, reverse=True)[:SEVERAL]
            sampled = sampled_groups(short, most_ops)
            if plain.precision.rounds:
                sampled = list(dict.fromkeys((*longest, *sampled)))
            yield from ((family, group) for group in sampled)

    def _terms(self, group: Group) -> int:
        """The terms of the longest sum of a product with weights in *group*."""
        terms = [
            shape[factor.axis]
            for op in (self.golden.ops[op_id] for op_id in group.ops)
            if family_of(op, self.golden) is Family.LINEAR
            for factor in factors_of(op, self.golden)
            if (shape := self._weight_shapes.get(factor.tensor))
        ]
        return max((size for size in terms if isinstance(size, int)), default=0)

    @cached_property
    def _weight_shapes(self) -> Mapping[str, Shape | None]:
        return {
            constant.tensor.name: constant.tensor.shape for constant in self.golden.graph.constants
        }

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
            all_of = self._by_family(groups)[family]
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
            exact |= {kind: self._exactness(pool, kind) for kind in chosen}
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
            rests = {
                kind: [self._fit(sample, kind).rest for sample in few]
                for kind in self._likeliest(few)
                # One weight held in fewer bits may be a fault of the converter; what rounds
                # activations computes so.
                if needed > 1 or not kind.leaves_activations
            }
            fitting = {
                kind: own
                for kind, own in rests.items()
                if are_shown(own, 1 if kind in confirmed else needed)
            }
            if not fitting:
                break
            sums = {kind: sum(min(1.0, rest) for rest in own) for kind, own in fitting.items()}
            alike = [kind for kind in sums if sums[kind] <= _ALIKE * min(sums.values())]
            # Where no numbers are small or large, float16 is TF32, as which float32 is read.
            best = min(alike, key=lambda kind: (kind.price, sums[kind], kind.name == "fp16"))
            chosen.append(best)
            unexplained = [
                sample
                for sample in unexplained
                if self._fit(sample, best).rest > calibration.OPERANDS_REST
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
            floors = self.floors(_everywhere(kind))
            ratios = [ratio for sample in few if (ratio := ratio_of(sample, floors)) is not None]
            middle = statistics.median_high(ratios) if len(ratios) >= SEVERAL else math.inf
            if 1.0 / calibration.FUNCTION_FITS <= middle <= calibration.FUNCTION_FITS:
                fitting[kind] = abs(math.log(middle))
        return min(fitting, key=fitting.__getitem__, default=None)

    def _exactness(self, samples: Iterable[GroupSample], kind: OperandFormat) -> Exactness:
        """How well the ops that show this format are computed in it here."""
        rounded = self.floors(_everywhere(kind))
        plain, precision = replace(rounded, plain=True), rounded.precision
        ratios, same = [], []
        for sample in samples:
            group, shape = sample.group, sample.reference.shape
            exact, noisy = (
                emulation.emulated([group], [sample.given])[0] for emulation in (plain, rounded)
            )
            device = same_shape(sample.device, shape)
            if exact is None or device is None or exact.shape != shape:
                continue
            if self._fit(sample, kind).rest <= calibration.OPERANDS_REST:
                floor = floor_of(exact, noisy, precision, len(group.ops))
                ratios.append(relative(device, exact) / floor)
                same.append(float(np.mean(device == noisy)))
        if not are_exact(ratios):
            return Exactness.NO
        alike = statistics.median(same) >= calibration.DYNAMIC_ALIKE
        return Exactness.TO_THE_BIT if alike else Exactness.BUT_FOR_ROUNDING

    def _likeliest(self, samples: Sequence[GroupSample]) -> list[OperandFormat]:
        """The formats whose roundings show in the products of *samples*, the likeliest first."""
        plain = self._imitation()
        errors = (ProductErrors.of(sample, plain) for sample in samples)
        matched = [error for error in errors if error is not None]
        sides = [side for product_errors in matched for side in product_errors.sides()]
        by_role = {
            role: self._readings([side for side in sides if side.role is role]) for role in Role
        }
        pairs = product(by_role[Role.ACTIVATION], by_role[Role.WEIGHT])
        combined = [Combined(*pair) for pair in pairs]
        # Errors of sums may look a little like those of a format.
        summed = [
            Combined(pair.activation, pair.weight, sums)
            for pair in dict.fromkeys((FULL, *combined))
            for sums in _likely_sums(matched, pair)
        ]
        rounds = plain.precision.rounds  # then short types are no operands of their own
        whole_kinds = [kind for kind in whole_formats() if kind.scaled or not rounds]
        return [*whole_kinds, *(pair for pair in combined if pair != FULL), *summed]

    def _readings(self, sides: Sequence[Side]) -> list[Reading | None]:
        """The few readings that agree best with all of *sides*; None where none does better than
        chance."""

        def heard(reading: Reading) -> float:
            return sum(side.agreement(reading(side.value, -1)) for side in sides)

        def likeliest() -> list[Reading]:
            """Of formats with many exponents a power of two is no scale: without is the simpler."""
            limit = max(agreements.values()) / _ALIKE
            plain = [x for x in agreements if not x.layout.name and agreements[x] >= limit]
            return sorted(agreements, key=lambda x: (x not in plain, -agreements[x]))[:_RUN_OF_SIDE]

        def better(reading: Reading) -> Iterator[Reading]:
            """Its variants that agree better: they take the place of no other format."""
            name = reading.grid.name, reading.layout.name
            variants = [variant for variant in readings() if variant.variant_of == name]
            yield from (variant for variant in variants if heard(variant) > agreements[reading])

        agreements = {
            reading: heard(reading) for reading in readings() if reading.variant_of is None
        }
        # The sum of so many numbers, each of which is as large as 1 by chance.
        by_chance = calibration.TILES_BY_CHANCE * math.sqrt(len(sides))
        likely = [reading for reading in likeliest() if agreements[reading] > by_chance]
        return [each for reading in likely for each in (reading, *better(reading))] or [None]

    def _fit(self, sample: GroupSample, kind: OperandFormat) -> Fit:
        """How the errors of a group follow from reading its operands in this format."""
        (imitated,) = self._imitation(kind).emulated([sample.group], [sample.given])
        device, reference = same_shape(sample.device, sample.reference.shape), sample.reference
        if imitated is None or device is None or imitated.shape != device.shape:
            return Fit(math.inf, math.nan)
        right = np.asarray(reference, np.float64)
        with np.errstate(all="ignore"):
            error, own = device - right, imitated - right
            there = np.isfinite(error) & np.isfinite(own)
            projection = float(np.sum((error * own)[there]) / np.sum(np.square(own[there])))
        distance = relative(device, reference)
        rest = relative(device, imitated) / distance if distance > 0.0 else math.inf
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
        kind_of_group: dict[Group, OperandFormat] = {
            group: FULL for group in over if not over[group]
        }
        for sample in self.samples([group for group in over if over[group]]):
            fits = {kind: self._fit(sample, kind) for kind in formats}
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


def _likely_sums(matched: Sequence[ProductErrors], kind: OperandFormat) -> list[Accumulator]:
    """The few ways of adding up whose errors are most like those that operands in the format *kind*
    leave of these products."""
    if not matched:
        return []
    ordered = [accumulator for accumulator in all_sums() if accumulator.ordered]
    every = [product_errors.sums_agreements(kind, ordered) for product_errors in matched]
    alike = {sums: statistics.median(own) for sums, *own in zip(ordered, *every, strict=True)}
    likely = [sums for sums in alike if alike[sums] >= calibration.OPERANDS_ALIKE]
    return sorted(likely, key=lambda sums: -alike[sums])[:_RUN_OF_SIDE]


def _unlike(samples: Iterable[GroupSample]) -> list[GroupSample]:
    """*samples* with one of each size in front, the smallest first: in products of few terms many
    formats are the same."""
    by_size = sorted(samples, key=lambda sample: sample.nbytes)
    first = {sample.nbytes: sample for sample in reversed(by_size)}
    return [
        *reversed(first.values()),
        *(sample for sample in by_size if sample is not first[sample.nbytes]),
    ]


def are_shown(rests: Iterable[float], needed: int) -> bool:
    """Whether a format that leaves these shares of the errors of ops is shown by *needed* ones."""
    return sum(rest <= calibration.OPERANDS_REST for rest in rests) >= needed


def _everywhere(kind: OperandFormat) -> ReadOperands:
    return ReadOperands(dict.fromkeys(Family, kind))


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
