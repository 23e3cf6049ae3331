"""The example that comes with the package: a training step of LeNet on a faulty device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from divergraph.api.compare import compared_run
from divergraph.api.progress import ProgressOption, telling
from divergraph.api.runs.compared_run import ComparedRun
from divergraph.api.store import AnyStore
from divergraph.comparison.demo import demo_folder, demo_request


@dataclass(frozen=True, slots=True)
class DemoData:
    """The four paths of a comparison, and the folder they are in."""

    folder: Path
    golden: Path
    golden_dump: Path
    device: Path
    device_dump: Path


def demo_data(*, fault: bool = True) -> DemoData:
    """The example's files, unpacked once into the user's cache; without *fault* a good device's.

    Raises:
        InputError: the cache folder cannot be written.

    >>> import divergraph as dg
    >>> dg.demo_data().golden.name
    'model.ckpt.meta'
    """
    request = demo_request("npu_fault" if fault else "npu_clean")
    return DemoData(
        demo_folder(), request.golden, request.golden_dump, request.device, request.device_dump
    )


def demo(store: AnyStore | None = None, *, progress: ProgressOption = None) -> ComparedRun:
    """The example compared, as the run ``demo``; kept in *store* if one is given.

    >>> import divergraph as dg
    >>> dg.demo().counts.compared
    126
    """
    with telling(progress) as reporting:
        reporting.stage("unpacking the data")
        return compared_run(demo_request(), "demo", store, reporting, replace_it=True)
