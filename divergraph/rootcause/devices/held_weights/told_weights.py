"""Weights that a device holds in fewer bits than its graph says: its own outputs tell.

Runtimes quantise weights when a model is converted, and compute in float32 all the same, or in
integers with scales of the values. A graph of before that knows nothing of it. But the weights are
constants, and how converters round them is known: where a product with the rounded weight gives
what the device gave, and the exact one does not, it was held so. Each product is asked for itself,
as compilers leave some as they are; a fault in a few channels hides nothing, and of a product that
shows nothing the likeliest is taken.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from divergraph.execute.contract import Array, RunnableSubgraph
from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.families import bias_of, is_one_product
from divergraph.rootcause.devices.arithmetic import distance, distance_of_operands, ratio_of
from divergraph.rootcause.devices.dynamic_choice import share_alike
from divergraph.rootcause.devices.held_weights.held_attributes import has_attributes
from divergraph.rootcause.devices.held_weights.holdings import MORE, SCALES, STATIC, USUAL, Holding
from divergraph.rootcause.devices.held_weights.weight_grids import along, half
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.devices.quantisers import NO_QUANTISERS, Quantiser, Quantisers
from divergraph.rootcause.groups.group_runs import GroupSample
from divergraph.rootcause.groups.groups import Group, sampled_groups
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.text.words import counted
from graphstore.model import InputRef, Op, TensorRef

_TRIED = 5
"""Products that are run to see whether anything is to be found, and those, the smallest of them,
that all ways are tried on. Bounds cost."""
_BATCH_NORM, _BATCH_NORM_INPUTS = "BatchNormalization", 5
_EPSILON = 1e-5
_DIVIDING = frozenset(("Div", "RealDiv"))


@dataclass(frozen=True, slots=True)
class _Products:
    """The ``ops`` of one group that multiply by weights."""

    group: Group
    ops: tuple[str, ...]

    @property
    def output(self) -> TensorRef:
        """The output of the group."""
        return self.group.output


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is remembered of a sample without its values: they may be all of the memory."""

    group: Group
    size: int
    nbytes: int

    @classmethod
    def of(cls, sample: GroupSample) -> _Seen:
        return cls(sample.group, sample.reference.size, sample.nbytes)


