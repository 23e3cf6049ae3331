"""The oracle that runs nothing and uses what the dumps of the run already prove."""

from __future__ import annotations

from collections.abc import Iterator

from divergraph.submodel.minimize.candidates import BlamedOps
from divergraph.submodel.minimize.oracle import OracleOptions, Part
from divergraph.submodel.minimize.verdicts import Variant
from divergraph.submodel.run_parts import RunParts
from graphstore.errors import InputError
from graphstore.model import Comparison, Guilt, Method, OracleAnswer, PartVerdict, TensorIO


class IntroducedErrorOracle:
    """A part fails if it holds ops that introduce an error beyond their noise floor.

    That was measured on the device's own inputs. A part that holds only some ops of a
    guilty group cannot be judged: which of them it is, only another dump or a run tells.
    """

    def __init__(self, parts: RunParts, argument: str, _: OracleOptions) -> None:
        if argument:
            raise InputError("--oracle evidence takes no argument")
        self.identity = "evidence"
        self.variants = (Variant.GOLDEN,)
        self._guilty = list(_guilty_groups(parts))
        self._limit = parts.data.run.analysis.guilty

    def judge(self, part: Part, variant: Variant) -> OracleAnswer:
        """Whether the dumps prove that *part* is wrong."""
        ops = set(part.ops)
        cut: Comparison | None = None
        for group, item in self._guilty:
            if group <= ops:
                return _failed(item, self._limit)
            if group & ops:
                cut = item
        if cut is not None:
            detail = f"it holds only some of the ops that make {cut.op} wrong"
            return OracleAnswer(PartVerdict.UNKNOWN, detail)
        return OracleAnswer(PartVerdict.PASS, "no op in it introduces an error")

    def cancel(self) -> None:
        """One call does not take long."""

    def close(self) -> None:
        """Nothing is open."""


def _guilty_groups(parts: RunParts) -> Iterator[tuple[frozenset[str], Comparison]]:
    blamed = BlamedOps(parts)
    by_split = parts.data.run.method is Method.ROOT_CAUSE
    origins = {origin.op for origin in parts.data.origins}
    for item in parts.data.comparisons:
        if item.io is not TensorIO.OUTPUT:
            continue
        guilty = (
            item.split is not None and item.split.guilt is Guilt.GUILTY
            if by_split
            else item.op in origins and item.over
        )
        if guilty:
            yield from ((frozenset(group), item) for group in blamed.of(item))


def _failed(item: Comparison, guilty: float) -> OracleAnswer:
    split = item.split
    if split is None or split.introduced is None:
        return OracleAnswer(
            PartVerdict.FAIL, f"{item.op} is over its threshold, what feeds it is not"
        )
    off = "" if split.suspicion is None else f", {split.suspicion:.3g} times its noise floor"
    detail = f"{item.op} introduces a relative error of {split.introduced:.3g}{off}"
    limit = None
    if split.floor is not None and split.suspicion is not None:
        limit = split.floor * guilty
    return OracleAnswer(PartVerdict.FAIL, detail, split.introduced, limit)
