"""What a verdict may rest on, entry by entry, and how to judge without some of them.

An entry is ``tolerance:MODULE``, ``format:MODULE``, ``precision:MODULE`` or ``cause:RULE`` of what
the analysis finds instead of listing, ``step:NAME`` of :data:`STEPS`, or a number: a constant of a
module that has a name, as ``number:MODULE.NAME*3`` or ``number:MODULE.NAME/3``.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

_ROOT = "divergraph.rootcause"
FACTOR = 3.0
"""How many times larger and smaller a number is tried."""
_KINDS = {
    "TOLERANCE": "tolerance",
    "CAUSES": "cause",
    "ARITHMETIC": "format",
    "PRECISION": "precision",
}
"""What entries of each attribute are called here."""
REGISTRIES = ("arithmetic.contract", "causes.contract", "devices.precision", "tolerances.contract")
"""The modules that look for entries."""
Answer = Callable[..., Any]


def _first(first: Any, *_: Any) -> Any:
    return first


def _last(*arguments: Any) -> Any:
    return arguments[-1]


def _nothing(*_: Any) -> Any:
    return ()


def _without_operands(*_: Any) -> Any:
    return importlib.import_module(f"{_ROOT}.arithmetic.families").ReadOperands()


STEPS: Mapping[str, tuple[str, Answer]] = {
    "approximated functions": ("devices.deciding.find_functions", lambda *_: {}),
    "attributes in integers": ("tolerances.noise_floor.with_held_attributes", lambda *_: None),
    "dumped otherwise": ("run.as_read", lambda _, splits, *__: splits),
    "consequences": ("core.with_consequences", _last),
    "dynamic kernels": ("prepared.with_dynamic", _first),
    "dynamic scales": ("core.with_dynamic_scales", lambda _, *rest: rest),
    "exact kernels": ("core.without_exact_kernels", lambda _, groups, *__: groups),
    "gains where nothing runs": ("run.with_fallback", lambda *given: given[2]),
    "grids seen": ("prepared.with_seen_grids", _first),
    "inputs not dumped": ("core.fed_otherwise", _nothing),
    "long sums": ("tolerances.noise_floor.Emulation._added_up", _last),
    "losses in common": ("arithmetic.finding.common_loss", lambda *_: None),
    "lost axes": ("core.with_lost_axes", _last),
    "lost parts": ("core.with_lost_parts", _last),
    "names": ("judgement.names_of", lambda *_: None),
    "operands": ("arithmetic.finding.OperandSearch.found", _without_operands),
    "patches": ("tolerances.noise_floor.of_patches", lambda *_: None),
    "sums in any order": ("arithmetic.finding.OperandSearch._sums_in_some_order", lambda *_: None),
    "sums in turn": ("tolerances.noise_floor.in_turn", lambda *_: None),
    "tiles": ("arithmetic.finding._tiled", _nothing),
    "types borne out": ("devices.deciding.borne_out", lambda *_: False),
    "weights in integers": ("prepared.with_held", _first),
    "weights told": ("core.with_told_weights", lambda run, *_: (run, "")),
}
"""Steps of the analysis that have no registry: where it looks each up, and what that answers when
it is left out, of the same arguments."""


class Entries:
    """The entries of the code that is imported: which were ``asked``, and which are left out."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self._off: frozenset[str] = frozenset()
        self._ran: set[CodeType] = set()
        self._numbers: dict[str, _Number] = {}
        for module in REGISTRIES:
            contract: Any = importlib.import_module(f"{_ROOT}.{module}")
            contract.discovered = self._discovered
        for name, (place, neutral) in STEPS.items():
            self._watch(f"step:{name}", place, neutral)

    @contextmanager
    def without(self, entries: Collection[str]) -> Iterator[None]:
        """Judge without *entries*; of a number, with what its name says."""
        self._off = frozenset(entries)
        changed = [self._number(each) for each in entries if each.startswith("number:")]
        self._forget()
        for number, factor in changed:
            number.set(type(number.value)(number.value * factor))
        try:
            yield
        finally:
            for number, _ in changed:
                number.set(number.value)
            self._off = frozenset()
            self._forget()

    @contextmanager
    def noted(self, *, numbers: bool) -> Iterator[None]:
        """Note in ``asked`` what is asked; with *numbers*, what code reads that runs as well."""
        self.asked.clear()
        self._ran.clear()
        if numbers:
            sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
        read = {(code.co_filename, name) for code in self._ran for name in code.co_names}
        for name, each in self.numbers().items() if numbers else ():
            if any((file, each.name) in read for file in each.files):
                self.asked |= {f"{name}*{FACTOR:g}", f"{name}/{FACTOR:g}"}

    def numbers(self) -> Mapping[str, _Number]:
        """The numbers that have a name, by entry."""
        if not self._numbers:
            modules = [each for name, each in sys.modules.items() if name.startswith(_ROOT)]
            for module in modules:
                short = module.__name__.removeprefix(f"{_ROOT}.")
                for name in _assigned(module):
                    value = getattr(module, name)
                    if type(value) in (int, float):
                        readers = [each for each in modules if vars(each).get(name) is value]
                        self._numbers[f"number:{short}.{name}"] = _Number(name, value, readers)
        return self._numbers

    def _number(self, entry: str) -> tuple[_Number, float]:
        name, times, _ = entry.partition("*")
        if times:
            return self.numbers()[name], FACTOR
        return self.numbers()[entry.rpartition("/")[0]], 1.0 / FACTOR

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "rootcause" in frame.f_code.co_filename:
            self._ran.add(frame.f_code)

    def _forget(self) -> None:
        """Have all registries look again."""
        for name, module in list(sys.modules.items()):
            if name.startswith(_ROOT):
                for value in vars(module).values():
                    if hasattr(value, "cache_clear"):
                        value.cache_clear()

    def _discovered(self, package: str, attribute: str, _group: str) -> Iterator[object]:
        folder = importlib.import_module(package)
        modules = pkgutil.walk_packages(folder.__path__, f"{package}.")
        kind = _KINDS.get(attribute, attribute.lower())
        for name in sorted(module.name for module in modules):
            module = importlib.import_module(name)
            entry = f"{kind}:{name.rpartition('.')[2]}"
            if hasattr(module, attribute) and entry not in self._off:
                yield self._watched(getattr(module, attribute), entry)

    def _watched(self, value: Any, entry: str) -> Any:
        """*value* such that *entry* is asked once a function of it gave an answer."""
        if isinstance(value, tuple):
            rules = [(each, f"cause:{getattr(each, 'name', each)}") for each in value]
            return tuple(self._watched(*each) for each in rules if each[1] not in self._off)
        for name in ("apply", "explain"):
            function = getattr(value, name, None)
            if callable(function) and hasattr(value, "__dataclass_fields__"):
                return replace(value, **{name: self._noting(function, entry)})
        # Of a format or a precision it is not known whether it decided: it is always tried.
        self.asked.add(entry)
        return value

    def _noting(self, function: Answer, entry: str) -> Answer:
        def call(*arguments: Any) -> Any:
            answer = function(*arguments)
            if answer is not None:
                self.asked.add(entry)
            return answer

        call.__name__ = function.__name__
        return call

    def _watch(self, entry: str, place: str, neutral: Answer) -> None:
        """Have the function at *place* answer *neutral* while *entry* is left out, and note where
        it answers something else."""
        owner, name = owner_of(place)
        function = getattr(owner, name)

        def call(*arguments: Any) -> Any:
            left_out = neutral(*arguments)
            if entry in self._off:
                return left_out
            answer = function(*arguments)
            answer = tuple(answer) if isinstance(answer, Iterator) else answer
            if not _is_alike(answer, left_out):
                self.asked.add(entry)
            return answer

        setattr(owner, name, call)


