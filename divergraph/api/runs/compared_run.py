"""A finished comparison: its answers, and what can be derived from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as dataclass_replace
from pathlib import Path
from typing import TYPE_CHECKING

from divergraph.api.arguments import AnyPath, optional_path, root_cause_of, side_of
from divergraph.api.progress import ProgressOption, telling
from divergraph.api.runs.run_answers import RunAnswers
from graphstore.entry_names import check_new_name
from graphstore.errors import InputError
from graphstore.model import GUILTY, SUSPECT, Side

if TYPE_CHECKING:
    from divergraph.api.store import AnyStore
    from divergraph.ask.model_parts import ModelParts, Submodel
    from divergraph.blame.attribution import Blame
    from divergraph.present.run_report import RunReport
    from divergraph.submodel.minimize.minimize_run import Minimized
    from graphstore.contract import RunData


class ComparedRun(RunAnswers):
    """A finished comparison of a golden and a device dump, by its name.

    ``divergraph.compare`` makes one, a store opens one that was kept. Ops are named by their id,
    or by a name that only one op has. All answers are frozen values.

    >>> import divergraph as dg
    >>> run = dg.demo()
    >>> run
    <Run 'demo': diverged, 1 origin>
    >>> run.verdict.value, run.counts.over
    ('diverged', 59)
    """

    def analyse(
        self,
        *,
        suspect: float = SUSPECT,
        guilty: float = GUILTY,
        precision: str = "auto",
        memory: int = 1024,
        thresholds: AnyPath | None = None,
        progress: ProgressOption = None,
    ) -> ComparedRun:
        """The run with its root cause found once more, by these limits; kept if this one is.

        Arguments are those of ``compare``. Models and dumps must lie where they were, but for
        *thresholds* of a run whose origins were found by thresholds.

        Raises:
            InputError: files are gone or others, or limits contradict each other.
            ExecutionError: the golden model cannot be run here.
        """
        from divergraph.api.compare import analysed

        options = root_cause_of(suspect, guilty, precision, memory)
        limits = optional_path(thresholds)
        with telling(progress) as reporting:
            if self._kept:
                data = analysed(self._asked(), self._name, options, reporting, limits)
                return ComparedRun(self._name, store=self._asked(), data=data)
            data = analysed(self.data, self._name, options, reporting, limits)
            return ComparedRun(self._name, data=data)

    def blame(
        self,
        others: Sequence[ComparedRun] = (),
        *,
        top: int = 10,
        outputs: Sequence[str] = (),
        exact: Sequence[str] = (),
        memory: int = 1024,
        progress: ProgressOption = None,
    ) -> Blame:
        """Which ops made the error of the golden model's outputs, and which to keep exact.

        *others* are runs of the same models on other inputs; *top* ops are kept at most;
        *outputs* are golden tensors to explain instead of the model's; *memory* in MiB.
        ``what_if`` says what would be left of the error if the device ops *exact* were exact.
        The shares are kept with the run.

        Raises:
            InputError: files are gone, or no output was compared.
            UnknownNameError: no such device op as one of *exact*.
            ExecutionError: the golden model cannot be run here.
        """
        from divergraph.api.runs.blame import blamed
        from divergraph.blame.run import BlameChoice

        options = root_cause_of(SUSPECT, GUILTY, "auto", memory)
        with telling(progress) as reporting:
            mine, more = self.data, [other.data for other in others]
            exact_ops = tuple(dict.fromkeys(map(self._device_op, exact)))
            choice = BlameChoice(top, outputs=tuple(outputs), exact=exact_ops)
            blame, data = blamed(mine, options, choice, reporting, more)
            self._replace(data)
        return blame

    def _device_op(self, name: str) -> str:
        from divergraph.ask.facts import resolve_op

        return resolve_op(self._asked(), self._name, name)

    def keep_list(self, blame: Blame, form: str) -> tuple[str, ...]:
        """The ops of *blame* to keep in higher precision, as lines of another tool's file.

        *form* is one of ``divergraph.api.keep_forms.KEEP_FORMS``: ``keep_dtype``,
        ``customize_dtypes`` (ATC), ``block_list`` (onnxconverter-common, ONNX Runtime, NNCF),
        ``layer_precisions`` (trtexec), ``quantization_overrides`` (QNN).
        """
        from divergraph.api.runs.blame import keep_list

        return keep_list(self.data, blame, form)

    def halved_constants(self, blame: Blame) -> tuple[str, ...]:
        """The Constant nodes that a converter turns into float16 although a node of the block list
        reads them: make them initializers first."""
        from divergraph.api.runs.blame import halved_constants

        return tuple(halved_constants(self.data, blame))

    def parts(self) -> ModelParts:
        """What chooses and writes parts of the golden model, step by step."""
        from divergraph.ask.model_parts import ModelParts

        return ModelParts.of(self.data)

    def submodel(
        self,
        starts: Sequence[str] = (),
        ends: Sequence[str] = (),
        output: AnyPath | None = None,
        *,
        form: str | None = None,
        check: bool = False,
        whole: bool = False,
        all_outputs: bool = False,
        smallest: bool = False,
        model: AnyPath | None = None,
        weights: AnyPath | None = None,
        progress: ProgressOption = None,
    ) -> Submodel:
        """The part of the model from the ops *starts* to the ops *ends*, both included.

        Written with its data into a new folder below *output*, if that is given, and run once with
        *check*. *form* is ``onnx``, ``tf``, ``caffe`` or ``ge``; default: the golden model's own.
        *whole* adds the rest of a fused op or loop; *smallest* starts where the fewest bytes go in.
        *model* and *weights* say where these files are now, if they were moved.

        Raises:
            UnknownNameError: no such op.
            InputError: files are gone, or the form is not that of the model.
        """
        with telling(progress) as reporting:
            parts = self.parts()
            parts.open(reporting, model=optional_path(model))
            return parts.cut(
                starts,
                ends,
                optional_path(output),
                form=form,
                check=check,
                whole=whole,
                all_outputs=all_outputs,
                smallest=smallest,
                weights=optional_path(weights),
                progress=reporting,
            )

    def minimize(
        self,
        oracle: str = "auto",
        output: AnyPath | None = None,
        *,
        starts: Sequence[str] = (),
        ends: Sequence[str] = (),
        budget: int | None = None,
        seconds: float | None = None,
        timeout: float = 600.0,
        jobs: int = 1,
        flaky: bool = False,
        variant: str = "auto",
        factor: float = 3.0,
        model: AnyPath | None = None,
        weights: AnyPath | None = None,
        fresh: bool = False,
        progress: ProgressOption = None,
    ) -> Minimized:
        """The smallest parts of the golden model that still fail, found by trying.

        *oracle* says whether a part fails: ``evidence``, ``device-model[:FILE]``,
        ``stand-in:fp16|int8|optimized``, ``command:'PROGRAM {bundle}'``. The search stops after
        *budget* calls of it or *seconds*; one call of a program takes *timeout* seconds at most,
        *jobs* run at the same time. *variant* is what parts are fed: ``golden``, ``device`` or
        ``auto``; *factor* noise floors an output may be off. Bundles of the parts found are written
        below *output*. The result is kept with the run.

        Raises:
            InputError: no oracle fits, or files are gone.
            ExecutionError: the oracle cannot run models here.
        """
        from divergraph.api.runs.minimize import minimize_request, with_search

        request = minimize_request(
            oracle, starts, ends, variant, budget, seconds, jobs, flaky, timeout, factor,
            optional_path(output), optional_path(weights), fresh,
        )  # fmt: skip
        with telling(progress) as reporting:
            parts = self.parts()
            parts.open(reporting, model=optional_path(model))
            minimized = parts.minimize(request, reporting)
            if not minimized.clean:
                self._replace(with_search(self.data, minimized))
        return minimized

    def save(
        self, store: AnyStore, name: str | None = None, *, replace: bool = False
    ) -> ComparedRun:
        """Keep the run in *store*, under *name* or its own; the kept run.

        Raises:
            NameTakenError: there is a run or graph of this name, and not *replace*.
            StoreError: the store cannot be written.

        >>> import divergraph as dg
        >>> dg.demo().save("runs", "lenet").kept
        True
        """
        from divergraph.api.store import opened_for_keeping

        chosen = name or self._name
        check_new_name(chosen)
        data = self.data
        data = dataclass_replace(data, run=dataclass_replace(data.run, name=chosen))
        target = opened_for_keeping(store)
        target.save_run(data, replace=replace)
        return ComparedRun(chosen, store=target, data=data)

    def report(self, path: AnyPath, kind: str | None = None) -> Path:
        """Write a report of a *kind*: csv, html, junit, markdown, parquet or sarif.

        Without *kind* the ending says it: .csv, .html, .xml, .md, .parquet, .sarif.

        Raises:
            InputError: no kind has this ending, or the file cannot be written.
        """
        from divergraph.present.destination import (
            REPORT_ENDINGS,
            ReportKind,
            ReportPlaces,
        )

        place = Path(path)
        chosen = kind or REPORT_ENDINGS.get(place.suffix.lower(), "")
        if chosen not in list(ReportKind):
            raise InputError(
                f"no report is called {chosen or place.suffix!r}",
                where=str(place),
                hint=f"kind= one of {', '.join(ReportKind)}, or a file ending in "
                f"{', '.join(REPORT_ENDINGS)}",
            )
        places = ReportPlaces({ReportKind(chosen): place})
        places.check()
        places.write(self._report(), lambda: self.data)
        return place

    def export(self, path: AnyPath, side: Side | str = "device") -> Path:
        """Write ops and answers as ``.json``, ``.csv`` or ``.graphml``, or the picture of its
        graphs as ``.html``, by the ending of *path*."""
        from divergraph.present.export_file import export

        export(self._asked(), self._name, Path(path), side_of(side))
        return Path(path)

    def _replace(self, data: RunData) -> None:
        """Save the run with what was found since, wherever it is kept."""
        self._data = data
        if self._store is not None:
            self._store.save_run(data, replace=True)

    def _report(self) -> RunReport:
        from divergraph.present.run_report import stored_report

        return stored_report(self._asked(), self._name, self._data)
