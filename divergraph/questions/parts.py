"""Which part of a model is cut out, and which one was found to fail."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from divergraph.api.answers import ConsistencyReport
from divergraph.api.runs.compared_run import ComparedRun
from divergraph.api.runs.model_parts import ModelParts, Submodel, asking, is_graph
from divergraph.ask.question import Parameter, Question, RunName, TargetName
from divergraph.present.declared_answer import WrittenQuestion
from divergraph.present.json.part import part_json
from divergraph.present.json.shapes import Json
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import NotDoneError


@dataclass(frozen=True, slots=True)
class SubmodelQuestion(WrittenQuestion[Submodel]):
    """Which part of the golden model, or of an imported graph, lies between these ops? Reads the
    models of a run; writes nothing."""

    name = "submodel"
    graphs = True
    reads_files = True
    shapes = ("PartAnswer",)

    run: TargetName
    starts: Annotated[
        tuple[str, ...], Parameter("First op; repeat it.", name="start", is_argument=False)
    ]
    ends: Annotated[
        tuple[str, ...], Parameter("Last op; repeat it.", name="end", is_argument=False)
    ]
    form: Annotated[
        str | None,
        Parameter(
            "What to write; default: the golden model's own form.",
            name="format",
            choices=("onnx", "tf", "caffe", "ge"),
        ),
    ] = None
    whole: Annotated[bool, Parameter("Add the rest of a fused op or loop instead of refusing.")] = (
        False
    )
    all_outputs: Annotated[bool, Parameter("Make every tensor that is used outside an output.")] = (
        False
    )
    smallest: Annotated[bool, Parameter("Start where the fewest bytes go in.")] = False

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> Submodel:
        """The part, or why it may not be cut so.

        Raises:
            InputError: files are gone, or the form is not that of the model.
        """
        if is_graph(store, self.run):
            cut = ModelParts.of_graph(asking(store), self.run).cut
        else:
            cut = ComparedRun(self.run, store=store).submodel
        return cut(
            self.starts,
            self.ends,
            form=self.form,
            whole=self.whole,
            all_outputs=self.all_outputs,
            smallest=self.smallest,
        )

    def json(self, answer: Submodel) -> Mapping[str, Json]:
        """What ``submodel`` prints without ``-o``."""
        return part_json(answer.selection)


@dataclass(frozen=True, slots=True)
class KeptMinimizeQuestion(WrittenQuestion[str]):
    """Which smallest parts that still fail did the last search find?"""

    name = "minimize"
    shapes = ("MinimizeAnswer",)

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> str:
        """What ``minimize`` printed.

        Raises:
            NotDoneError: nobody has searched this run.
        """
        return _done("minimize", self.run, store.run(self.run).analysis.minimized)

    def json(self, answer: str) -> Mapping[str, Json]:
        """What ``minimize`` printed."""
        return _as_now(answer, self.run)


@dataclass(frozen=True, slots=True)
class KeptBlameQuestion(WrittenQuestion[str]):
    """Which ops made the error of the outputs, by the last blame?"""

    name = "blame"
    shapes = ("BlameAnswer",)

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> str:
        """What ``blame`` printed.

        Raises:
            NotDoneError: nobody has asked that of this run.
        """
        return _done("blame", self.run, store.run(self.run).analysis.blamed)

    def json(self, answer: str) -> Mapping[str, Json]:
        """What ``blame`` printed."""
        return _as_now(answer, self.run)


@dataclass(frozen=True, slots=True)
class ConsistencyQuestion(Question[ConsistencyReport]):
    """Check the device's dump of a run by itself: NaN, overflows, inputs that are not what their
    producers put out. Reads the dump."""

    name = "consistency"
    command = "consistency"
    reads_files = True

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> ConsistencyReport:
        """What it shows.

        Raises:
            InputError: the dump is gone.
        """
        return ComparedRun(self.run, store=store).consistency()


def _done(command: str, run: str, kept: str) -> str:
    if not kept:
        hint = f"`divergraph {command} {run}` does; a server runs it as a job"
        raise NotDoneError(f"{command} has not been run on {run!r}", hint=hint)
    return kept


def _as_now(answer: str, run: str) -> Mapping[str, Json]:
    """A kept answer of a run that may have another name now."""
    return {**json.loads(answer), "run": run}
