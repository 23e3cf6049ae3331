"""The OpenAPI description: made of the commands' options and of the schemas of their JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeAlias

import click

from divergraph.present.schema import answer_schemas
from divergraph.server.jobs.job_table import QueuedState
from divergraph.server.jobs.requests import JOB_COMMANDS
from divergraph.server.parameters import is_required, parameters_of, public_name
from divergraph.server.problems import MEDIA_TYPE
from divergraph.server.route_table import QUESTIONS, VERSION, QuestionRoute
from divergraph.version import __version__

Schema: TypeAlias = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_PROBLEM: Schema = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "hint": _TEXT,
        "where": _TEXT,
        "near": {"type": "array", "items": _TEXT},
    },
}
_CYPHER: Schema = {
    "type": "object",
    "required": ["cypher"],
    "additionalProperties": False,
    "properties": {
        "cypher": {**_TEXT, "pattern": r"\S", "description": "A text, or the name of a query."},
        "run": {"type": ["string", "null"], "description": "The run or graph it is about."},
        "parameters": {"type": "object"},
        "limit": {"type": "number", "exclusiveMinimum": 0},
        "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 300},
    },
}
_NEW_NAME: Schema = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {"name": _TEXT},
}

_MOMENT: Schema = {"type": ["number", "null"], "description": "Seconds since 1970."}
_COUNT: Schema = {"type": "integer"}
_MAYBE_COUNT: Schema = {"type": ["integer", "null"]}
_JOB_FIELDS: Schema = {
    **dict.fromkeys(("id", "command", "owner", "error", "stage"), _TEXT),
    "state": {"enum": [state.value for state in QueuedState]},
    **dict.fromkeys(("asked", "started", "ended"), _MOMENT),
    **dict.fromkeys(("attempts", "done", "problems"), _COUNT),
    **dict.fromkeys(("exit_code", "total"), _MAYBE_COUNT),
    "made": {"type": "array", "items": _TEXT, "description": "Runs and graphs it wrote."},
}
_JOB: Schema = {
    "type": "object",
    "required": list(_JOB_FIELDS),
    "additionalProperties": False,
    "properties": _JOB_FIELDS,
}
_JOB_REQUEST: Schema = {
    "type": "object",
    "required": ["command"],
    "additionalProperties": False,
    "properties": {
        "command": {"enum": list(JOB_COMMANDS)},
        "options": {"type": "object", "description": "By name, as on the command line."},
    },
}


@cache
def openapi() -> str:
    """The description, as JSON."""
    paths: dict[str, Schema] = {}
    kinds = {route.command for route in QUESTIONS} | {"query", "rename", "delete"}
    schemas, answers = answer_schemas(sorted(kinds))
    for route in QUESTIONS:
        paths.setdefault(VERSION + route.path, {})["get"] = _asked(route, answers)
    query = answers["query"]
    paths[f"{VERSION}/queries"] = {"get": _operation("Which queries have a name?", [], query[1])}
    paths[f"{VERSION}/query"] = {"post": _posted("The rows of a Cypher query.", _CYPHER, query[0])}
    paths[f"{VERSION}/plan"] = {"post": _posted("The plan of a Cypher query.", _CYPHER, query[2])}
    run = [_in_path("run")]
    for kind in ("runs", "graphs"):
        place = paths.setdefault(f"{VERSION}/{kind}/{{run}}", {})
        place["delete"] = _operation("Remove it.", run, answers["delete"][0])
        paths[f"{VERSION}/{kind}/{{run}}/name"] = {
            "put": {
                **_posted("Give it another name.", _NEW_NAME, answers["rename"][0]),
                "parameters": run,
            }
        }
    paths |= _jobs()
    described = {
        "openapi": "3.1.0",
        "info": {"title": "Divergraph", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Problem": _PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    return json.dumps(described, indent=1, ensure_ascii=False) + "\n"


def _jobs() -> dict[str, Schema]:
    """The addresses of jobs."""
    job, place = [_in_path("job")], f"{VERSION}/jobs"
    listed = {"type": "object", "properties": {"jobs": {"type": "array", "items": _JOB}}}
    stopped = {"type": "object", "properties": {"stopped": _TEXT}}
    added = _posted("Run a command as a job.", _JOB_REQUEST, _JOB)
    added["responses"]["202"] = added["responses"].pop("200")
    told = _operation("What the job tells, as it does.", job, _TEXT)
    told["responses"]["200"]["content"] = {"text/event-stream": {"schema": _TEXT}}
    return {
        place: {"get": _operation("The last jobs, newest first.", [], listed), "post": added},
        f"{place}/{{job}}": {
            "get": _operation("A job, and how far it is.", job, _JOB),
            "delete": _operation("Stop it.", job, stopped),
        },
        f"{place}/{{job}}/events": {"get": told},
    }


def _asked(route: QuestionRoute, answers: Mapping[str, list[Schema]]) -> Schema:
    in_path = re.findall(r"\{(\w+)\}", route.path)
    parameters = []
    for name, param in parameters_of(route.question, route.command).items():
        if name in in_path:
            parameters.append(_in_path(name))
        else:
            required = is_required(route.question, name)
            parameters.append(_parameter(param, required=required))
    summary = " ".join((route.question.__doc__ or "").split())
    return _operation(summary, parameters, answers[route.command][route.answer])


def _in_path(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": {**_TEXT, "minLength": 1}}


def _parameter(param: click.Parameter, *, required: bool) -> Schema:
    said = getattr(param, "help", None)
    return {
        "name": public_name(param),
        "in": "query",
        "required": required,
        "schema": _schema(param.type),
        **({"description": said} if said else {}),
    }


def _schema(kind: click.ParamType[Any]) -> Schema:
    if isinstance(kind, click.Choice):
        return {"enum": list(kind.choices)}
    if isinstance(kind, click.IntRange | click.FloatRange):
        whole = isinstance(kind, click.IntRange)
        ends: Schema = {}
        if kind.min is not None:
            ends["exclusiveMinimum" if kind.min_open else "minimum"] = kind.min
        if kind.max is not None:
            ends["exclusiveMaximum" if kind.max_open else "maximum"] = kind.max
        return {"type": "integer" if whole else "number", **ends}
    if isinstance(kind, click.types.BoolParamType):
        return {"type": "boolean"}
    return _TEXT


def _operation(summary: str, parameters: list[Schema], answer: Schema) -> Schema:
    problem = {"$ref": "#/components/schemas/Problem"}
    return {
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer.", "content": _content("application/json", answer)},
            "default": {
                "description": "Why there is none.",
                "content": _content(MEDIA_TYPE, problem),
            },
        },
    }


def _posted(summary: str, body: Schema, answer: Schema) -> Schema:
    content = {"required": True, "content": _content("application/json", body)}
    return {**_operation(summary, [], answer), "requestBody": content}


def _content(media_type: str, schema: Schema) -> Schema:
    return {media_type: {"schema": schema}}