class _Number:
    """A constant, and the modules that read it by its name."""

    def __init__(self, name: str, value: float, modules: Collection[ModuleType]) -> None:
        self.name, self.value, self._modules = name, value, modules
        files = {str(each.__file__) for each in modules}
        every = {str(path) for path in Path(str(_package().__file__)).parent.rglob("*.py")}
        # Attributes of a module that others import as a whole are read anywhere.
        self.files = files if name.startswith("_") else every

    def set(self, value: float) -> None:
        """Have everyone read *value*."""
        for module in self._modules:
            setattr(module, self.name, value)


def _is_alike(one: Any, other: Any) -> bool:
    """Whether two answers of a step are the same objects, or nothing."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return all(map(_is_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(one[key] is other[key] for key in one)
    if one is other or isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return one is other
    is_sized = hasattr(type(one), "__len__") or hasattr(type(one), "__bool__")
    return is_sized and not one and not other


def _package() -> ModuleType:
    return importlib.import_module(_ROOT)


def owner_of(place: str) -> tuple[Any, str]:
    """What has the attribute at *place*, a path below the package, and its name."""
    path, _, name = place.rpartition(".")
    try:
        return importlib.import_module(f"{_ROOT}.{path}"), name
    except ModuleNotFoundError:
        module, _, owner = path.rpartition(".")
        return getattr(importlib.import_module(f"{_ROOT}.{module}"), owner), name


def _assigned(module: ModuleType) -> Iterator[str]:
    """The constants that *module* itself assigns."""
    body = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (
                each.id for each in names if isinstance(each, ast.Name) and each.id.isupper()
            )
