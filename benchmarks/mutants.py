"""Do the tests notice a wrong verdict? Fifty mutants of calibration and judgement, one by one.

    python benchmarks/mutants.py
    python benchmarks/mutants.py --count 100 --tests tests/rootcause

A mutant is one number times or over ten, one comparison the other way, ``max`` for ``min``, ``and``
for ``or``, in a copy of the tree. The tests named are run against it until one fails; the
mutants that none notices are printed. At most three of fifty may live.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
QUICK = (
    "tests/rootcause/test_judgement.py",
    "tests/rootcause/tolerances/test_noise_floor.py",
    "tests/rootcause/numbers",
    "tests/rootcause/tolerances/test_last_place.py",
    "tests/rootcause/test_propagated.py",
    "tests/rootcause/tolerances/test_local_errors.py",
    "tests/rootcause/tolerances/test_beyond_the_type.py",
    "tests/rootcause/tolerances/test_flushed.py",
    "tests/rootcause/tolerances/test_gains.py",
    "tests/rootcause/tolerances/test_pre_rounding.py",
    "tests/rootcause/tolerances/test_small_numbers.py",
    "tests/rootcause/tolerances/test_unseen_scales.py",
    "tests/rootcause/test_fallback.py",
    "tests/rootcause/test_explain.py",
)
"""In order of how soon they fail."""
PLACE = "divergraph/rootcause"
JUDGING = (
    "judgement.py",
    "options.py",
    "fallback.py",
    "tolerances/beyond_the_type.py",
    "tolerances/flushed.py",
    "tolerances/gains.py",
    "tolerances/last_place.py",
    "tolerances/local_errors.py",
    "tolerances/masks.py",
    "tolerances/noise_floor.py",
    "tolerances/pre_rounding.py",
    "tolerances/integers/quantised_steps.py",
    "tolerances/small_numbers.py",
    "tolerances/integers/unseen_scales.py",
)
_FLIPPED = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
_OTHER = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum"}
_SHARE_OF_NUMBERS = 0.4
"""Of all mutants those of calibration."""


@dataclass(frozen=True)
class Mutant:
    """One change: the characters of a file from *start* to *end* become *text*."""

    path: str
    start: int
    end: int
    text: str
    line: int

    def apply(self, tree: Path) -> str:
        """Change the file under *tree*; what it held before."""
        path = tree / self.path
        before = path.read_text(encoding="utf-8")
        path.write_text(before[: self.start] + self.text + before[self.end :], encoding="utf-8")
        return before

    def described(self) -> str:
        """Where it is, and what became what."""
        was = (ROOT / self.path).read_text(encoding="utf-8")[self.start : self.end]
        return f"{self.path}:{self.line}: {was} -> {self.text}"


class Source:
    """A file of the package, parsed, whose nodes have places."""

    def __init__(self, name: str) -> None:
        self.path = f"{PLACE}/{name}"
        self.text = (ROOT / self.path).read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self._lines = [0]
        for line in self.text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def start(self, node: ast.expr) -> int:
        """Where *node* starts; columns are characters, as code is ASCII."""
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        """Where *node* ends."""
        return self._lines[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)

    def replaced(self, node: ast.expr, text: str) -> Mutant:
        """*text* in place of *node*."""
        return Mutant(self.path, self.start(node), self.end(node), text, node.lineno)

    def between(self, left: ast.expr, right: ast.expr, was: str, text: str) -> Mutant | None:
        """*text* in place of the operator *was* between two operands."""
        start = self.text.find(was, self.end(left), self.start(right))
        return None if start < 0 else Mutant(self.path, start, start + len(was), text, left.lineno)


def numbers(source: Source) -> Iterator[Mutant]:
    """Each number of a file of constants, ten times larger and ten times smaller."""
    for statement in source.tree.body:
        if isinstance(statement, ast.Assign):
            value = statement.value
            was = source.text[source.start(value) : source.end(value)]
            whole = isinstance(value, ast.Constant) and isinstance(value.value, int)
            yield source.replaced(value, f"({was}) * 10")
            yield source.replaced(value, f"({was}) {'//' if whole else '/'} 10")


def judgements(source: Source) -> Iterator[Mutant]:
    """Each comparison, ``max``, ``min``, ``and`` and ``or`` of a file."""
    for node in ast.walk(source.tree):
        found = None
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _FLIPPED:
            was, text = _FLIPPED[type(node.ops[0])]
            found = source.between(node.left, node.comparators[0], was, text)
        elif isinstance(node, ast.BoolOp):
            was, text = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            found = source.between(node.values[0], node.values[1], was, text)
        elif isinstance(node, ast.Name) and node.id in _OTHER:
            found = source.replaced(node, _OTHER[node.id])
        elif isinstance(node, ast.Attribute) and node.attr in _OTHER:
            owner = source.text[source.start(node.value) : source.end(node.value)]
            found = source.replaced(node, f"{owner}.{_OTHER[node.attr]}")
        if found is not None:
            yield found


def chosen(count: int) -> list[Mutant]:
    """So many, from all over the files; the same each time."""
    of_numbers = round(count * _SHARE_OF_NUMBERS)
    every = list(numbers(Source("calibration.py")))
    judged = [each for name in JUDGING for each in judgements(Source(name))]
    return [*_spread(every, of_numbers), *_spread(judged, count - of_numbers)]


def _spread(found: list[Mutant], count: int) -> list[Mutant]:
    count = min(count, len(found))
    return [found[round((n + 0.5) * len(found) / count - 0.5)] for n in range(count)]


def is_noticed(tree: Path, tests: list[str]) -> bool:
    """Whether a test fails in *tree*."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    # The tree's own packages come before those that are installed.
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, check=False, timeout=900
    )
    return ended.returncode != 0


def main() -> int:
    """Try the mutants; 1 if too many live."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--most", type=int, default=3, help="so many may live")
    parser.add_argument("--tests", nargs="*", default=list(QUICK))
    given = parser.parse_args()
    mutants = chosen(given.count)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("divergraph", "graphstore", "importers", "tui", "tests"):
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        if is_noticed(tree, given.tests):
            print("the tests fail without any mutant")
            return 2
        living = []
        for number, mutant in enumerate(mutants, 1):
            before = mutant.apply(tree)
            noticed = is_noticed(tree, given.tests)
            (tree / mutant.path).write_text(before, encoding="utf-8")
            print(
                f"{number:3} {'noticed' if noticed else 'LIVES'}  {mutant.described()}", flush=True
            )
            living += [] if noticed else [mutant]
    print(f"{len(living)} of {len(mutants)} live")
    return 1 if len(living) > given.most else 0


if __name__ == "__main__":
    sys.exit(main())
