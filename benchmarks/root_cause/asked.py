"""What all benchmarks of devices are asked for, and where their results are kept and shown."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

README = Path(__file__).parents[1] / "README.md"


def parser(
    description: str | None, models: Iterable[str], results: Path | None
) -> argparse.ArgumentParser:
    """Options for the cases to run, which default to *models* and seed 1, for the file of
    *results*, and for its table."""
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names(found, "--models", models)
    found.add_argument("--seeds", type=_numbers, default="1")
    found.add_argument("--results", type=Path, default=results)
    found.add_argument("--table", action="store_true", help="run nothing")
    found.add_argument("--write", action="store_true", help="put the tables into README.md")
    return found


def names(found: argparse.ArgumentParser, option: str, default: Iterable[str]) -> None:
    """Add an *option* that takes names with commas between."""
    found.add_argument(option, type=lambda text: text.split(","), default=",".join(default))


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def keep(results: Path, line: Mapping[str, Any]) -> None:
    """Add a line of JSON to the file of results."""
    with results.open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(line)}\n")


def into_readme(start: str, end: str, text: str) -> None:
    """Put *text* between two markers of the README."""
    before, rest = README.read_text(encoding="utf-8").split(start)
    README.write_text(f"{before}{start}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")
