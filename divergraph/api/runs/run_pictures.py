"""Runs and their tensors as pictures, which notebooks show and files keep."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from divergraph.api.arguments import filter_of
from divergraph.api.asking import Asking
from divergraph.ask.tensor_values import TensorValues
from graphstore.filter import OpFilter

if TYPE_CHECKING:
    from divergraph.present.pictures.svg import SvgPicture


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ComparedTensor(TensorValues):
    """A device tensor and its golden one, which notebooks show as the picture of :meth:`plot`."""

    @classmethod
    def of(cls, values: TensorValues) -> ComparedTensor:
        """The same values."""
        return cls(**{field.name: getattr(values, field.name) for field in fields(values)})

    def plot(self) -> SvgPicture:
        """How large the errors are, where they are, and the device's values over golden's.

        Raises:
            InputError: the elements are no real numbers.

        >>> import divergraph as dg
        >>> dg.demo().tensor("LeNet/conv2/Conv2DRelu").plot().save("relu.svg").name
        'relu.svg'
        """
        from divergraph.ask.questions.tensor import TensorPicture
        from divergraph.present.pictures.svg import standing_alone, tensor_drawings
        from divergraph.present.pictures.tensor_pictures import tensor_pictures

        pictures = tensor_pictures(TensorPicture(self, self.picture(0)))
        drawings = [drawing for _, drawing in tensor_drawings(pictures)]
        title = f"{self.op}, {self.io.value} {self.port}: errors by size and place, values"
        return standing_alone(drawings, title)

    def _repr_svg_(self) -> str:
        return self.plot().svg


class RunPictures(Asking):
    """What a run looks like."""

    _name: str

    @abstractmethod
    def tensor(
        self,
        op: str,
        output: int = 0,
        *,
        input: int | None = None,  # noqa: A002 - the field's word
    ) -> ComparedTensor:
        """The values of an output (or *input*) of a device op."""

    def plot(
        self,
        metric: str = "relative_euclidean_distance",
        where: str | OpFilter | None = None,
        *,
        limit: float | None = None,
    ) -> SvgPicture:
        """A metric of all ops, or of those *where* takes, along the execution order; notebooks show
        it. *limit* is drawn in place of the run's.

        ``metric`` is one of the numbers of a comparison, or ``suspicion``, ``introduced`` or
        ``propagated``.

        Raises:
            InputError: nothing of this name is drawn.
            FilterError: the filter cannot be understood.

        >>> import divergraph as dg
        >>> dg.demo().plot("cosine_similarity", "type:Conv*").save("cosine.svg").name
        'cosine.svg'
        """
        from divergraph.present.pictures.metric_curve import metric_curve
        from divergraph.present.pictures.scatter_plot import scatter_plot
        from divergraph.present.pictures.svg import scatter, standing_alone

        parsed = filter_of(where)
        wanted = () if parsed is None else (parsed,)
        curve = metric_curve(self._asked(), self._name, metric, wanted)
        drawing = scatter(scatter_plot(curve, limit))
        return standing_alone([drawing], f"{self._name}: {drawing.words}")

    def plot_tensor(
        self,
        op: str,
        output: int = 0,
        *,
        input: int | None = None,  # noqa: A002 - the field's word
    ) -> SvgPicture:
        """The picture of one tensor's errors, as :meth:`ComparedTensor.plot`. Reads the dumps.

        Raises:
            UnknownNameError: no such op.
            InputError: as :meth:`tensor`, or the elements are no real numbers.
        """
        return self.tensor(op, output, input=input).plot()

    def plot_ranks(self) -> SvgPicture:
        """The layers of a job on its ranks, each coloured as its worst op; notebooks show it.

        Raises:
            InputError: the run is not one of a job of several ranks.
        """
        return self._state_map("ranks")

    def plot_model(self, *, last: int = 10) -> SvgPicture:
        """The *last* runs of this run's model beside each other: each original that was guilty or
        changed in one of them, coloured by its state in each; notebooks show it."""
        return self._state_map("model", last=last)

    def _state_map(self, question: str, **parameters: Any) -> SvgPicture:
        from divergraph.present.pictures.state_map import STATE_MAPS
        from divergraph.present.pictures.svg import standing_alone, state_map

        drawing = state_map(STATE_MAPS[question](self.ask(question, **parameters)))
        return standing_alone([drawing], f"{self._name}: {drawing.words}")
