"""The result of a search as JSON."""

from __future__ import annotations

from divergraph.present.json.shapes import Json, number
from divergraph.submodel.minimize.minimize_run import MinimalPart, Minimized
from divergraph.submodel.minimize.verdicts import Probe


def minimized_json(run: str, result: Minimized) -> dict[str, Json]:
    """``{run, oracle, ops, minimal, bundle, parts, probes, calls, searched, note, stopped,
    rate}``; ``ops``, ``minimal`` and ``bundle`` are those of the first part."""
    first = result.parts[0] if result.parts else None
    return {
        "run": run,
        "oracle": result.oracle,
        "ops": [] if first is None else list(first.ops),
        "minimal": None if first is None else first.found.minimal,
        "bundle": None if first is None or first.bundle is None else str(first.bundle),
        "parts": [_part(part) for part in result.parts],
        "probes": [_probe(probe) for probe in result.probes],
        "calls": result.calls,
        "searched": result.ops,
        "note": result.note,
        "stopped": result.stopped,
        "rate": number(result.rate),
    }


def _part(part: MinimalPart) -> Json:
    return {
        "ops": list(part.ops),
        "starts": list(part.selection.starts),
        "ends": list(part.selection.ends),
        "inputs": [tensor.name for tensor in part.selection.inputs],
        "outputs": [tensor.name for tensor in part.selection.outputs],
        "variant": part.found.variant.value,
        "minimal": part.found.minimal,
        "why": part.found.why,
        "said": part.judgement.detail,
        "error": number(part.judgement.error),
        "limit": number(part.judgement.limit),
        "probe": part.found.probe,
        "bundle": None if part.bundle is None else str(part.bundle),
    }


def _probe(probe: Probe) -> Json:
    return {
        "number": probe.number,
        "parent": probe.parent,
        "why": probe.why,
        "ops": probe.ops,
        "variant": probe.variant.value,
        "verdict": probe.verdict.value,
        "said": probe.judgement.detail,
        "error": number(probe.judgement.error),
        "limit": number(probe.judgement.limit),
        "calls": probe.calls,
        "known": probe.known,
        "seconds": round(probe.seconds, 3),
    }
