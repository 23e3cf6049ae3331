"""``divergraph query``."""

from __future__ import annotations

import json
import re

import click

from divergraph.cli.options import common, opened, print_json
from divergraph.json_shapes import query_json
from graphstore.contract import QueryParameters, QueryResult
from graphstore.errors import InputError

_NAME = re.compile(r"[a-z]\w*")


@click.command("query")
@click.argument("cypher", required=False)
@click.option("--run", "target", metavar="RUN", help="Ask this run or graph only.")
@click.option("--param", "-p", "params", multiple=True, metavar="NAME=VALUE", help="$NAME's value.")
@click.option("--limit", default=1000, show_default=True, help="Rows at most.")
@click.option("--timeout", default=30.0, show_default=True, help="Seconds at most.")
@click.option("--list", "show_list", is_flag=True, help="List the named queries.")
@common
def query_command(
    cypher: str | None,
    target: str | None,
    params: tuple[str, ...],
    limit: int,
    timeout: float,
    show_list: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Ask the store in Cypher, read-only; docs/cypher.md has the schema and examples.

    CYPHER may also be the name of a query that --list shows, with --run and its parameters:

    \b
    divergraph query worst_tensors --run NAME -p limit=5
    """
    if show_list:
        _list_queries(as_json=as_json)
        return
    if not cypher:
        raise click.UsageError("give a Cypher text or a query's name, or --list")
    values = dict(_parameter(text) for text in params)
    with opened(store) as opened_store:
        if _NAME.fullmatch(cypher):
            if target is None:
                raise click.UsageError(f"the query {cypher} is about one run or graph: give --run")
            found = opened_store.named(cypher, target, values)
            result = QueryResult(found.columns, found.rows[:limit], len(found.rows) > limit)
        else:
            result = opened_store.query(cypher, QueryParameters(values, limit, timeout), target)
    if as_json:
        print_json(query_json(result))
        return
    click.echo("\t".join(result.columns))
    for row in result.rows:
        click.echo("\t".join(_cell(value) for value in row))
    if result.truncated:
        click.echo(f"the first {len(result.rows)} rows; --limit gives more", err=True)


def _cell(value: object) -> str:
    if isinstance(value, list | tuple | dict | bool):
        return json.dumps(value, default=str, ensure_ascii=False)
    return "" if value is None else str(value)


def _parameter(text: str) -> tuple[str, object]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InputError(f"{text!r} is no parameter", hint="-p name=value; value may be JSON")
    try:
        return name.lstrip("$"), json.loads(value)
    except json.JSONDecodeError:
        return name.lstrip("$"), value


def _list_queries(*, as_json: bool) -> None:
    from graphstore.queries import list_queries

    queries = list_queries()
    if as_json:
        print_json(
            {
                "queries": [
                    {
                        "name": query.name,
                        "answers": query.answers,
                        "parameters": list(query.parameters),
                    }
                    for query in queries
                ]
            }
        )
        return
    for query in queries:
        names = " ".join(f"${name}" for name in query.parameters)
        click.echo(f"{query.name:26} {query.answers}  {names}".rstrip())
