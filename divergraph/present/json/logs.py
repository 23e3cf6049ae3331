"""The JSON of ``divergraph logs``."""

from __future__ import annotations

from divergraph.ask.single_ops.device_logs import LogAnswer
from divergraph.present.json.shapes import Json
from importers.device_log import LogEvent, LossScale


def logs_json(run: str | None, found: LogAnswer) -> dict[str, Json]:
    """Messages by op, and loss scales."""
    return {
        "run": run,
        "files": found.files,
        "ops": [
            {"op": each.op, "events": [_event(event) for event in each.events]}
            for each in found.ops
        ],
        "others": [_event(event) for event in found.others],
        "loss_scales": [_scale(scale) for scale in found.scales],
        "halved": [_scale(scale) for scale in found.halved],
    }


def _event(event: LogEvent) -> Json:
    return {
        "kind": event.kind.value,
        "path": str(event.path),
        "line": event.line,
        "time": event.time or None,
        "module": event.module or None,
        "text": event.text,
        "names": list(event.names),
        "task": event.task,
        "stream": event.stream,
    }


def _scale(scale: LossScale) -> Json:
    return {"path": str(scale.path), "line": scale.line, "value": scale.value}
