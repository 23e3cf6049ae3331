"""What the house may weigh: counts that only go down.

Each count has the limit it may not pass and the goal it goes to. Who brings one down lowers its
limit in the same change; who must raise one says why beside it. What a change costs matters more,
and is tried by the plug-in tests; these counts show drift.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("divergraph", "graphstore", "importers", "tui")
HARD_ROOMS = {"rootcause", "graphs", "traverse", "execute"}
EVERYDAY = frozenset(
    "found told given made each held taken said kept known asked shown beside behind ways way anew "
    "odd little whole apart near left most least".split()
)


@dataclass(frozen=True)
class Module:
    """A source file of ours: its path from the root, text and syntax tree."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def code(self) -> list[str]:
        """Its lines without blanks and comments; docstrings count."""
        lines = (line.strip() for line in self.text.splitlines())
        return [line for line in lines if line and not line.startswith("#")]

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        return (node for node in self.walked if isinstance(node, kinds))

    @cached_property
    def walked(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))


@cache
def all_modules() -> tuple[Module, ...]:
    """The modules of all packages."""
    paths = (
        path.relative_to(ROOT)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "_pb2" not in path.name
    )
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}
    return tuple(Module(path, text, ast.parse(text)) for path, text in texts.items())


def modules(room: str = "") -> tuple[Module, ...]:
    """The modules of all packages, or those below a folder called *room*."""
    return tuple(each for each in all_modules() if not room or room in each.path.parts)


def code_lines(room: str = "") -> int:
    return sum(len(module.code) for module in modules(room))


def import_share() -> float:
    """Import lines in 100 lines."""
    imports = sum(
        node.end_lineno - node.lineno + 1  # type: ignore[attr-defined]
        for module in modules()
        for node in module.nodes(ast.Import, ast.ImportFrom)
    )
    return 100 * imports / sum(len(module.text.splitlines()) for module in modules())


def one_caller_share() -> float:
    """Private functions with one use, in 100 of them."""
    private = once = 0
    for module in modules():
        uses: Counter[str] = Counter()
        for node in module.nodes(ast.Name, ast.Attribute):
            if isinstance(node, ast.Name):
                uses[node.id] += isinstance(node.ctx, ast.Load)
            elif isinstance(node, ast.Attribute):
                uses[node.attr] += 1
        names = [
            node.name  # type: ignore[attr-defined]
            for node in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef)
            if re.match(r"_(?!_)", node.name)  # type: ignore[attr-defined]
        ]
        private += len(names)
        once += sum(uses[name] == 1 for name in names)
    return 100 * once / private


def everyday_names() -> float:
    """Variables called by an everyday word, in 100 names."""
    names = [node.id for module in modules() for node in module.nodes(ast.Name)]  # type: ignore[attr-defined]
    return 100 * sum(name.strip("_") in EVERYDAY for name in names) / len(names)


def uncommented() -> float:
    """Lines of code for one comment in the rooms that are hard to read."""
    hard = [module for module in modules() if HARD_ROOMS & set(module.path.parts)]
    comments = sum(
        token.type == tokenize.COMMENT
        for module in hard
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline)
    )
    return sum(len(module.code) for module in hard) / comments


def numbers_of_root_cause() -> int:
    """Floats other than 0, 0.5, 1 and 2, and named integers."""
    plain = (0.0, 0.5, 1.0, 2.0)
    floats = sum(
        isinstance(node.value, float) and node.value not in plain  # type: ignore[attr-defined]
        for module in modules("rootcause")
        for node in module.nodes(ast.Constant)
    )
    integers = re.compile(r"(?m)^_?[A-Z][A-Z_0-9]+(?:: \w+)? = [-0-9][0-9_]*$")
    return floats + sum(len(integers.findall(module.text)) for module in modules("rootcause"))


def small_folders() -> int:
    """Folders of one or two modules."""
    counts = Counter(m.path.parent for m in modules() if m.path.name != "__init__.py")
    return sum(count < 3 and len(folder.parts) > 1 for folder, count in counts.items())


def repeated_class_names() -> int:
    """Names of public classes that two modules have."""
    places = defaultdict(set)
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(module.path)
    return sum(len(paths) > 1 for paths in places.values())


def long_functions() -> int:
    """Functions of more than 60 lines."""
    return sum(
        node.end_lineno - node.lineno > 60  # type: ignore[attr-defined]
        for module in modules()
        for node in module.nodes(ast.FunctionDef)
    )


