"""Pairs of a golden model and what a real converter or optimiser made of it: what matching finds.

    python benchmarks/matching/converted.py [--to WORD] [--faults] [--verdict] MODEL ...

MODEL is an ONNX file, or ``transformer``, ``gpt``, ``vit``, ``mobilenet``, ``unet``, ``gru``
(written here), or ``tensorflow`` (graphs that tf2onnx converts; ``tensorflow:bert`` is one). Both
sides run with the same input. The truth are values: a device tensor matched with a golden one of
other values is wrong. Faulty device models are judged by the values of their healthy twins. Each
pair is matched with its names, and with all names hidden.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from conversions import CONVERSIONS, perturbed
from golden_models import given, made
from hidden_names import hidden

from divergraph.comparison import CompareRequest, compare
from divergraph.execute.installed import open_executor
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.graphs.lineage import Lineage, Unmatched, link_graphs
from divergraph.graphs.lineage.split_originals import HANDING_ON
from divergraph.graphs.matching import MatchSources, match_more
from divergraph.graphs.matching.by_value import is_telling, squeezed
from divergraph.graphs.matching.constants import constant_ops
from divergraph.values.closeness import FAR, best_reorder, distance
from divergraph.values.dumped_values import DumpedValues
from divergraph.values.orders import reordered
from graphstore.errors import DivergraphError
from graphstore.model import ModelGraph, TensorMatch, TensorRef
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.dumps.index import DumpIndex
from importers.registry import read_graph

Array = npt.NDArray[Any]
_NOISE = 1e-3
"""Relative distance up to which float32 values are the same."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A golden and a device model; *healthy* is the device model without its fault."""

    name: str
    device: Path
    healthy: Path
    by_name: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """A model, its graph and its dump."""

    model: Path
    folder: Path
    graph: ModelGraph
    dump: DumpIndex

    @classmethod
    def run(cls, model: Path, folder: Path, feeds: Mapping[str, Path]) -> Side:
        """The model run on *feeds*, all tensors kept in *folder*."""
        capture(CaptureRequest(model, folder, feeds, seed=1))
        graph = read_graph(model)
        return cls(model, folder, graph, scan_golden_dumps(folder, graph))


@dataclass(frozen=True, slots=True)
class Count:
    """Tensors that depend on an input; those with a counterpart by value, found and wrong."""

    tensors: int
    there: int
    found: int
    wrong: tuple[str, ...]
    reasons: Mapping[str, int]


def main() -> None:
    """Print a line a pair and way of naming."""
    options = _options()
    print(
        f"{'golden':14} {'device':22} {'names':6} {'all':>5} {'there':>5} {'found':>5} "
        f"{'wrong':>5}  CPU s  reasons / verdict"
    )
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            if name.startswith("tensorflow"):
                from tensorflow_pairs import tensorflow_pairs

                only = name.partition(":")[2]
                for golden, feeds, pairs in tensorflow_pairs(Path(folder), only):
                    _rows(golden, feeds, pairs, options, Path(folder))
                continue
            golden, feeds = (
                given(Path(name), Path(folder)) if Path(name).exists() else made(name, Path(folder))
            )
            pairs = _pairs(golden, feeds, options, Path(folder))
            _rows(golden, feeds, pairs, options, Path(folder))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--to", default="", help="conversions with this word")
    parser.add_argument("--verdict", action="store_true", help="run all of compare")
    parser.add_argument("--faults", action="store_true", help="faulty device models, too")
    parser.add_argument("--names", choices=("kept", "hidden", "both"), default="both")
    parser.add_argument("--tell", action="store_true", help="list wrong and missing matches")
    return parser.parse_args()


