"""The comparison of two dumps: one run, or one for each of many ranks and steps."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from divergraph.api.arguments import (
    AnyPath,
    JudgingOptions,
    PlaceOptions,
    WorkerOptions,
    optional_path,
    root_cause_of,
    word,
    workers_of,
)
from divergraph.api.progress import ProgressOption, telling
from divergraph.api.runs.compared_run import ComparedRun
from divergraph.api.store import AnyStore, opened_for_keeping
from divergraph.comparison import CompareRequest
from divergraph.comparison import compare as compared
from divergraph.comparison.again import analysed_again
from divergraph.comparison.chosen_places import Chosen
from divergraph.comparison.keep_run import analyse_stored, compare_into
from divergraph.comparison.many_runs import ManyRuns
from divergraph.comparison.many_runs import compare_many as compared_many
from divergraph.comparison.observed_run import Undumped
from divergraph.comparison.part_of_places import compare_part
from divergraph.inputs.sources import dump_of
from divergraph.jobs.progress import Progress
from divergraph.rootcause.options import MethodChoice, RootCauseOptions
from graphstore.contract import GraphStore, RunData
from graphstore.entry_names import check_new_name
from graphstore.errors import InputError
from graphstore.model import GUILTY, SUSPECT
from importers.dumps.contract import DumpChoice


class CompareOptions(PlaceOptions, JudgingOptions, WorkerOptions, total=False):
    """The options of a comparison; ``compare`` says what each means."""

    device_graph: AnyPath | None
    thresholds: AnyPath | None
    match: AnyPath | None
    undumped_outputs: AnyPath | None
    undumped_graph: AnyPath | None
    weights: AnyPath | None
    method: str


def compare(
    golden: AnyPath,
    golden_dump: AnyPath | None,
    device: AnyPath,
    device_dump: AnyPath | None,
    *,
    name: str | None = None,
    store: AnyStore | None = None,
    replace: bool = False,
    device_graph: AnyPath | None = None,
    time: str | None = None,
    rank: int | None = None,
    model_id: int | None = None,
    step: int | None = None,
    thresholds: AnyPath | None = None,
    match: AnyPath | None = None,
    undumped_outputs: AnyPath | None = None,
    undumped_graph: AnyPath | None = None,
    weights: AnyPath | None = None,
    method: str = "auto",
    suspect: float = SUSPECT,
    guilty: float = GUILTY,
    precision: str = "auto",
    memory: int = 1024,
    jobs: int | None = None,
    cluster: str | None = None,
    resume: bool = True,
    progress: ProgressOption = None,
) -> ComparedRun:
    """Compare two dumps tensor by tensor and find where the error starts.

    Args:
        golden: the original model's file.
        golden_dump: its dump, a folder of ``.npy`` files or as *device_dump*; None where *golden*
            is msprobe's folder, which is both, and so is *device*.
        device: the device's graph, or a folder of ``ge_proto_*`` files to choose from.
        device_dump: the device's dump, at any level of time/device/model/id/step.
        name: the run's name; default: ``run``, in a store a fresh one.
        store: where to keep the run: an open store, a folder or a URL. Without one it is kept
            nowhere until ``save``. A run in which nothing could be compared is not kept.
        replace: overwrite a run of that name.
        device_graph: the file to take of the folder *device*.
        time: of several dump times (YYYYMMDDHHMMSS), this one.
        rank: of several ranks or devices, this one; so *model_id* and *step*.
        thresholds: limits, as a TOML file.
        match: pinned and forbidden matches, as a TOML file.
        undumped_outputs: the outputs of the device's run without dumping, a ``.npy``, ``.npz`` or
            dump file or a folder of them; ``analysis.observed`` then says whether the dumped run
            is that run.
        undumped_graph: the device's graph of the run without dumping, for what it fused otherwise.
        weights: those of a golden Caffe net, if they do not lie beside it under its name.
        method: ``root-cause`` runs every original op on the device's own inputs, ``thresholds``
            goes by limits alone, ``auto`` takes the first where the golden model can be run.
        suspect: introduced error over noise floor from which an op is suspect.
        guilty: introduced error over noise floor from which it is an origin.
        precision: the device's arithmetic: ``fp32``, ``hf32``, ``tf32``, ``fp16``, ``bf16``,
            ``int8``; ``auto`` finds it from the dump.
        memory: MiB of tensors and weights held at once when ops are run again.
        jobs: worker processes; default: as many as the work is worth.
        cluster: a Dask cluster to work on: ``tcp://host:8786``, ``local`` or ``local:N``.
        resume: continue a comparison that was killed.
        progress: True for a bar, or a function called with (stage, done, total).

    Raises:
        InputError: a path or option cannot be used, or no dump file fits its graph.
        StoreError: the store cannot be written.

    >>> import divergraph as dg
    >>> data = dg.demo_data()
    >>> run = dg.compare(data.golden, data.golden_dump, data.device, data.device_dump)
    >>> run.verdict.value, run.kept
    ('diverged', False)
    """
    request = _request(
        golden, golden_dump, device, device_dump,
        device_graph=device_graph, time=time, rank=rank, model_id=model_id, step=step,
        thresholds=thresholds, match=match, undumped_outputs=undumped_outputs,
        undumped_graph=undumped_graph, weights=weights, method=method, suspect=suspect,
        guilty=guilty, precision=precision, memory=memory, jobs=jobs, cluster=cluster,
        resume=resume,
    )  # fmt: skip
    return compared_run(request, name, store, progress, replace_it=replace)


def compared_run(
    request: CompareRequest,
    name: str | None,
    store: AnyStore | None,
    progress: ProgressOption,
    *,
    replace_it: bool,
) -> ComparedRun:
    """The run of *request*, kept in *store* if there is one."""
    with telling(progress) as reporting:
        if store is None:
            if name is not None:
                check_new_name(name)
            data = compared(replace(request, name=name or request.name), reporting)
            return ComparedRun(data.run.name, data=data)
        target = opened_for_keeping(store)
        data, is_stored = compare_into(
            target, request, name=name, replace_it=replace_it, progress=reporting
        )
    return ComparedRun(data.run.name, store=target, data=data, kept=is_stored)


def compare_many(
    golden: AnyPath,
    golden_dump: AnyPath | None,
    device: AnyPath,
    device_dump: AnyPath | None,
    *,
    store: AnyStore,
    ranks: str | Iterable[int] | None = None,
    steps: str | Iterable[int] | None = None,
    name: str | None = None,
    replace: bool = False,
    progress: ProgressOption = None,
    **options: Unpack[CompareOptions],
) -> ManyRuns:
    """Compare every rank and step, and keep a run ``NAME.rank0.step3`` of each in *store*.

    *ranks* and *steps* are ``"all"``, a text such as ``"0,1,4-7"``, or numbers. The other arguments
    are those of ``compare``. A place that cannot be compared has a problem in its result; the
    others go on.

    Raises:
        InputError: no such ranks or steps, or the first place already has a run.
    """
    request = _request(golden, golden_dump, device, device_dump, **options)
    if (ranks is not None and request.choice.rank is not None) or (
        steps is not None and request.choice.step is not None
    ):
        raise InputError("--rank and --ranks, or --step and --steps, cannot go together")
    target = opened_for_keeping(store)
    with telling(progress) as reporting:
        return compared_many(
            target,
            request,
            _chosen(ranks, "--ranks"),
            _chosen(steps, "--steps"),
            name=name,
            replace_it=replace,
            progress=reporting,
        )


def compare_own_part(
    golden: AnyPath,
    golden_dump: AnyPath | None,
    device: AnyPath,
    device_dump: AnyPath | None,
    **options: Unpack[CompareOptions],
) -> bool:
    """Compare the places that this process was given as a part of a server's job; False if it is
    no such part.

    Raises:
        InputError: a path or option cannot be used.
    """
    request = _request(golden, golden_dump, device, device_dump, **options)
    with telling(True) as reporting:
        return compare_part(request, reporting)


def analysed(
    source: GraphStore | RunData,
    name: str,
    options: RootCauseOptions,
    progress: Progress,
    thresholds: Path | None = None,
) -> RunData:
    """A run judged again, its root cause found again; in a store, the run is replaced."""
    if isinstance(source, RunData):
        return analysed_again(source, options, progress, thresholds)
    return analyse_stored(source, name, options, progress, thresholds)


def _chosen(numbers: str | Iterable[int] | None, option: str) -> Chosen | None:
    if numbers is None:
        return None
    return Chosen.parsed(numbers, option) if isinstance(numbers, str) else Chosen(tuple(numbers))


def _request(
    golden: AnyPath,
    golden_dump: AnyPath | None,
    device: AnyPath,
    device_dump: AnyPath | None,
    **options: Unpack[CompareOptions],
) -> CompareRequest:
    choice = DumpChoice(
        options.get("time"), options.get("rank"), options.get("model_id"), options.get("step")
    )
    return CompareRequest(
        Path(golden),
        dump_of(Path(golden), optional_path(golden_dump), "--golden-dump"),
        _device_graph(Path(device), optional_path(options.get("device_graph"))),
        dump_of(Path(device), optional_path(device_dump), "--device-dump"),
        optional_path(options.get("thresholds")),
        choice=choice,
        match=optional_path(options.get("match")),
        method=word(MethodChoice, options.get("method", "auto"), "method"),
        root_cause=root_cause_of(
            options.get("suspect", SUSPECT),
            options.get("guilty", GUILTY),
            options.get("precision", "auto"),
            options.get("memory", 1024),
        ),
        workers=workers_of(
            options.get("jobs"), options.get("cluster"), resume=options.get("resume", True)
        ),
        undumped=Undumped(
            optional_path(options.get("undumped_outputs")),
            optional_path(options.get("undumped_graph")),
        ),
        weights=optional_path(options.get("weights")),
    )


def _device_graph(device: Path, chosen: Path | None) -> Path:
    """The file the user chose, which may be named as it is in the folder."""
    if chosen is None:
        return device
    inside = device / chosen
    return inside if not os.path.exists(chosen) and os.path.exists(inside) else chosen  # noqa: PTH110