@dataclass
class ToldWeights:
    """Finds how the products of a float32 device hold their weights."""

    run: PreparedRun
    _constants: dict[str, Array | None] = field(default_factory=dict)

    @property
    def golden(self) -> OpGraph:
        """The graph whose constants are the weights."""
        return self.run.golden

    def found(self, groups: Sequence[Group]) -> dict[str, Holding]:
        """By golden op how the device holds its weight; ops that hold it as it is are left out."""
        products = {product.output: product for product in self._products(groups)}
        ratios = self._ratios(sampled_groups([product.group for product in products.values()]))
        suspect = self.run.options.suspect
        most_are_off = bool(ratios) and statistics.median_low(ratios.values()) > suspect
        if not most_are_off and max(ratios.values(), default=0.0) > suspect:
            # Compilers may leave most as they are: those they do not are all looked for.
            ratios = self._ratios([product.group for product in products.values()])
        off = [one for one, ratio in ratios.items() if ratio > suspect]
        # What a few show alike is no fault of one of them.
        enough = 1 if most_are_off else calibration.ENOUGH_OPS
        votes = self._shown(off, products) if len(off) >= enough else Counter()
        if not votes or max(votes.values()) < enough:
            return {}
        holdings = self._of_all(list(products.values()), votes, likely=most_are_off)
        ((commonest, _),) = votes.most_common(1)
        if commonest.grid is not None:
            return holdings
        return holdings | self._of_others(groups, Holding(None, folded=False, cut=commonest.cut))

    def _ratios(self, groups: Sequence[Group]) -> dict[_Seen, float]:
        """Error over floor of each of *groups* in which it can be measured, in float32."""
        plain = self._floors({})
        ran = ((_Seen.of(sample), ratio_of(sample, plain)) for sample in self.run.runs.run(groups))
        return {one: ratio for one, ratio in ran if ratio is not None}

    def _shown(
        self, seen: Sequence[_Seen], products: Mapping[TensorRef, _Products]
    ) -> Counter[Holding]:
        """How often each way was shown by the smallest of those *seen*."""
        votes: Counter[Holding] = Counter()
        # A few values may be near to anything by chance.
        enough = [seen_output for seen_output in seen if seen_output.size >= calibration.FEW_VALUES]
        smallest = sorted(enough, key=lambda seen_output: seen_output.nbytes)[:_TRIED]
        for sample in self.run.runs.run([seen_output.group for seen_output in smallest]):
            own = products[sample.group.output]
            rounded: float | None = None
            first = [holding for holding, _ in votes.most_common()]
            dynamic = [Holding(grid, scale=scale) for scale in SCALES for grid in USUAL]
            for holding in dict.fromkeys((*first, *STATIC, *dynamic, *MORE)):
                if self._share(sample, own, holding) < calibration.DYNAMIC_ALIKE:
                    continue
                # Operands that are cut off make the output smaller, as weights that are cut do.
                if rounded is None:
                    rounded = distance_of_operands(sample, self._floors({}))
                if distance(sample, self._floors(dict.fromkeys(own.ops, holding))) < rounded:
                    votes[holding] += 1
                    break
        return votes

    def _of_all(
        self, products: Sequence[_Products], votes: Counter[Holding], *, likely: bool
    ) -> dict[str, Holding]:
        """What each product shows, or else the likeliest way if any is *likely*."""
        candidates = dict.fromkeys(holding for holding, _ in votes.most_common())
        for candidate in list(
            candidates
        ):  # what is multiplied in integers here may be in floats there
            candidates.setdefault(replace(candidate, scale=None))
            for scale in SCALES if candidate.scale is not None else ():
                candidates.setdefault(replace(candidate, scale=scale))
        by_output = {product.output: product for product in products}
        plain, suspect = self._floors({}), self.run.options.suspect
        holdings: dict[str, Holding] = {}
        open_ones: list[_Products] = []
        tried = 0
        for sample in self.run.runs.run([product.group for product in products]):
            own = by_output[sample.group.output]
            holding = self._told(
                sample, own, sorted(candidates, key=lambda candidate: -votes[candidate])
            )
            if holding is None:
                ratio = ratio_of(sample, plain)
                if ratio is None or ratio <= suspect:
                    continue
                if tried < _TRIED:  # a compiler may treat ops of one type in their own way
                    tried += 1
                    holding = self._told(sample, own, STATIC)
            if holding is None:
                open_ones.append(own)
                continue
            candidates.setdefault(holding)
            votes[holding] += 1
            holdings |= dict.fromkeys(own.ops, holding)
        for own in open_ones if likely else ():
            holdings |= dict.fromkeys(own.ops, votes.most_common(1)[0][0])
        return holdings

    def _told(
        self, sample: GroupSample, own: _Products, candidates: Iterable[Holding]
    ) -> Holding | None:
        """The first of *candidates* that the values show; the nearest of all where they are few."""
        limit = calibration.DYNAMIC_ALIKE
        if sample.reference.size >= calibration.FEW_VALUES:
            return next(
                (holding for holding in candidates if self._share(sample, own, holding) >= limit),
                None,
            )
        distances = {
            holding: distance(sample, self._floors(dict.fromkeys(own.ops, holding)))
            for holding in candidates
            if all(self._can(op, holding) for op in own.ops)
        }
        best = min(distances, key=distances.__getitem__, default=None)
        farthest = (1.0 - calibration.DYNAMIC_ALIKE) * distance(sample, self._floors({}))
        return best if best is not None and distances[best] < farthest else None

    def _of_others(self, groups: Sequence[Group], holding: Holding) -> dict[str, Holding]:
        """The ops that multiply no weights and whose constants are held as weights are."""
        holdings: dict[str, Holding] = {}
        own = {product.output: product for product in self._products(groups, weights=False)}
        for sample in self.run.runs.run([product.group for product in own.values()]):
            one = own[sample.group.output]
            divides = any(self.golden.ops[op_id].type in _DIVIDING for op_id in one.ops)
            for candidate in (holding, replace(holding, inverse=True)) if divides else (holding,):
                if self._share(sample, one, candidate) >= calibration.DYNAMIC_ALIKE:
                    holdings |= dict.fromkeys(one.ops, candidate)
                    break
        return holdings

    def quantisers(self, holdings: Mapping[str, Holding]) -> Quantisers:
        """What the device rounds, if it holds weights so."""
        by_tensor: dict[str, Quantiser] = {}
        readers: dict[str, frozenset[str]] = {}
        for op_id, holding in holdings.items():
            for name, quantiser in self._held(self.golden.ops[op_id], holding):
                by_tensor[name] = quantiser
                readers[name] = readers.get(name, frozenset()) | set(self._reading(op_id, name))
        scales = {
            op: holding.scale for op, holding in holdings.items() if holding.scale is not None
        }
        return replace(
            NO_QUANTISERS,
            by_tensor=by_tensor,
            readers=readers,
            dynamic=frozenset(scales),
            scales=scales,
            attributes={
                op_id: half(holding.cut)
                for op_id, holding in holdings.items()
                if has_attributes(self.golden.ops[op_id])
            },
            silent=True,
        )

    def _reading(self, op_id: str, name: str) -> Iterator[str]:
        """The golden ops that read a constant of the product *op_id*, or of what is behind it."""
        for reader in (self.golden.ops[op_id], *self._behind(self.golden.ops[op_id])):
            if any(ref is not None and ref.tensor == name for ref in reader.inputs):
                yield reader.id

    def _share(self, sample: GroupSample, own: _Products, holding: Holding) -> float:
        if not all(self._can(op, holding) for op in own.ops):
            return 0.0
        floors = self._floors(dict.fromkeys(own.ops, holding))
        return share_alike(sample, floors)

    def _can(self, op_id: str, holding: Holding) -> bool:
        """Whether the weight of a product can be held so at all."""
        op = self.golden.ops[op_id]
        weight = self._weight(op)
        if weight is None or holding.grid is None:
            return holding.grid is None
        value = self._constant(weight.tensor)
        return value is not None and holding.grid.fits(value.shape, _axes(op, weight))

    def _floors(self, holdings: Mapping[str, Holding]) -> Emulation:
        memory = self.run.options.memory // 2
        quantisers = self.quantisers(holdings) if holdings else NO_QUANTISERS
        return Emulation(self.run.executor, self.golden, FP32, memory, quantisers)

    def _products(self, groups: Sequence[Group], *, weights: bool = True) -> Iterator[_Products]:
        """The groups that multiply by weights; or else those that only read other constants."""
        for group in groups:
            if group.failure or group.is_passthrough is not None:
                continue
            ops = [self.golden.ops[op_id] for op_id in group.ops]
            op_ids = tuple(op.id for op in ops if is_one_product(op) and self._weight(op))
            if not weights:
                others = tuple(op.id for op in ops if has_attributes(op) or any(self._floats(op)))
                op_ids = () if op_ids else others
            if op_ids:
                yield _Products(group, op_ids)

    def _weight(self, op: Op) -> InputRef | None:
        """The constant operand of a product."""
        for ref in (*op.inputs[1:2], *op.inputs[:1]):
            if ref is not None and self._is_constant(ref):
                return ref
        return None

    def _is_constant(self, ref: InputRef) -> bool:
        if ref.producer is None:
            return not self.golden.is_entry(ref)
        return self.golden.is_constant(ref.producer.op)

    def _constant(self, name: str) -> Array | None:
        if name not in self._constants:
            piece = RunnableSubgraph(name, (), (name,))
            (result,) = self.run.executor.run_subgraphs([piece], lambda _: {})
            value = result.values.get(name)
            self._constants[name] = None if value is None or value.dtype.kind != "f" else value
        return self._constants[name]

    def _held(self, op: Op, holding: Holding) -> Iterator[tuple[str, Quantiser]]:
        """The constants of a product that are rounded, or all of another op, with quantisers."""
        if not is_one_product(op):
            inverse = holding.inverse and op.type in _DIVIDING
            yield from ((name, half(holding.cut, inverse=inverse)) for name in self._floats(op))
            return
        weight = self._weight(op)
        value = None if weight is None else self._constant(weight.tensor)
        if weight is None or value is None:
            return
        folded = self._folded(op) if holding.folded else None
        axes, factor = _axes(op, weight), np.ones(())
        if folded is not None:
            factor = along(folded[1], axes[0], value.ndim)
        if holding.grid is not None:
            yield weight.tensor, holding.grid.quantiser(axes, factor)
            return
        yield weight.tensor, half(holding.cut, factor)
        if not holding.biases:
            return
        bias = bias_of(op)
        added = None if bias is None else self._constant(bias)
        if folded is None:
            if bias is not None and added is not None:
                yield bias, half(holding.cut)
            yield from ((name, half(holding.cut)) for name in self._sums(op))
            return
        shift, factor, mean = folded
        own = np.zeros(1) if added is None else np.asarray(added, np.float64)
        yield shift, half(holding.cut, added=(own - mean) * factor)

    def _folded(self, op: Op) -> tuple[str, Array, Array] | None:
        """The name of the shift, the factors and the means of a normalisation behind *op*, all by
        output channel, perhaps behind a sum with constants; None where there is none."""
        for reader in self._behind(op):
            if reader.type == "Add" and any(self._floats(reader)):
                return self._folded(reader)
            read = [ref.tensor for ref in reader.inputs if ref is not None]
            if reader.type != _BATCH_NORM or len(read) != _BATCH_NORM_INPUTS:
                continue
            values = [self._constant(name) for name in read[1:]]
            arrays = [np.asarray(value, np.float64) for value in values if value is not None]
            if len(arrays) == len(values):
                gamma, _, mean, spread = arrays
                attr = reader.attrs.get("epsilon", _EPSILON)
                epsilon = attr if isinstance(attr, float) else _EPSILON
                with np.errstate(all="ignore"):
                    return read[2], gamma / np.sqrt(spread + epsilon), mean
        return None

    def _sums(self, op: Op) -> Iterator[str]:
        """The constants that are added to a product."""
        for reader in self._behind(op):
            if reader.type == "Add":
                yield from self._floats(reader)

    def _floats(self, op: Op) -> Iterator[str]:
        """The constants in floats that *op* reads."""
        for ref in op.inputs:
            constant = ref is not None and self._is_constant(ref)
            if ref is not None and constant and self._constant(ref.tensor) is not None:
                yield ref.tensor

    def _behind(self, op: Op) -> Iterator[Op]:
        """The op that alone reads what *op* makes."""
        readers = self.golden.graph.readers().get(op.makes[0], ())
        users = {user.id: user for user in readers}
        if len(users) == 1:
            yield from users.values()


