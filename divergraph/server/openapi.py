"""The OpenAPI description: made of the commands' options and of the schemas of their JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeAlias

import click

from divergraph.api.answer_table import FORMATS
from divergraph.api.cypher_in_json import cypher_schema
from divergraph.ask.question import help_of
from divergraph.cli.command_table import command_of
from divergraph.cli.question_command import parameters_of
from divergraph.present.schema import answer_schemas
from divergraph.server.answering import FORMAT
from divergraph.server.downloads import (
    ARRAY_TYPE,
    EXPORT_TYPES,
    REPORT_TYPES,
    WantedArray,
    WantedArrays,
    WantedExport,
    WantedReport,
)
from divergraph.server.jobs.packed import ZIP
from divergraph.server.jobs.requests import JOB_COMMANDS, JobCommand
from divergraph.server.parameters import (
    is_required,
    public_name,
    said_of,
    several,
    takes_several,
    type_schema,
)
from divergraph.server.problems import MEDIA_TYPE
from divergraph.server.route_table import VERSION, QuestionRoute, question_routes
from divergraph.server.settings import Limits
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
_CYPHER: Schema = cypher_schema(Limits().page)
_EVENT: Schema = {
    "type": "object",
    "properties": {"id": _TEXT, "event": _TEXT, "data": {**_TEXT, "description": "JSON."}},
}
_NEW_NAME: Schema = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {"name": _TEXT},
}

_SAID: Schema = {**_TEXT, "pattern": r"\S", "maxLength": 10_000}
_NEW_TEXT: Schema = {
    "type": "object",
    "required": ["text"],
    "additionalProperties": False,
    "properties": {"text": _SAID},
}
_NEW_NOTE: Schema = {
    "type": "object",
    "required": ["run", "op"],
    "additionalProperties": False,
    "properties": {
        "run": {**_TEXT, "pattern": r"\S"},
        "op": {**_TEXT, "pattern": r"\S", "description": "A golden op, or the device op of it."},
        "text": {**_TEXT, "maxLength": 10_000, "description": "A bookmark needs none."},
        "output": {"type": ["integer", "null"], "minimum": 0},
        "bookmark": {"type": "boolean"},
    },
}
_FORMAT: Schema = {
    "name": FORMAT,
    "in": "query",
    "required": False,
    "schema": {"enum": ["json", *FORMATS], "default": "json"},
    "description": "JSON, or the table of the answer as a file.",
}
_SENT: list[Schema] = [
    {"name": "name", "in": "query", "required": True, "schema": {**_TEXT, "minLength": 1}},
    {
        "name": "unpack",
        "in": "query",
        "schema": {"enum": ["true", "false"]},
        "description": "It is a zip or tar, whose files are wanted.",
    },
]


_OTHERS = (
    *("QueryRows", "QueryPlan", "RenamedEntry", "DeletedEntry"),
    *("NoteEntry", "DeletedNote", "BaselineEntry"),
    *("JobEntry", "JobsAnswer", "StoppedJob", "UploadEntry", "UploadsAnswer", "DeletedUpload"),
)
"""What is answered to no question of the table."""


@cache
def openapi() -> str:
    """The description, as JSON."""
    routes = question_routes()
    names = sorted({*_OTHERS, *(shape for route in routes for shape in route.shapes)})
    schemas, shapes = answer_schemas(names)
    paths: dict[str, Schema] = {}
    for route in routes:
        paths.setdefault(VERSION + route.path, {})["get"] = _question_operation(route, shapes)
    for described in (
        _cypher(shapes),
        _changes(shapes),
        _memory(shapes),
        _jobs(shapes),
        _uploads(shapes),
        _downloads(),
    ):
        for path, operations in described.items():
            paths.setdefault(path, {}).update(operations)
    description = {
        "openapi": "3.1.0",
        "info": {"title": "Divergraph", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Problem": _PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    return json.dumps(description, indent=1, ensure_ascii=False) + "\n"


def _cypher(shapes: Mapping[str, Schema]) -> dict[str, Schema]:
    rows, plan = shapes["QueryRows"], shapes["QueryPlan"]
    return {
        f"{VERSION}/query": {"post": _posted("The rows of a Cypher query.", _CYPHER, rows)},
        f"{VERSION}/plan": {"post": _posted("The plan of a Cypher query.", _CYPHER, plan)},
    }


def _changes(shapes: Mapping[str, Schema]) -> dict[str, Schema]:
    """How runs and graphs are changed."""
    run = [_in_path("run")]
    renamed = _posted("Give it another name.", _NEW_NAME, shapes["RenamedEntry"])
    operations: dict[str, Schema] = {}
    for kind in ("runs", "graphs"):
        place = f"{VERSION}/{kind}/{{run}}"
        operations[place] = {"delete": _operation("Remove it.", run, shapes["DeletedEntry"])}
        operations[f"{place}/name"] = {"put": {**renamed, "parameters": run}}
    return operations


def _memory(shapes: Mapping[str, Schema]) -> dict[str, Schema]:
    """What a team says of its models."""
    run, note, baseline = [_in_path("run")], [_in_path("note")], shapes["BaselineEntry"]
    edited = _posted("Let the note say something else.", _NEW_TEXT, shapes["NoteEntry"])
    return {
        f"{VERSION}/notes": {"post": _posted("Note an op.", _NEW_NOTE, shapes["NoteEntry"])},
        f"{VERSION}/notes/{{note}}": {
            "put": {**edited, "parameters": note},
            "delete": _operation("Remove it.", note, shapes["DeletedNote"]),
        },
        f"{VERSION}/runs/{{run}}/baseline": {
            "put": _operation("Make it the baseline of its model.", run, baseline),
            "delete": _operation("Let its model have no baseline.", run, baseline),
        },
    }


def _jobs(shapes: Mapping[str, Schema]) -> dict[str, Schema]:
    """The addresses of jobs."""
    job, place = [_in_path("job")], f"{VERSION}/jobs"
    request = {
        "oneOf": [_job_request(name, job_command) for name, job_command in JOB_COMMANDS.items()]
    }
    added = _posted("Run a command as a job.", request, shapes["JobEntry"])
    added["responses"]["202"] = added["responses"].pop("200")
    stream = _sent("What the job tells, as it does.", job, {"text/event-stream": _EVENT})
    description = "The children of this job, in place of the last jobs."
    parent: Schema = {
        "name": "parent",
        "in": "query",
        "description": description,
        "required": False,
    }
    parent["schema"] = {"type": "string"}
    listed = _operation("The last jobs, newest first.", [parent], shapes["JobsAnswer"])
    return {
        place: {"get": listed, "post": added},
        f"{place}/{{job}}": {
            "get": _operation("A job, and how far it is.", job, shapes["JobEntry"]),
            "delete": _operation("Stop it.", job, shapes["StoppedJob"]),
        },
        f"{place}/{{job}}/answer": {
            "get": _operation("What its command prints with --json.", job, {"type": "object"})
        },
        f"{place}/{{job}}/part.zip": {
            "get": _sent("The part of a model that it wrote.", job, {ZIP: _TEXT})
        },
        f"{place}/{{job}}/events": {"get": stream},
    }


def _job_request(name: str, job_command: JobCommand) -> Schema:
    """A request for a command, with the options that one may have."""
    params = [
        param
        for param in command_of(name).params
        if param.name in (*job_command.reads, *job_command.takes)
    ]
    options = {
        "type": "object",
        "required": [public_name(param) for param in params if param.required],
        "additionalProperties": False,
        "properties": {public_name(param): _option(param) for param in params},
    }
    fields = {"command": {"const": name}, "options": options}
    needed = [field for field in fields if field == "command" or options["required"]]
    return {
        "type": "object",
        "required": needed,
        "additionalProperties": False,
        "properties": fields,
    }


def _option(param: click.Parameter) -> Schema:
    """An option in the body of a request; what its command takes as text may be a number there."""
    schema = type_schema(param.type)
    if takes_several(param):
        schema = {"anyOf": [schema, several(schema)]}
    help_text = said_of(param)
    return {**schema, **({"description": help_text} if help_text else {})}


def _uploads(shapes: Mapping[str, Schema]) -> dict[str, Schema]:
    """The addresses of uploads."""
    one, place = [_in_path("upload")], f"{VERSION}/uploads"
    added = _operation("Send a file, or an archive of files.", _SENT, shapes["UploadEntry"])
    added["responses"]["201"] = added["responses"].pop("200")
    added["requestBody"] = {"required": True, "content": {ARRAY_TYPE: {"schema": _TEXT}}}
    listed = _operation("Your uploads, newest first.", [], shapes["UploadsAnswer"])
    return {
        place: {"get": listed, "post": added},
        f"{place}/{{upload}}": {
            "get": _operation("An upload.", one, shapes["UploadEntry"]),
            "delete": _operation("Forget it.", one, shapes["DeletedUpload"]),
        },
    }


def _downloads() -> dict[str, Schema]:
    """What is sent as a file."""
    place = f"{VERSION}/runs/{{run}}"
    kind = {**_in_path("kind"), "schema": {"enum": [kind.value for kind in REPORT_TYPES]}}
    about = [kind, *_parameters(WantedReport, ("run",))]
    array = _parameters(WantedArray, ("run",))
    arrays = _parameters(WantedArrays, ("run",))
    reports = {kind: _file(kind) for kind in REPORT_TYPES.values()}
    form = {**_in_path("kind"), "schema": {"enum": list(EXPORT_TYPES)}}
    side = [form, *_parameters(WantedExport, ("run",))]
    exported = {kind: _file(kind) for kind in EXPORT_TYPES.values()}
    exports = _sent("A run or graph in the format of other tools.", side, exported)
    return {
        f"{place}/exports/{{kind}}": {"get": exports},
        f"{VERSION}/graphs/{{run}}/exports/{{kind}}": {"get": exports},
        f"{place}/reports/{{kind}}": {"get": _sent("A report, as a file.", about, reports)},
        f"{place}/tensor.npy": {
            "get": _sent("The values of a tensor.", array, {ARRAY_TYPE: _TEXT})
        },
        f"{place}/tensor.npz": {
            "get": _sent("The values of both sides of a tensor.", arrays, {ARRAY_TYPE: _TEXT})
        },
    }


def _question_operation(route: QuestionRoute, shapes: Mapping[str, Schema]) -> Schema:
    in_path = tuple(re.findall(r"\{(\w+)\}", route.path))
    parameters = _parameters(route.question, in_path)
    schemas = [shapes[name] for name in route.shapes]
    answers = {"application/json": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
    if route.has_table:
        parameters.append(_FORMAT)
        answers |= {form.media_type: _TEXT for form in FORMATS.values()}
    return _sent(help_of(route.question), parameters, answers)


def _parameters(kind: type, in_path: tuple[str, ...]) -> list[Schema]:
    return [
        _in_path(name) if name in in_path else _parameter(param, required=is_required(kind, name))
        for name, param in parameters_of(kind).items()
    ]


def _in_path(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": {**_TEXT, "minLength": 1}}


def _parameter(param: click.Parameter, *, required: bool) -> Schema:
    help_text = said_of(param)
    schema = type_schema(param.type)
    return {
        "name": public_name(param),
        "in": "query",
        "required": required,
        "schema": several(schema) if takes_several(param) else schema,
        **({"description": help_text} if help_text else {}),
    }


def _operation(summary: str, parameters: list[Schema], answer: Schema) -> Schema:
    return _sent(summary, parameters, {"application/json": answer})


def _file(media_type: str) -> Schema:
    """What a file of *media_type* is to a client: a document in JSON, or text."""
    return {} if media_type.endswith("json") else _TEXT


def _sent(summary: str, parameters: list[Schema], answers: Mapping[str, Schema]) -> Schema:
    """An operation that answers one of these media types."""
    content = {kind: {"schema": schema} for kind, schema in answers.items()}
    problem = {"$ref": "#/components/schemas/Problem"}
    return {
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer.", "content": content},
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
