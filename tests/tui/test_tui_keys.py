"""The key table, the page made of it, and that every key has its action."""

import dataclasses

import pytest
from browsing import said

from tui import keys
from tui.app import DivergraphApp
from tui.keys import TABLE, KeyScope
from tui.screens.jobs import JobsScreen
from tui.screens.lineage import LineageScreen
from tui.screens.ops import OpsScreen
from tui.screens.overview import OverviewScreen
from tui.screens.propagation import PropagationScreen
from tui.screens.query import QueryScreen
from tui.screens.runs import RunsScreen
from tui.screens.start import StartScreen
from tui.screens.submodel import SubmodelScreen
from tui.screens.tensor_view.screen import TensorScreen
from tui.screens.windows.export_form import ExportForm, FolderInput
from tui.screens.windows.job_form import JobFormWindow
from tui.screens.windows.leave import LeaveOverlay
from tui.screens.windows.line_form import LineForm
from tui.screens.windows.neighbourhood import NeighbourhoodOverlay
from tui.screens.windows.overlays import Overlay, YankOverlay
from tui.widgets.curve import Curve
from tui.widgets.cypher_editor import CypherEditor
from tui.widgets.filter_bar import FilterInput
from tui.widgets.form_fields import ChoiceField
from tui.widgets.row_list import RowList
from tui.widgets.text_pane import TextPane

OWNERS = {
    KeyScope.EVERYWHERE: (
        OverviewScreen,
        OpsScreen,
        RunsScreen,
        PropagationScreen,
        SubmodelScreen,
        QueryScreen,
        LineageScreen,
        TensorScreen,
        JobsScreen,
        StartScreen,
    ),
    KeyScope.WINDOWS: (DivergraphApp,),
    KeyScope.JOBS: (JobsScreen,),
    KeyScope.START: (StartScreen,),
    KeyScope.JOB_FORM: (JobFormWindow,),
    KeyScope.CHOICE: (ChoiceField,),
    KeyScope.LEAVING: (LeaveOverlay,),
    KeyScope.EDITOR: (CypherEditor,),
    KeyScope.ANSWER: (QueryScreen,),
    KeyScope.ASKED: (LineForm,),
    KeyScope.LINEAGE: (LineageScreen,),
    KeyScope.TENSOR: (TensorScreen,),
    KeyScope.PATHS: (PropagationScreen,),
    KeyScope.PART: (SubmodelScreen,),
    KeyScope.FORM: (FolderInput,),
    KeyScope.LIST: (RowList,),
    KeyScope.TEXT: (TextPane,),
    KeyScope.RUNS: (RunsScreen,),
    KeyScope.OPS: (OpsScreen,),
    KeyScope.CURVE: (Curve,),
    KeyScope.FILTER: (FilterInput,),
    KeyScope.YANK: (YankOverlay,),
    KeyScope.AROUND: (NeighbourhoodOverlay,),
    KeyScope.OVERLAY: (Overlay, ExportForm),
}


def test_ids_are_unique():
    assert len({key.id for key in TABLE}) == len(TABLE)


@pytest.mark.parametrize("scope", list(KeyScope))
def test_no_key_means_two_things_in_one_scope(scope):
    used = [name for key in TABLE if key.scope is scope for name in key.keys.split(",")]
    assert len(set(used)) == len(used)


def test_no_key_is_one_that_plain_terminals_confuse():
    used = {name for key in TABLE for name in key.keys.split(",")}
    same_bytes = {"ctrl+i", "ctrl+m", "ctrl+h", "ctrl+j", "ctrl+left_square_bracket", "ctrl+enter"}
    assert not used & same_bytes


@pytest.mark.parametrize("key", TABLE, ids=lambda key: key.id)
def test_every_key_has_its_action(key):
    name = key.action.partition("(")[0]
    if not name.startswith("app."):
        for owner in OWNERS[key.scope]:
            assert callable(getattr(owner, f"action_{name}"))


def test_remapping_changes_the_keys_of_one_id_only():
    table = keys.remapped({"list.down": "down"})
    changed = [key for key, old in zip(table, TABLE, strict=True) if key != old]
    assert changed == [dataclasses.replace(keys.BY_ID["list.down"], keys="down")]


async def test_a_key_that_does_nothing_says_so_once(browse, made_store):
    async with browse(made_store) as b:
        await b.press("9", "9")
        assert said(b.app) == "9 does nothing here; ? lists the keys"
        await b.press("slash", "9")
        assert said(b.app).count("does nothing") == 1, "a digit typed into a filter is text"
