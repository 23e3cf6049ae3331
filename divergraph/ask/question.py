"""A question, declared once: its parameters, its answer, a sentence of help, an example.

A question is a frozen dataclass. Its fields are the parameters, the fields of what it answers are
the JSON. The command, the route, the tool of agents, the form and the method of the Python API
follow from the declaration; a front end adds code only for what it draws itself.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from divergraph.outcomes import FINE, Outcome
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import Side

Answer = TypeVar("Answer")
AnyQuestion = TypeVar("AnyQuestion", bound="Question[Any]")


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a field of a question says beside its type, in ``Annotated``.

    A field without a default is an argument of the command, one with a default an option, unless
    ``is_argument`` says otherwise. ``name`` is its public name if it is not the field's; ``above``
    is a limit it may not reach. ``is_run``: it names a run. ``op_of``, of a field of an answer: it
    names an op of the run that the question has in this field, or the row itself if a point stands
    before the field's name.
    """

    help: str = ""
    name: str = ""
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    is_argument: bool | None = None
    is_run: bool = False
    is_flat: bool = False
    op_of: str = ""


FLAT = Parameter(is_flat=True)
"""Of a field of an answer: its own fields stand in its place."""
RunName: TypeAlias = Annotated[str, Parameter("The name of a run.", is_run=True)]
TargetName: TypeAlias = Annotated[
    str, Parameter("The name of a run or imported graph.", is_run=True)
]
OpName: TypeAlias = Annotated[str, Parameter("The name of an op.")]
OneSide: TypeAlias = Annotated[Side, Parameter("Which graph of a run.")]


class Question(ABC, Generic[Answer]):
    """A question to a store. The first paragraph of a question's docstring is its help.

    ``example`` is a line of its command; ``command`` says which command asks it, where that is not
    one of its own. Its address is ``path``, which follows from the name and from whether it has a
    field ``run``; ``graphs``: ``run`` may be an imported graph. ``table`` is the field of the
    answer whose entries are the rows of its table, by default the first one that holds records.
    ``reads_files``: the files of the run are read; ``shows_values``: values in them are answered.
    ``picture``: the parameters of the address at which the graph of a run shows the answer, as
    format strings of the fields. ``shapes`` names the objects of JSON of an answer that is not an
    object of all its fields.
    """

    __slots__ = ()
    name: ClassVar[str]
    example: ClassVar[str] = ""
    path: ClassVar[str] = ""
    graphs: ClassVar[bool] = False
    table: ClassVar[str] = ""
    command: ClassVar[str] = ""
    reads_files: ClassVar[bool] = False
    shows_values: ClassVar[bool] = False
    picture: ClassVar[Mapping[str, str]] = {}
    shapes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> Answer:
        """The answer; *cancellation* stops what the database computes for it.

        Raises:
            UnknownNameError: no such run, graph or op.
            InputError: the parameters do not fit the run.
        """

    def shape(self) -> str:
        """The name of the object of JSON that the answer becomes; empty: the first one declared of
        its class."""
        return ""

    def outcome(self, answer: Answer) -> Outcome:
        """What the exit code of the command says of *answer*."""
        return FINE


class Field(NamedTuple):
    """A field of a question or an answer: its type without ``None``, and what is said of it."""

    name: str
    kind: Any
    optional: bool
    about: Parameter


def fields_of(kind: Any) -> tuple[Field, ...]:
    """The fields of a dataclass in their order; text in ``Annotated`` is their help."""
    return _fields_of(kind)


@cache
def _fields_of(kind: Any) -> tuple[Field, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_field(field.name, hints[field.name]) for field in fields(kind))


def _field(name: str, hint: Any) -> Field:
    about, optional = Parameter(), False
    while (origin := get_origin(hint)) in (Annotated, Union, UnionType):
        if origin is Annotated:
            hint, text, *_ = get_args(hint)
            about = text if isinstance(text, Parameter) else Parameter(text)
            continue
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        optional = optional or len(kinds) < len(get_args(hint))
        hint = kinds[0] if len(kinds) == 1 else Any
    return Field(name, hint, optional, about)


def row_kind(kind: Any) -> type[Any] | None:
    """The records that a field of type *kind* lists, if it does."""
    entry = next(iter(get_args(kind)), None)
    is_list = isinstance(get_origin(kind), type) and not issubclass(get_origin(kind), Mapping)
    return entry if is_list and isinstance(entry, type) and is_dataclass(entry) else None


def help_of(kind: type[Question[Any]]) -> str:
    """The sentence that says what *kind* asks."""
    return " ".join(inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].split())


def is_about_run(kind: Any) -> bool:
    """Whether *kind* cannot be asked without a run."""
    return any(field.name == "run" and field.default is MISSING for field in fields(kind))


def answer_of(kind: type[Question[Any]]) -> type[Any]:
    """The dataclass of the answers to *kind*."""
    bases = getattr(kind, "__orig_bases__", ())
    answer: type[Any] = next(
        get_args(base)[0]
        for base in bases
        if isinstance(get_origin(base), type) and issubclass(get_origin(base), Question)
    )
    return answer


def runs_of(question: Question[Any]) -> tuple[str, ...]:
    """The names of the runs and graphs that *question* is about."""
    names = (
        getattr(question, field.name) for field in fields_of(type(question)) if field.about.is_run
    )
    return tuple(name for name in names if name)


def table_of(kind: type[Question[Any]]) -> Field | None:
    """The field of the answer to *kind* that is its table, if it has one."""
    if kind.shapes:
        return None
    lists = [field for field in fields_of(answer_of(kind)) if row_kind(field.kind) is not None]
    return next((field for field in lists if kind.table in ("", field.name)), None)


def shapes_of(kind: type[Question[Any]]) -> tuple[str, ...]:
    """The names of the objects of JSON that *kind* may answer."""
    return kind.shapes or (answer_of(kind).__name__,)


def question_of(kind: type[AnyQuestion], values: Mapping[str, Any]) -> AnyQuestion:
    """The question whose parameters are among *values*, those of a command by name."""
    return kind(
        **{
            field.name: _value(field.kind, values[field.name])
            for field in fields_of(kind)
            if field.name in values
        }
    )


def _value(kind: Any, value: Any) -> Any:
    """Choices of a command are texts; a question has the enum."""
    return kind(value) if isinstance(kind, type) and issubclass(kind, Enum) else value