def _axes(op: Op, weight: InputRef) -> tuple[int, int]:
    """The axes of a weight along which its output and input channels lie."""
    if op.type in ("Conv", "FusedConv") or op.attrs.get("transB") == 1:
        return 0, 1
    if op.type == "ConvTranspose":
        return 1, 0
    turned = weight is op.inputs[0] or "Depthwise" in op.type or "BackpropInput" in op.type
    return (-2, -1) if turned else (-1, -2)


def with_told_weights(run: PreparedRun, groups: Sequence[Group]) -> tuple[PreparedRun, str]:
    """*run*, with how the device holds weights where its graph says nothing, and a remark on it
    ("" where it holds them as they are)."""
    if run.options.precision is not None or run.options.operands is not None:
        return run, ""
    if run.quantisers.by_tensor:
        return run, ""
    search = ToldWeights(run)
    holdings = search.found(groups)
    if not holdings:
        return run, ""
    quantisers = search.quantisers(holdings)
    return replace(run, quantisers=quantisers), _remark(holdings)


def _remark(holdings: Mapping[str, Holding]) -> str:
    counts = Counter(str(holding) for holding in holdings.values())
    text = " and ".join(
        f"{counted(count, 'product')} {'holds its weight' if count == 1 else 'hold their weights'}"
        f" in {name}"
        for name, count in counts.most_common()
    )
    dynamic = sum(holding.scale is not None for holding in holdings.values())
    met = (
        f", {dynamic} of which round what they multiply with scales of its values"
        if dynamic
        else ""
    )
    return f"float32, but {text}{met}: the graph says nothing of it, the device's outputs show it"
