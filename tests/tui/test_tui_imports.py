"""The modules of the UI know each other one way."""

from pathlib import Path

import tui


def test_nothing_but_the_entry_knows_the_app():
    """The app knows its views, palette and way of leaving; they know no more than its base."""
    folder = Path(tui.__file__).parent
    knowing = [path.name for path in folder.rglob("*.py") if "tui.app import" in path.read_text()]
    assert knowing == []
