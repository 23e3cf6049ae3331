"""The noise floor: the same ops on the same inputs, run as the device's arithmetic would.

Op by op, inputs, weights and outputs are rounded as on the device (fp32: disturbed by a few units
of the last place, as sums in another order are), so that the result differs from the reference by
what healthy arithmetic explains. That accounts for the length of sums, cancellation and the actual
data without a formula for any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from divergraph.execute.contract import Array, Executor, RunnableSubgraph
from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.contract import Accumulator
from divergraph.rootcause.arithmetic.families import ReadOperands, bias_of, factors_of
from divergraph.rootcause.arithmetic.products import MatrixProduct
from divergraph.rootcause.devices.dynamic_scales import DynamicScale, SharedBy
from divergraph.rootcause.devices.formulas import Approximated, Approximation, fused
from divergraph.rootcause.devices.held_weights.held_attributes import with_held_attributes
from divergraph.rootcause.devices.long_sums import terms
from divergraph.rootcause.devices.patches import has_patches, of_patches
from divergraph.rootcause.devices.precision import Precision
from divergraph.rootcause.devices.quantisers import NO_QUANTISERS, Quantiser, Quantisers
from divergraph.rootcause.devices.sums_in_turn import in_turn
from divergraph.rootcause.devices.tiles.winograd import Tiles
from divergraph.rootcause.groups.group_state import GroupState
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.tolerances.drawn_noise import DrawnNoise, generator
from divergraph.rootcause.tolerances.masks import (
    END_OF_FLOAT32,
    MASKING,
    is_mask_maker,
    sentinel_values,
)
from graphstore.model import Op

_TILED = 6
"""How many times the bytes of its arrays a convolution over tiles needs: tiles overlap, and are
there before and after their transforms. Counted."""
_DRAWN = 16
"""How many times the bytes of what a group is fed one draw may take, inner values included."""
_MANY_OPS = 16
"""Groups of more ops are run as one where they are drawn anew. Bounds cost."""
_CHANNELS_SECOND = frozenset({"Conv", "ConvTranspose"})
"""Ops of ONNX that have the channels of what they are given behind the batch."""


@dataclass
class Emulation:
    """Runs groups of *executor*'s model in a device's arithmetic, within *memory* bytes."""

    executor: Executor
    golden: OpGraph
    precision: Precision
    memory: int
    quantisers: Quantisers = NO_QUANTISERS
    operands: ReadOperands = field(default_factory=ReadOperands)
    approximated: Approximated = field(default_factory=dict)
    """By op type how the device approximates functions in float32."""
    plain: bool = False
    """Only the quantisers round: the exact output of a quantised op."""
    shift: float = 0.0
    """Moves values before they are quantised, in rounding units of the largest: +-shift shows
    which values are near enough to a tie to be rounded either way."""
    divided: float = 0.0
    """The relative error of scaling an operand to its format, at random: values next to a tie are
    rounded either way. Operands are read as they were dumped then."""
    tiles: Tiles | None = None
    """The tiles over which convolutions are computed, where they are; others are added up."""
    in_turn: bool = False
    """Sums of reductions are added up one number after another."""
    _draws: np.random.Generator = field(default_factory=generator)
    _noise: DrawnNoise = field(init=False)
    _sentinels: dict[str, tuple[float, ...]] = field(default_factory=dict)
    _copies: dict[tuple[str, str], Array] = field(init=False, default_factory=dict)
    """Constants as a reader has them whose device holds a copy with another scale."""

    def __post_init__(self) -> None:
        self._noise = DrawnNoise(self._draws)

    def emulated(
        self, groups: Sequence[Group], feeds: Sequence[Mapping[str, Array]]
    ) -> list[Array | None]:
        """The output of each group on its feeds in the device's arithmetic; None if it fails."""
        states = [
            GroupState(group, self.golden, self._fed(group, given))
            for group, given in zip(groups, feeds, strict=True)
        ]
        return self._run(states, self._weights(states))

    def draws(self, group: Group, given: Mapping[str, Array], count: int) -> Iterator[Array]:
        """The output of *group* as healthy arithmetic may have made it as well, up to *count*
        times, each with new random rounding: on inputs as they may have been before they were
        rounded for the dump, where this arithmetic rounds, or with operands ``divided`` anew. Side
        by side, as far as memory goes.

        Many ops are run as one, with noise on what they are fed and on their weights: op by op
        each would take a session of its own, and the chance drawn is no other.
        """
        size = sum(value.nbytes for value in given.values())
        many = len(group.ops) > _MANY_OPS
        weights = self._weights([GroupState(group, self.golden, dict(given))])
        if many:
            size += sum(value.nbytes for value in weights.values())
        at_once = max(self.memory // (_DRAWN * max(size, 1)), 1)
        for start in range(0, count, at_once):
            fed = [self._before_rounding(group, given) for _ in range(min(at_once, count - start))]
            if many:
                noise = self.precision.value_units * self.precision.unit
                drawn = self._run_as_one(group, fed, weights, noise)
            else:
                drawn = iter(
                    self._run([GroupState(group, self.golden, each) for each in fed], weights)
                )
            for each in drawn:
                if each is None:
                    return
                yield each

    def _run_as_one(
        self,
        group: Group,
        fed: Sequence[Mapping[str, Array]],
        weights: Mapping[str, Array],
        noise: float = 0.0,
    ) -> Iterator[Array | None]:
        """The output of *group* for each of the feeds, with other *noise* on its *weights*."""
        name = self.golden.name(group.golden)
        pieces = [
            RunnableSubgraph(str(number), (*each, *weights), (name,))
            for number, each in enumerate(fed)
        ]

        def values(piece: RunnableSubgraph) -> Mapping[str, Array]:
            noisy = {
                n: self._noise.times(value, noise) if noise else value
                for n, value in weights.items()
            }
            return {**fed[int(piece.key)], **noisy}

        ran = self.executor.run_subgraphs(pieces, values, memory=self.memory)
        return (each.values.get(name) for each in ran)

    def _before_rounding(self, group: Group, given: Mapping[str, Array]) -> dict[str, Array]:
        fed = self._fed(group, given)
        for name, value in given.items() if self.precision.rounds and not self.divided else ():
            if value.dtype.kind == "f" and self._was_rounded(value):
                fed[name] = self._noise.unrounded(fed[name], self.precision)
        return fed

    def _was_rounded(self, value: Array) -> bool:
        """Whether *value* may have had more digits: whole numbers (indices, masks) had not."""
        whole = np.array_equal(np.rint(value), value, equal_nan=True)
        return self.precision.fits(value) and not whole

    def emulated_converted(self, group: Group, given: Mapping[str, Array]) -> Array | None:
        """As ``emulated``, with constants below ``least_kept`` raised to it as converters do; None
        if there are none."""
        least = self.precision.least_kept
        if not least:
            return None
        states = [GroupState(group, self.golden, self._fed(group, given))]
        weights = self._weights(states)
        small = {
            name: np.where(found, np.copysign(np.asarray(least, value.dtype), value), value)
            for name, value in weights.items()
            if (found := (value != 0) & (np.abs(value) < least)).any()
        }
        if not small:
            return None
        if len(group.ops) > _MANY_OPS:
            return next(self._run_as_one(group, [self._fed(group, given)], {**weights, **small}))
        return self._run(states, {**weights, **small})[0]

    def _run(
        self, states: Sequence[GroupState], weights: Mapping[str, Array]
    ) -> list[Array | None]:
        while step := {str(n): each for n, each in enumerate(states) if each.next_op() is not None}:
            self._advance(step, weights)
        return [self._result(state) for state in states]

    def mask_sentinels(self, group: Group) -> tuple[float, ...]:
        """Constants of *group* beyond the device's type that may stand for infinity; known only
        after the group was emulated. () where the type holds all of them."""
        if not self._sentinels:
            return ()
        ops = [self.golden.ops[op_id] for op_id in group.ops]
        makers = [op for op in ops if is_mask_maker(op.type)]
        names = {ref.tensor for op in makers for ref in self.golden.inputs(op)}
        return tuple(value for name in names for value in self._sentinels.get(name, ()))

    def step(self, group: Group) -> float | None:
        """The step of the quantiser behind a group's output, the largest of several; None without
        one."""
        quantiser = self.quantisers.behind(group.output, self.golden.name(group.golden))
        return None if quantiser is None else float(np.max(np.abs(quantiser.scale)))

    def passed_on(self, group: Group, value: Array) -> Array:
        """*value* as a device hands it on without computing: rounded, or quantised."""
        quantiser = self.quantisers.behind(group.output, self.golden.name(group.golden))
        value = np.asarray(value, np.float32) if value.dtype.kind == "f" else value
        if quantiser is None:
            return self._round(value)
        return self._through(quantiser, value)

    def on_grid(self, group: Group, value: Array) -> Array:
        """*value* as the quantiser behind a group's output leaves it; itself without one."""
        quantiser = self.quantisers.behind(group.output, self.golden.name(group.golden))
        if quantiser is None or value.dtype.kind != "f":
            return value
        return quantiser(np.asarray(value, np.float32))

    def _fed(self, group: Group, given: Mapping[str, Array]) -> dict[str, Array]:
        fed = {name: self._round(value) for name, value in given.items()}
        for feed in group.feeds if self.quantisers.makers else ():
            maker = None if feed.device is None else self.quantisers.makers.get(feed.device)
            if maker is not None and feed.tensor in fed:
                fed[feed.tensor] = self._dequantised(maker, fed[feed.tensor])
        return fed

    def _dequantised(self, quantiser: Quantiser, value: Array) -> Array:
        """*value* as an op may read it that computes its dequantiser itself: by the formula
        ``scale * q - scale * zero``, whose terms are rounded at their own size, however little is
        left of them."""
        if value.dtype.kind != "f" or self.plain or self.precision.rounds:
            return value
        term = float(np.max(np.abs(quantiser.scale * np.asarray(quantiser.zero, np.float64))))
        noise = self._noise.times(
            np.ones(value.shape), self.precision.value_units * self.precision.unit
        )
        return np.asarray(value + term * (noise - 1.0), value.dtype)

    def _through(self, quantiser: Callable[[Array], Array], value: Array) -> Array:
        """*value* (float) quantised; elements next to a tie go the way of ``shift``."""
        if self.shift and value.size:
            with np.errstate(invalid="ignore"):
                most = float(np.max(np.abs(value), initial=0.0, where=np.isfinite(value)))
            value = value + np.asarray(self.shift * self.precision.unit * most, value.dtype)
        return quantiser(value)

    def _result(self, state: GroupState) -> Array | None:
        value = state.result()
        if value is not None and not state.group.feeds and value.dtype.kind == "f":
            value = self._stored(value)
        if value is None or value.dtype.kind != "f":
            return value
        name = self.golden.name(state.group.golden)
        quantiser = self.quantisers.behind(state.group.output, name)
        return value if quantiser is None else self._through(quantiser, value)

    def _advance(self, states: Mapping[str, GroupState], weights: Mapping[str, Array]) -> None:
        """Run the next op of each group, all side by side."""
        subgraphs = [state.piece(key, weights) for key, state in states.items()]
        for result in self.executor.run_subgraphs(
            subgraphs,
            lambda piece: self._given(states[piece.key], piece, weights),
            memory=self.memory,
        ):
            state = states[result.key]
            op = state.next_op()
            size = self._function_error(op, state.group)
            computed = self._by_formula(
                op, state, self._added_otherwise(op, state, weights, result.values)
            )
            made = {
                name: self._round(self._noise.approximated(value, size))
                if size
                else self._lossy(op, self._added_up(op, state.read(weights), self._round(value)))
                for name, value in computed.items()
            }
            state.take(made, failed=bool(result.failure))

    def _added_otherwise(
        self,
        op: Op | None,
        state: GroupState,
        weights: Mapping[str, Array],
        made: Mapping[str, Array],
    ) -> Mapping[str, Array]:
        """What *op* has *made*, if it is computed by patches, over tiles, with short sums or with
        sums in turn here."""
        scale = None if op is None else self.quantisers.met_by(op.id)
        sums = None if op is None else self.operands.of(op, self.golden).sums
        if op is None or len(made) != 1 or not (scale or self.tiles or self.in_turn or sums):
            return made
        ((name, value),) = made.items()
        if sums is not None:
            return {name: self._summed(op, state, weights, value, sums)}
        given = {**weights, **state.values}
        read = (given[each.tensor] for each in op.inputs if each and each.tensor in given)
        found: Array | None = None
        if scale is not None:
            if _goes_by_patch(op, scale, given):
                rounded = partial(self._through, scale)
                found = of_patches(op, given, value, rounded, self.memory)
        elif self.tiles is None:
            found = in_turn(op, given, value)
        elif _TILED * (value.nbytes + sum(each.nbytes for each in read)) <= self.memory:
            found = self.tiles.convolved(op, given, value)
        return made if found is None else {name: found}

    def _summed(
        self,
        op: Op,
        state: GroupState,
        weights: Mapping[str, Array],
        value: Array,
        sums: Accumulator,
    ) -> Array:
        """*value*, the product that *op* is, with its terms added up in this way."""
        read = self._given(state, state.piece("", weights), weights)
        factors = tuple(factors_of(op, self.golden))
        known = [read[each.tensor] for each in factors if each.tensor in read]
        product = MatrixProduct.of(op, factors, known, value.shape, self.memory)
        if product is None:
            return value
        # A bias is added behind the sum.
        off = sums.added(product.first, product.second) - product.first @ product.second
        return np.asarray(value + product.output(off), value.dtype)

    def _by_formula(
        self, op: Op | None, state: GroupState, made: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        """What *op* has *made*, by the formula that stands for its function here, or with numbers
        of its attributes as they are held."""
        if op is not None and len(made) == 1 and (held := self.quantisers.attributes.get(op.id)):
            found = with_held_attributes(op, state.values, held)
            return made if found is None else dict.fromkeys(made, found)
        known = None if op is None else self._approximation(op, state.group)
        if op is None or known is None or known.formula is None or len(made) != 1:
            return made
        ((name, value),) = made.items()
        given = None if op.inputs[0] is None else state.values.get(op.inputs[0].tensor)
        if given is None or given.dtype.kind != "f" or given.shape != value.shape:
            return made
        return {name: known.formula(given)}

    def _added_up(self, op: Op | None, given: Sequence[Array], value: Array) -> Array:
        """*value*, the output of *op* in this arithmetic, with the noise of a long sum of terms in
        another order: arithmetics that do not round have no larger noise to hide it."""
        if op is None or self.plain or self.precision.rounds or value.dtype.kind != "f":
            return value
        units = math.sqrt(terms(op, given, value))
        if units <= self.precision.value_units:
            return value
        return self._noise.times(value, units * self.precision.unit)

    def _lossy(self, op: Op | None, value: Array) -> Array:
        """*value*, the output of *op*, less what this device loses of it in a way nobody knows."""
        size = 0.0 if op is None or self.plain else self.operands.noise(op, self.golden)
        return self._noise.lossy(value, size) if size else value

    def _approximation(self, op: Op, group: Group | None) -> Approximation | None:
        """How *op* is approximated, in a *group* of it alone or with other ops."""
        alone = self.approximated.get(op.type)
        several = group is not None and len(group.ops) > 1
        return self.approximated.get(fused(op.type), alone) if several else alone

    def _function_error(self, op: Op | None, group: Group | None = None) -> float:
        """The relative error of an approximated function. Ops with bodies get the largest of all,
        as the ops inside are run with them."""
        if op is None or self.plain or not self.approximated:
            return 0.0
        if op.owns:
            return max(each.off for each in self.approximated.values())
        known = self._approximation(op, group)
        return 0.0 if known is None else known.size

    def _given(
        self, state: GroupState, piece: RunnableSubgraph, weights: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        found, op = state.inputs(piece, weights), state.next_op()
        if op is None:
            return found
        for (reader, name), copy in self._copies.items():
            if reader == op.id and name in found and name not in state.values:
                found[name] = copy
        most = self.precision.largest
        if op.type in MASKING and most is not None and not self.plain:
            for name in found.keys() - state.values.keys():
                found[name] = np.asarray(np.clip(found[name], -most, most))
        for name in state.quantised & found.keys():
            quantiser = self.quantisers.reads(op.id, name)
            if quantiser is not None and found[name].dtype.kind == "f":
                value = np.asarray(found[name], np.float32)
                found[name] = self._through(quantiser, value)
        scale = self.quantisers.met_by(op.id)
        if scale is not None and not _goes_by_patch(op, scale, found):
            met = {name: value for name, value in found.items() if name in state.values}
            found |= self._met(op, scale, met)
        if not self.operands:
            return found
        rounded = self.precision.rounded
        taken = self.operands.read(op, found, self.golden, rounded)
        if not self.divided:
            return taken
        moved = self.operands.read(
            op, found, self.golden, lambda value: self._noise.times(rounded(value), self.divided)
        )
        return {name: self._at_ties(value, moved[name]) for name, value in taken.items()}

    def _at_ties(self, value: Array, moved: Array) -> Array:
        """*value* with the elements of *moved* that were rounded another way: by more than a unit
        of this arithmetic, as formats are coarser. The scales stay what they are."""
        if value.dtype.kind != "f":
            return value
        with np.errstate(all="ignore"):
            otherwise = np.abs(moved - value) > self.precision.unit * np.abs(value)
        return np.where(otherwise, moved, value)

    def _met(self, op: Op, scale: DynamicScale, given: Mapping[str, Array]) -> dict[str, Array]:
        """The inputs *given* to an op that quantises them with scales of their values; a bias is
        added as it is."""
        bias = bias_of(op)
        last = op.type not in _CHANNELS_SECOND
        quantised = partial(scale, channels=-1 if last else 1)
        return {
            name: self._through(quantised, value)
            for name, value in given.items()
            if name != bias and value.dtype.kind == "f"
        }

    def _round(self, value: Array) -> Array:
        if value.dtype.kind != "f" or self.plain:
            return value
        return self.precision.emulate(value, self._noise.times)

    def held_constants(self, group: Group, given: Mapping[str, Array]) -> dict[str, Array]:
        """The constants *group* reads, by name, as the device holds them."""
        return self._weights([GroupState(group, self.golden, dict(given))])

    def constants(self, names: Sequence[str]) -> dict[str, Array]:
        """The original's constants of these names, as far as they are known."""
        pieces = [RunnableSubgraph(name, (), (name,)) for name in names]
        ran = self.executor.run_subgraphs(pieces, lambda _: {}, memory=self.memory)
        return {each.key: each.values[each.key] for each in ran if each.values}

    def _weights(self, states: Sequence[GroupState]) -> dict[str, Array]:
        """The constants these groups read, by name, as the device holds them."""
        names = dict.fromkeys(name for state in states for name in state.constants())
        return {
            name: self._kept(name, value)
            for name, value in self.constants(list(names)).items()
            if value.dtype.kind == "f"
        }

    def _kept(self, name: str, constant: Array) -> Array:
        """A *constant* as the device keeps it."""
        if huge := sentinel_values(constant, self.precision.largest or END_OF_FLOAT32):
            self._sentinels[name] = huge
        quantiser = self.quantisers.by_tensor.get(name)
        if quantiser is None:
            rounded = self._round(constant)
            # Elements that would become 0: losing them is no rounding.
            return np.where((rounded == 0) & (constant != 0), constant, rounded)
        moved = float(np.sign(self.shift)) * calibration.DIVISION_UNITS
        for (reader, tensor), own in self.quantisers.by_reader.items():
            if tensor == name:
                self._copies[reader, name] = own(constant, moved)
        return quantiser(constant, moved)

    def _stored(self, constant: Array) -> Array:
        """A *constant* that is a group's output: rounded and clipped to the type's range."""
        rounded, most = self._round(constant), self.precision.largest
        if most is None:
            return rounded
        return np.where(np.isfinite(rounded), np.clip(rounded, -most, most), rounded)


def _goes_by_patch(op: Op, scale: DynamicScale, given: Mapping[str, Array]) -> bool:
    """Whether *op* is a convolution whose patches have a scale each."""
    weight = op.inputs[1] if len(op.inputs) > 1 else None
    value = None if weight is None else given.get(weight.tensor)
    return scale.shared is SharedBy.PATCH and value is not None and has_patches(op, value)
