"""What :mod:`benchmarks.scale.store_scale` measured, as tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Facts = dict[str, float]
"""What one way took at one size, by what it is, with its unit."""
Found = Mapping[str, Facts]
"""The facts of each way at one size."""

NAMED = "named "
STORES = ("embedded", "neo4j")


def tables(found: Mapping[int, Found]) -> str:
    """A table for each size and one of the named queries, by the number of original ops."""
    parts = [_size_table(size, ways) for size, ways in found.items()]
    parts += [_query_table(store, found) for store in STORES]
    return "\n\n".join(filter(None, parts))


def _size_table(size: int, found: Found) -> str:
    """All ways side by side, with their ratio to networkx; queries only where it has them."""
    base = found.get("networkx", {})
    shown = [name for name in _names(found.values()) if not name.startswith(NAMED) or name in base]
    rows = [
        [name, *(_cell(facts.get(name), base.get(name)) for facts in found.values())]
        for name in shown
        if not name.endswith(", CPU ms")
    ]
    return f"**{size:,} original ops**\n\n{_markdown([['', *found], *rows])}"


def _query_table(store: str, found: Mapping[int, Found]) -> str | None:
    """Each named query on a *store*: wall (CPU) milliseconds, the first time and after that."""
    sizes = {size: ways[store] for size, ways in found.items() if store in ways}
    if not sizes:
        return None
    rows = [["", *(head for size in sizes for head in (f"{size:,}, first", "then"))]]
    named = filter(_is_query, _names(sizes.values()))
    queries = [name.removeprefix(NAMED).removesuffix(", ms") for name in named]
    for query in sorted(queries):
        row = [query]
        for facts in sizes.values():
            row += [_times(facts, f"{NAMED}{query}, first"), _times(facts, f"{NAMED}{query}")]
        rows.append(row)
    said = "CPU of this program, without the server's" if store == "neo4j" else "CPU"
    return (
        f"**Named queries, {store}, at most 1000 rows, by original ops**: wall and, in brackets, "
        f"{said} milliseconds; the first time, with both graphs' arrays loaded, and the best of "
        f"three after that\n\n{_markdown(rows)}"
    )


def _names(facts: Iterable[Facts]) -> list[str]:
    return list(dict.fromkeys(name for one in facts for name in one))


def _is_query(name: str) -> bool:
    return name.startswith(NAMED) and name.endswith(", ms") and "first, " not in name


def _times(facts: Facts, what: str) -> str:
    wall, used = facts.get(f"{what}, ms"), facts.get(f"{what}, CPU ms")
    return "" if wall is None or used is None else f"{_number(wall)} ({_number(used)})"


def _cell(value: float | None, base: float | None) -> str:
    if value is None:
        return ""
    ratio = f" ({value / base:.2g}x)" if base and value is not base else ""
    return f"{_number(value)}{ratio}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _markdown(rows: list[list[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