def _pairs(
    golden: Path, feeds: Mapping[str, Array], options: argparse.Namespace, folder: Path
) -> Iterator[Pair]:
    faults = {"": None}
    if options.faults:
        faults |= {f", fault at {place:.0%}": perturbed(place) for place in (0.1, 0.5)}
    for conversion in CONVERSIONS:
        if options.to not in conversion.name:
            continue
        if "transformers" in conversion.name and not _has_attention(golden):
            continue
        target = folder / f"{conversion.name.replace(' ', '_')}.onnx"
        for said, change in faults.items():
            source = golden
            written = target
            if change is not None:
                source = folder / "faulty.onnx"
                onnx.save_model(change(onnx.load(str(golden))), str(source))
                written = target.with_suffix(f".{len(said)}{said[-3:-1].strip()}.onnx")
            try:
                conversion.write(source, written, feeds)
            except Exception as error:  # noqa: BLE001 - whatever it raises, it did not convert
                print(
                    f"{golden.stem[:14]:14} {conversion.name + said:22} "
                    f"not converted: {error!s:.90}"
                )
                break
            yield Pair(conversion.name + said, written, target, conversion.by_name)


def _has_attention(model: Path) -> bool:
    kinds = Counter(node.op_type for node in onnx.load(str(model)).graph.node)
    return kinds["Softmax"] > 0 and kinds["MatMul"] > 2


def _rows(
    golden: Path,
    feeds: Mapping[str, Array],
    pairs: Iterator[Pair],
    options: argparse.Namespace,
    folder: Path,
) -> None:
    files: dict[str, Path] = {}
    for place, (name, value) in enumerate(feeds.items()):
        files[name] = folder / f"{golden.stem}.{place}.npy"
        np.save(files[name], value)
    known = Side.run(golden, folder / f"{golden.stem}.run", files)
    for number, pair in enumerate(pairs):
        for naming in ("kept", "hidden"):
            if options.names not in (naming, "both"):
                continue
            at = folder / f"{golden.stem}.{number}.{naming}"
            at.mkdir()
            device, healthy, names = pair.device, pair.healthy, {}
            try:
                if naming == "hidden":
                    case = hidden(device.stem, onnx.load(str(device)), at)
                    twin_case = hidden(f"{healthy.stem}.healthy", onnx.load(str(healthy)), at)
                    device, names, healthy = case.model, case.truth, twin_case.model
                other = Side.run(device, at / "run", files)
                twin = other
                if pair.device != pair.healthy:
                    twin = Side.run(healthy, at / "healthy", files)
                said = row(known, other, twin, names if pair.by_name else None, options)
            except DivergraphError as error:
                if options.tell:
                    traceback.print_exc()
                said = f"failed: {type(error).__name__} {error!s:.200}"
            print(f"{golden.stem[:14]:14} {pair.name:22} {naming:6} {said}", flush=True)


def row(
    golden: Side,
    device: Side,
    healthy: Side,
    names: Mapping[str, str] | None,
    options: argparse.Namespace,
) -> str:
    """The rest of the line of one pair; *names* are the device tensors' hidden names, if these tell
    the truth."""
    start = time.perf_counter()
    sources = MatchSources(
        golden.dump, device.dump, partial(open_executor, golden.model, golden.graph)
    )
    lineage = match_more(link_graphs(golden.graph, device.graph), device.graph, sources)
    seconds = time.perf_counter() - start
    truth = _by_values(golden, healthy) if names is None else _by_names(golden, device, names)
    right = _right(golden, healthy) if names is None else (lambda _: False)
    count = counted(device, lineage, truth, right, tell=options.tell)
    reasons = " ".join(f"{name}:{number}" for name, number in sorted(count.reasons.items()))
    said = (
        f"{count.tensors:5} {count.there:5} {count.found:5} {len(count.wrong):5}  {seconds:5.1f}  "
        f"{reasons}"
    )
    if options.tell:
        said += "".join(f"\n    WRONG {each}" for each in count.wrong)
    if options.verdict:
        data = compare(CompareRequest(golden.model, golden.folder, device.model, device.folder))
        guilty = [each.op for each in data.origins]
        said += f" | {data.run.verdict} {guilty[:4]} suspects {len(data.suspects)}"
    return said


Truth = Callable[[TensorRef], frozenset[TensorRef]]
"""The golden tensors a device tensor stands for, all of the same values; none if it is new."""