@dataclass(frozen=True)
class Count:
    """A count with its ``limit``, and the ``goal`` it goes to."""

    what: str
    value: Callable[[], float]
    limit: float
    goal: float


COUNTS = (
    # 1,500 for PyTorch: recorded, captured and as a second engine (divergraph.torch).
    # 800 of these lines are only wrapped: names that say what they hold are longer than `found`.
    # Jobs of many ranks: joined to one graph, calls between ranks run again.
    # 2,500 for golden in the layout of the device's job (divergraph/layouts).
    # 400 for pictures from Python and any metric on the terminal's chart.
    # 150 for a graph asked by hand: relationships in both stores, what older stores lack.
    # 400 for a few ops of a million read alone, and for stores of another engine.
    # 600 for layers fused on one side, modules of other names, and the plan of what to dump next.
    # 300 for reductions of gradients that no dump has.
    # 100 for runs as tables: written, read, made databases of, and for who takes old ones over.
    # 1,000 for laws of calls that statistics alone show, and gradients of 40 more functions.
    # 350 for the graph's difference, its file, parts in it, and Cypher on a page.
    # 250 for the map of a job's ranks and layers: question, text, picture.
    # 70 for names of a million ops as bytes, and what is kept of them with the run.
    # 800 for the runs of a model beside each other, new guilty ops, gate as a question, maps of
    # states, names that tell rows apart, and answers of the terminal that lead on.
    # 650 for golden jobs of several ranks in another layout.
    # 70 for heads of the modules that culprits and the job of ranks became.
    # 30 for copies of a shared constant whose zero points differ, which blame reads, too, and for
    # slices behind a gate.
    # 180 for the way back of every call of PyTorch, by reverse accumulation.
    # 350 for 30 more functions of PyTorch: distances, unfolded windows, caches, losses of pairs.
    # 100 for calls between ranks against golden of another layout.
    # 900 for the stores' own queries answered from tables, without a database.
    # 250 for charts of one op type or state, limits that scripts move on described axes, how the
    # runs of a model pass its gate, lines and maps that can be clicked.
    # 200 for states and figures of ops as graphs show them, read without the run.
    # 50 for modules by themselves.
    # 200 for the page of a diff and what a job tells of its run.
    # 150 for messages dumped early, rings and products of addends.
    # 50 for modules by themselves again: noise that is drawn, what calls before have shown.
    # 140 for outputs of ops as columns: a million ops are kept in a sixth less CPU time;
    # and for views that other versions of the engine make.
    # 160 for messages that come later than their dump, and for jobs of other models.
    # 95 for advice on a large run, which reads marks of all tensors and few comparisons.
    # 60 for products held before their bias, scales that NaN spreads, calls of one side.
    # 85 for shapes in three files, shared weights, limits of types, memory that is written over:
    # of 18 models that nobody here wrote 10 had a healthy step that was diverged.
    # 63 for products of experts there and back, and writes in place, which are run again.
    # 250 for steps set up otherwise: detached results, frozen weights, lost biases and kept
    # gradients had another call first, or an origin for each module, in all 12 steps of four
    # published models; positions of another shape were within rounding.
    # 115 for modules that are called with the arguments of the call inside: 25 of 1,045 calls of a
    # published model were not run again, now 2, and a wrong epsilon had two origins; for gradients
    # that stop between two calls; for sums that a recorded product cuts short; half of it tests.
    Count("code lines", code_lines, 152_025, 80_000),
    # 6 for exported programs of PyTorch: an importer of 5 modules, and what runs them.
    # 20 for layouts of jobs, a rule a file.
    # 2 for what rules of causes share, and for losses in common: files that had two jobs.
    # 2 for stores of an older schema: what one lacks, and how a server gets it.
    # 2 for layers that are fused on one side of a comparison: found, and called so.
    # 3 for a few ops of a large graph, read alone, and for stores of another engine.
    # 5 for pictures: what is drawn, how as SVG; what the terminal's chart shows of it.
    # 1 for what to dump next after a run of statistics.
    # 2 for reductions of gradients that no dump has: inferred, and what they are inferred from.
    # 2 for a run's tables as files, and for how what lacks them is written anew.
    # 7 for laws of calls and gradients of more functions of PyTorch.
    # 4 for the graph's difference, its file and Cypher on a page: changes and levels out of the
    # question, markup that a server's page and a file share.
    # 3 for the map of ranks and layers.
    # 10 for three questions over the runs of a model, the words of Cypher, short names, maps of
    # states in two faces, pictures of the API, links of answers, the terminal's window for them.
    # 3 for golden jobs of another layout: which ranks, one of them, their tensors joined.
    # 7 for errors, checksums, structure and labels out of a module of 637 lines, names, calls and
    # joining of ranks out of one of 618.
    # 2 for reverse accumulation: the derivatives of ONNX nodes, and those of activations.
    # 3 for what a rank gets of a call between ranks: by definition, where golden has no
    # counterpart, and times the number of ranks.
    # 4 for plain queries: their grammar, rows and columns, expressions, joins.
    # 2 for files that had two jobs: how a list draws its lines, and the files of pages.
    # 1 for what all ranks have alike.
    # 3 for fits, candidates and groups of families.
    # 2 for the folded graph that is kept, and the figures of ops that it shows.
    # 4 for files that had two jobs: shapes and types of filters, noise, what calls have shown.
    # 2 for messages that come late: what was sent, and the one nobody reads.
    # 1 for MindSpore's two forms of files, which are read apart again.
    # 2 for what is tried for an output of another shape, and what its values show.
    # 1 for gradients that stop.
    Count("modules", lambda: len(modules()), 1_319, 700),
    Count("folders with modules", lambda: len({m.path.parent for m in modules()}), 128, 70),
    Count("import lines in 100", import_share, 8.5, 5),
    Count("private functions with one use, in 100", one_caller_share, 57, 45),
    Count("variables called by an everyday word, in 100", everyday_names, 0.7, 0.5),
    Count("lines for a comment in the hard rooms", uncommented, 72, 25),
    Count("numbers of root cause", numbers_of_root_cause, 407, 120),
    # 400 of these lines are only wrapped, as above, or import what rules share.
    # 60 for gradients added up in 16 bits: healthy training in bfloat16 was diverged.
    # 10 for the epsilon of a recorded call, by its place or as a module keeps it.
    # 20 for copies of a shared bias with scales of their own: a healthy device was diverged.
    # 20 for runs of jobs split otherwise than golden's, opened again.
    # 25 for inputs solved for with the weights of a device in 8 bits, 260 for jobs of ranks.
    # 20 for calls that stand for one fault, on all ranks or at all calls of a kind.
    # 30 for copies of a shared constant whose zero points differ, and for slices behind a gate.
    # 25 for exchanges that are run with the device's numbers of rows.
    # 70 for ties of short formats, and for the arguments that a call of PyTorch reads.
    # 45 for products that err unlike all others of their family.
    # 30 for formats that fit by chance, and for recorded calls on other numbers of rows.
    # 35 for the nearest rows of a table, 25 for two files more where one had three jobs.
    # 35 for slices of few errors, masks at the end of float32 and epsilons that were left out:
    # healthy transformers and convolutional nets in bfloat16 were diverged.
    # 15 for noise that is drawn once: a tenth of the time of small comparisons.
    # 15 for weights of a channel that are one value or moved by one; 15 for a module of noise;
    # 5 for the value that an output of one value has.
    # 48 for products held before their bias (14 of 127 GPU runs were called sums in 16 bits), what
    # NaN makes of a shared scale, and channels that depart from what all others repeat.
    # 47 for the files that shapes.py had been, and for what float16 cannot tell from zero.
    # 45 for steps set up otherwise: what follows from a gradient that stops.
    # 9 for calls that are named at their way there, and for sums that recorded products cut short.
    Count("code lines of root cause", lambda: code_lines("rootcause"), 20_389, 8_500),
    Count("folders of one or two modules", small_folders, 6, 8),
    Count("class names used twice", repeated_class_names, 2, 0),
    Count("functions over 60 lines", long_functions, 8, 8),
)


@pytest.mark.parametrize("count", COUNTS, ids=lambda count: count.what)
def test_no_count_goes_up_and_no_limit_lies_far_above_it(count: Count) -> None:
    value = count.value()
    assert value <= count.limit
    # A limit nobody would notice binds nobody.
    assert value >= 0.9 * count.limit - 1 or count.limit <= count.goal


def test_no_cypher_stands_outside_of_query_files() -> None:
    outside = re.compile(r'"(?:MATCH|UNWIND|MERGE) ')
    assert [str(m.path) for m in modules() if outside.search(m.text)] == []


def test_arrays_are_read_and_aligned_in_one_place() -> None:
    reading = re.compile(r"\bread_array\(|align_to_golden\(")
    readers = [m.path for m in modules("divergraph") if reading.search(m.text)]
    assert len(readers) <= 2
