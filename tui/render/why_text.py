"""Why an op is judged as it is, and what to do about the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from textual.content import Content

from divergraph.text.printable import printable
from graphstore.model import Method
from tui.render.hanging import hung
from tui.style import theme

if TYPE_CHECKING:
    from divergraph.ask.advisor.advisor import Advice
    from graphstore.model import Finding, Run

_BY_LIMITS = (
    "an op is an origin if an output is over a limit and all it reads is within; "
    "`divergraph analyse` runs the original ops, and says what each adds by itself"
)


def why_text(run: Run, advice: Advice, op: str, width: int) -> Content:
    """What to do about the run, most important first; then how *op* was judged, if one is named."""
    lines = [Content.styled("What to do next", theme.HEADING)]
    for number, finding in enumerate(advice.findings, 1):
        head = f"  {number}  " if len(advice.findings) > 1 else "  "
        lines += hung(head, f"{finding.sentence}.", width)
    if op:
        lines += [Content(""), Content.styled(f"Why {printable(op)} is judged so", theme.HEADING)]
        for line in _judged(run, op):
            lines += hung("  ", line, width)
    return Content("\n").join(lines)


def remedy_of(advice: Advice, op: str) -> str:
    """What to do about *op*; empty if the advice says nothing of it."""
    remedies = (_remedy(finding) for finding in advice.findings if finding.op == op)
    return next(filter(None, remedies), "")


def _remedy(finding: Finding) -> str:
    remedy = finding.evidence.get("remedy")
    return remedy if isinstance(remedy, str) else ""


def _judged(run: Run, op: str) -> Iterator[str]:
    # the overview takes the remedy from here, and its first frame needs no question answered
    from divergraph.ask.reckonings import NOT_KEPT, reckoning_lines, reckonings_of
    from divergraph.ask.sentences import limits_text

    if run.method is not Method.ROOT_CAUSE:
        yield _BY_LIMITS
        return
    reckonings = [reckoning for (name, _), reckoning in reckonings_of(run).items() if name == op]
    if not reckonings:
        yield NOT_KEPT
    for judged in reckonings:
        if len(reckonings) > 1:
            yield f"output {judged.port}:"
        yield from reckoning_lines(judged)
    yield limits_text(run.analysis)