def _by_values(golden: Side, healthy: Side) -> Truth:
    theirs, mine = DumpedValues(golden.dump, 1 << 28), DumpedValues(healthy.dump, 1 << 28)
    by_size: dict[int, list[TensorRef]] = {}
    for op in golden.graph.ops:
        for ref in op.makes:
            by_size.setdefault(theirs.size(ref) or 0, []).append(ref)

    def truth(ref: TensorRef) -> frozenset[TensorRef]:
        value = mine.of(ref)
        return frozenset(
            each
            for each in (() if value is None else by_size.get(value.size, ()))
            if (right := theirs.of(each)) is not None and _apart(value, right) <= _NOISE
        )

    return truth


_ADDED = re.compile(
    r"(_(De)?[Qq]uantize(Linear|d)(_Output|_Input)?(_\d+)?|_output_(quantized|quant)|_cast_to_.*)$"
)


def _by_names(golden: Side, device: Side, names: Mapping[str, str]) -> Truth:
    ops = golden.graph.op_index()

    def root(ref: TensorRef) -> TensorRef:
        source = ops[ref.op].source()
        return root(source) if source and ops[ref.op].type in HANDING_ON else ref

    by_name = {
        tensor.name: ref
        for op in golden.graph.ops
        for ref, tensor in zip(op.makes, op.outputs, strict=True)
    }
    here = {
        ref: names.get(tensor.name, tensor.name)
        for op in device.graph.ops
        for ref, tensor in zip(op.makes, op.outputs, strict=True)
    }

    def truth(ref: TensorRef) -> frozenset[TensorRef]:
        found = by_name.get(here[ref]) or by_name.get(_ADDED.sub("", here[ref]))
        if found is None:
            return frozenset()
        return frozenset(each for each in by_name.values() if root(each) == root(found))

    return truth


def _right(golden: Side, healthy: Side) -> Callable[[TensorMatch], bool]:
    """Whether the healthy values are the golden ones in another order, as a match says."""
    theirs, mine = DumpedValues(golden.dump, 1 << 28), DumpedValues(healthy.dump, 1 << 28)

    def right(match: TensorMatch) -> bool:
        value, golden = mine.of(match.device), theirs.of(match.golden)
        if value is None or golden is None or match.reorder is None:
            return False
        moved = reordered(value, match.reorder, golden.shape)
        return moved is not None and distance(moved, golden) <= _NOISE

    return right


def counted(
    device: Side,
    lineage: Lineage,
    truth: Truth,
    right: Callable[[TensorMatch], bool],
    *,
    tell: bool,
) -> Count:
    """What was found of the device tensors that depend on an input."""
    values = DumpedValues(device.dump, 1 << 28)
    constants = constant_ops(device.graph)
    tensors = there = found = 0
    wrong: list[str] = []
    reasons: Counter[str] = Counter()
    for op in device.graph.ops:
        if op.id in constants or op.subgraph:
            continue
        for ref in op.makes:
            value = values.of(ref)
            if value is None:
                continue
            tensors += 1
            match, true = lineage.outputs[ref], truth(ref)
            there += bool(true)
            said = f"{ref} {op.type} {list(value.shape)}"
            listed = f"true {sorted(map(str, true))[:3]} of {len(true)}"
            if isinstance(match, Unmatched):
                reasons[f"{match.reason}{'' if true and is_telling(value) else '-'}"] += 1
                if tell and true:
                    print(f"    open {said} {match.reason} {match.detail[:90]} {listed}")
                continue
            found += 1
            if match.golden not in true and not right(match):
                wrong.append(
                    f"{said} = {match.golden} ({match.rule}, {match.confidence}, {match.reorder}) "
                    f"{listed}"
                )
    return Count(tensors, there, found, tuple(wrong), reasons)


def _apart(value: Array, right: Array) -> float:
    apart = distance(value, right) if squeezed(value) == squeezed(right) else FAR
    if apart <= 1e-6:
        return apart
    if value.size == right.size:
        apart = distance(value, right)
        best = best_reorder(value, right)
        if best is not None:
            apart = min(apart, best[1])
    return apart


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parent))
    main()
