"""A metric of a run's ops along the execution order, with a limit one may move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from starlette.datastructures import QueryParams

from divergraph.present.pictures.metric_curve import PLOTTED, USUAL, MetricCurve, metric_curve
from divergraph.present.pictures.scales import beyond_filter
from divergraph.present.pictures.scatter_plot import scatter_plot
from divergraph.present.pictures.svg import scatter
from divergraph.server.pages.links import Links
from divergraph.text.numbers import short
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.filter import OpFilter


@dataclass(frozen=True, slots=True)
class RunPlot:
    """The ``drawing``, of so many points ``shown``. ``limit`` is the one asked for or the run's,
    beyond which are ``beyond`` of the ops; ``link`` lists those. Without a limit it lists all."""

    curve: MetricCurve
    drawing: Markup
    shown: int
    limit: str
    beyond: int
    link: str

    @property
    def metrics(self) -> Mapping[str, str]:
        """What can be plotted, with its name."""
        return PLOTTED

    def query(self) -> Mapping[str, object]:
        """It as parameters of an address; what is usual is left out."""
        metric = "" if self.curve.metric == USUAL else self.curve.metric
        usual = self.curve.limits.get("fail")
        is_usual = usual is not None and self.limit == short(usual, ".6g")
        return {"plot": metric, "limit": "" if is_usual else self.limit}


def run_plot(
    store: GraphStore, run: str, links: Links, params: QueryParams, wanted: Sequence[OpFilter]
) -> RunPlot:
    """The plot the parameters ask for, of the ops that all filters *wanted* take.

    Raises:
        InputError: no such metric, or the limit is no number.
    """
    curve = metric_curve(store, run, params.get("plot") or USUAL, wanted)
    limit = _number(params.get("limit", "").strip())
    plot = scatter_plot(curve, limit)
    drawing = scatter(plot, lambda op: links.op(run, op)).inline()
    limit = curve.limits.get("fail") if limit is None else limit
    count = 0 if limit is None else int(curve.beyond(limit).sum())
    texts = [params.get("where", ""), "" if limit is None else beyond_filter(curve.metric, limit)]
    kept = {name: params.get(name, "") for name in ("state", "type")}
    where = " ".join(filter(None, texts))
    return RunPlot(
        curve,
        Markup(drawing),  # noqa: S704 - escaped where it is made
        len(plot.points),
        "" if limit is None else short(limit, ".6g"),
        count,
        f"{links.run(run, where=where, **kept)}#ops",
    )


def _number(text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError("the limit is no number", where="limit", hint="as 0.01")
    return value
