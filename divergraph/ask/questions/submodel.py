"""Which part of a model is cut out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.model_parts import ModelParts, Submodel, asking, is_graph
from divergraph.ask.question import Parameter, Question, TargetName
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore


@dataclass(frozen=True, slots=True)
class SubmodelQuestion(Question[Submodel]):
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
            parts = ModelParts.of_graph(asking(store), self.run)
        else:
            parts = ModelParts.of(store.run_data(self.run))
            parts.open()
        return parts.cut(
            self.starts,
            self.ends,
            form=self.form,
            whole=self.whole,
            all_outputs=self.all_outputs,
            smallest=self.smallest,
        )


QUESTION = SubmodelQuestion
