"""What of a run is sent as a file: its reports, and the values of a tensor."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import IO, Annotated, Any

import numpy as np
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from divergraph.api.answers import TensorValues
from divergraph.ask.question import OneSide, OpName, Parameter, RunName, TargetName
from divergraph.ask.tensor_values import InputNumber, OutputNumber
from divergraph.files.npy_file import write_npy_to
from divergraph.present.destination import ReportKind, write_report
from divergraph.present.export_file import export
from divergraph.present.run_report import stored_report
from divergraph.server.answering import Answering, check_role, is_known
from divergraph.server.kept_answers import WrittenFile
from divergraph.server.parameters import values_of
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation
from graphstore.model import Side
from graphstore.own_folder import OwnFolder

REPORT_TYPES = {
    ReportKind.CSV: "text/csv",
    ReportKind.HTML: "text/html",
    ReportKind.JUNIT: "application/xml",
    ReportKind.MARKDOWN: "text/markdown",
    ReportKind.PARQUET: "application/vnd.apache.parquet",
    ReportKind.SARIF: "application/sarif+json",
}
ARRAY_TYPE = "application/octet-stream"
EXPORT_TYPES = {
    "csv": "text/csv",
    "graphml": "application/graphml+xml",
    "html": "text/html",
    "json": "application/json",
}
_ENDINGS = {ReportKind.JUNIT: "xml", ReportKind.MARKDOWN: "md"}


@dataclass(frozen=True, slots=True)
class WantedReport:
    """A report of a run; ``excel`` as on the command line."""

    run: RunName
    excel: Annotated[bool, Parameter("Begin the CSV with a byte order mark, for Excel.")] = False


@dataclass(frozen=True, slots=True)
class WantedExport:
    """A run or graph as a file; of a run the graph of ``side``."""

    run: TargetName
    side: OneSide = Side.DEVICE


@dataclass(frozen=True, slots=True)
class WantedArray:
    """The values of one side of a tensor; output 0 if neither output nor input is named."""

    run: RunName
    op: OpName
    side: OneSide = Side.DEVICE
    output: OutputNumber = None
    input_: InputNumber = None


@dataclass(frozen=True, slots=True)
class WantedArrays:
    """The values of both sides of a tensor; output 0 if neither output nor input is named."""

    run: RunName
    op: OpName
    output: OutputNumber = None
    input_: InputNumber = None


class DownloadRoutes:
    """Files that are written for whoever asks, and kept nowhere."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    async def report(self, request: Request) -> Response:
        """A report, the bytes that the command writes."""
        check_role(request, UserRole.READER)
        name = request.path_params["kind"]
        if name not in list(ReportKind):
            raise HTTPException(404, f"no report is called {name!r}")
        kind = ReportKind(name)
        wanted = _wanted(WantedReport, request)
        store = self._answering.store

        def write(file: IO[bytes]) -> None:
            report = stored_report(store, wanted.run)
            write_report(file, kind, report, lambda: store.run_data(wanted.run), mark=wanted.excel)

        named = f"report.{_ENDINGS.get(kind, kind.value)}"
        about = (wanted, kind)
        return await self._sent(request, about, wanted.run, write, REPORT_TYPES[kind], named)

    async def export(self, request: Request) -> Response:
        """A run or graph in the format of other tools, the bytes that the command writes."""
        check_role(request, UserRole.READER)
        kind = request.path_params["kind"]
        if kind not in EXPORT_TYPES:
            raise HTTPException(404, f"nothing is exported as {kind!r}")
        wanted = _wanted(WantedExport, request)
        named = f"export.{kind}"

        def write(file: IO[bytes]) -> None:
            with OwnFolder("export") as folder:
                path = folder / named
                export(self._answering.store, wanted.run, path, Side(wanted.side))
                with path.open("rb") as written:
                    shutil.copyfileobj(written, file)

        about = (wanted, kind)
        return await self._sent(request, about, wanted.run, write, EXPORT_TYPES[kind], named)

    async def array(self, request: Request) -> Response:
        """The values of a tensor, as ``.npy``."""
        check_role(request, UserRole.ANALYST)
        wanted = _wanted(WantedArray, request)

        def write(file: IO[bytes]) -> None:
            self._answering.check_files(wanted.run)
            values = self._values(wanted)
            write_npy_to(file, values.plain(Side(wanted.side)))

        return await self._sent(request, wanted, wanted.run, write, ARRAY_TYPE, "tensor.npy")

    async def arrays(self, request: Request) -> Response:
        """The values of both sides of a tensor and its layout, as ``.npz``."""
        check_role(request, UserRole.ANALYST)
        wanted = _wanted(WantedArrays, request)

        def write(file: IO[bytes]) -> None:
            self._answering.check_files(wanted.run)
            values = self._values(wanted)
            device, golden = (values.plain(side) for side in (Side.DEVICE, Side.GOLDEN))
            np.savez(file, device=device, golden=golden, layout=np.array(values.layout or ""))

        return await self._sent(request, wanted, wanted.run, write, ARRAY_TYPE, "tensor.npz")

    def _values(self, wanted: WantedArray | WantedArrays) -> TensorValues:
        tensors = self._answering.tensors
        return tensors.values(wanted.run, wanted.op, wanted.output, wanted.input_)

    async def _sent(
        self,
        request: Request,
        about: object,
        run: str,
        write: Callable[[IO[bytes]], None],
        media_type: str,
        named: str,
    ) -> Response:
        work = partial(self._made, request.headers, about, run, write, media_type, named)
        return await self._answering.files.answer(request, work)

    def _made(
        self,
        headers_sent: Headers,
        about: object,
        run: str,
        write: Callable[[IO[bytes]], None],
        media_type: str,
        named: str,
        _cancellation: Cancellation,
    ) -> Response:
        headers = {"ETag": self._answering.tag(about, run)}
        if is_known(headers_sent, headers["ETag"]):
            return Response(status_code=304, headers=headers)
        # never shown as a page of ours, whatever names it holds
        headers["Content-Disposition"] = f'attachment; filename="{named}"'
        return WrittenFile(write, headers, media_type)


def _wanted(kind: type, request: Request) -> Any:
    path_values = {"run": str(request.path_params["run"])}
    return kind(**values_of(kind, request.query_params.multi_items(), path_values))
