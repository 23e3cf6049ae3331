"""Groups of golden ops run again with other operands, and the weights the device holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.execute.contract import Array, RunnableSubgraph
from divergraph.rootcause.causes.evidence import InsideStep, RunBudget
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.values import same_shape
from graphstore.model import ErrorSplit


@dataclass(frozen=True, slots=True)
class OpVerdict:
    """A judged output with its arrays: ``device`` d, ``reference`` r and ``golden`` g of one shape,
    the ``inputs`` its group was fed, by golden tensor name, and the ``noise`` of the whole output,
    as a relative error."""

    group: Group
    split: ErrorSplit
    device: Array
    reference: Array
    golden: Array
    inputs: Mapping[str, Array]
    noise: float = 0.0


@dataclass(frozen=True, slots=True)
class _Base:
    """What reruns of a group start from: the weights ``held`` by the device in integers, by name,
    as floats; and how far ``apart`` the reference still is from what the group gives with them,
    None if that is noise."""

    held: Mapping[str, Array]
    apart: Array | None


@dataclass
class GroupReruns:
    """Runs the groups of judged outputs again; trials take at most ``memory`` bytes together, and
    op runs of the ``budget``."""

    run: PreparedRun
    memory: int
    budget: RunBudget
    _last: tuple[OpVerdict, _Base] | None = None

    def outputs_with(
        self,
        judged: OpVerdict,
        changed: Sequence[tuple[str, ...]],
        values: Callable[[int], Mapping[str, Array]],
        inside: InsideStep | None = None,
    ) -> list[Array | None]:
        """The group's output for each run, None where it fails, with some tensors replaced; with
        *inside* the output of that op of the group.

        Weights are those the device holds. Where the reference is not what the group gives with
        them, as it allows for more, what it is off by is added to each output.

        *changed* names the replaced tensors of each run; *values* gives their arrays for the run of
        that number, and is only called when the run starts.

        Raises:
            RunsSpentError: the budget does not allow so many runs.
        """
        constants = self.base(judged).held
        self.budget.spend(len(changed) * len(judged.group.ops))
        if inside is not None:
            shape = inside.value.shape
            return self._outputs(judged, changed, values, inside.tensor, shape, constants)
        name, shape = self.run.golden.name(judged.group.golden), judged.reference.shape
        outputs = self._outputs(judged, changed, values, name, shape, constants)
        difference = self.base(judged).apart
        return (
            outputs
            if difference is None
            else [None if x is None else x + difference for x in outputs]
        )

    def base(self, judged: OpVerdict) -> _Base:
        """What reruns of a group start from: its weights as they are, or as the device holds them
        if the reference is nearer to that."""
        if self._last is None or self._last[0] is not judged:
            self._last = judged, self._base(judged)
        return self._last[1]

    def _base(self, judged: OpVerdict) -> _Base:
        plain = _Base({}, self._apart(judged, {}))
        constants = self._held(judged.group) if plain.apart is not None else {}
        if plain.apart is None or not constants:
            return plain
        base = _Base(constants, self._apart(judged, constants))
        sizes = [0.0 if x is None else float(np.linalg.norm(x)) for x in (plain.apart, base.apart)]
        return base if sizes[1] < sizes[0] else plain

    def _apart(self, judged: OpVerdict, constants: Mapping[str, Array]) -> Array | None:
        name, shape = self.run.golden.name(judged.group.golden), judged.reference.shape
        (own,) = self._outputs(judged, [()], lambda _: {}, name, shape, constants)
        return beyond_reruns(judged, own)

    def _held(self, group: Group) -> dict[str, Array]:
        """The weights of a group that the device holds in integers, as floats."""
        constants: dict[str, Array] = {}
        ops = [self.run.golden.ops[op_id] for op_id in group.ops]
        for name, value in self.constants(group).items() if self.run.quantisers.by_tensor else ():
            through = [
                self.run.quantisers.reads(op.id, name)
                for op in ops
                if any(ref is not None and ref.tensor == name for ref in op.inputs)
            ]
            quantiser = through[0] if through else None
            alike = all(other is quantiser for other in through)
            if quantiser is not None and alike and value.dtype.kind == "f":
                constants[name] = quantiser(value)
        return constants

    def _outputs(
        self,
        judged: OpVerdict,
        changed: Sequence[tuple[str, ...]],
        values: Callable[[int], Mapping[str, Array]],
        name: str,
        shape: tuple[int, ...],
        constants: Mapping[str, Array],
    ) -> list[Array | None]:
        """The tensor called *name* for each run."""
        usual = {**judged.inputs, **constants}
        subgraphs = [
            RunnableSubgraph(str(number), tuple(dict.fromkeys((*names, *usual))), (name,))
            for number, names in enumerate(changed)
        ]

        def given(subgraph: RunnableSubgraph) -> Mapping[str, Array]:
            return {**usual, **values(int(subgraph.key))}

        outputs: list[Array | None] = [None] * len(subgraphs)
        for result in self.run.executor.run_subgraphs(subgraphs, given, memory=self.memory):
            output = result.values.get(name)
            if output is not None:
                outputs[int(result.key)] = same_shape(output, shape)
        return outputs

    def constants(self, group: Group) -> dict[str, Array]:
        """The weights of the ops of a group, by tensor name."""
        fed = {feed.tensor for feed in group.feeds}
        computed_names = {
            tensor.name for op_id in group.ops for tensor in self.run.golden.ops[op_id].outputs
        }
        read = (ref.tensor for ref in self.run.golden.reads(group.ops))
        names = dict.fromkeys(
            name for name in read if name not in fed and name not in computed_names
        )
        subgraphs = [RunnableSubgraph(name, (), (name,)) for name in names]
        results = self.run.executor.run_subgraphs(subgraphs, lambda _: {}, memory=self.memory)
        return {result.key: result.values[result.key] for result in results if result.values}


def beyond_reruns(judged: OpVerdict, own: Array | None) -> Array | None:
    """What the reference is off from what the group gives by itself, if that is more than noise."""
    if own is None or judged.reference.dtype.kind != "f":
        return None
    reference = judged.reference.astype(np.float64)
    with np.errstate(invalid="ignore"):
        differences = reference - own
    use = np.isfinite(differences)
    if np.linalg.norm(differences[use]) <= judged.noise * np.linalg.norm(reference[use]):
        return None
    return np.where(use, differences, 0.0).astype(judged.reference.dtype)
