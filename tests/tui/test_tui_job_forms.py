"""The forms of commands: made of Click's own parameters, judged by Click itself."""

from __future__ import annotations

import shlex

import click
import pytest

from divergraph.cli.main import cli
from tui.jobs.form_table import FORMS, UNSHOWN
from tui.jobs.forms import YES, FormKind, form_of, form_titles, texts_of
from tui.widgets.form_fields import paths_that_begin


@pytest.mark.parametrize("name", FORMS)
def test_every_parameter_of_the_command_is_in_its_form_or_hidden(name):
    command = cli.get_command(click.Context(cli), name)
    shown = [field.name for field in form_of(name).fields]
    assert len(set(shown)) == len(shown)
    assert {*shown, *FORMS[name].hidden, *UNSHOWN} >= {param.name for param in command.params}
    assert all(field.help for field in form_of(name).fields)


def test_the_jobs_that_can_be_started():
    wanted = {"import", "capture", "compare", "analyse", "minimize", "blame", "submodel"}
    wanted |= {"export", "report"}
    assert set(form_titles()) == wanted


def field(command, name):
    return next(each for each in form_of(command).fields if each.name == name)


@pytest.mark.parametrize(
    ("command", "name", "kind"),
    [
        ("compare", "golden", FormKind.PATH),
        ("compare", "replace_it", FormKind.FLAG),
        ("compare", "method", FormKind.CHOICE),
        ("compare", "time", FormKind.TEXT),
        ("analyse", "run", FormKind.RUN),
        ("import", "path", FormKind.PATH),
    ],
)
def test_how_a_field_is_filled_in(command, name, kind):
    assert field(command, name).kind is kind


@pytest.mark.parametrize(
    ("command", "name", "text", "said"),
    [
        ("compare", "golden", "", "this is needed"),
        ("compare", "step", "-1", "not in the range"),
        ("compare", "step", "x", "not a valid integer"),
        ("compare", "suspect", "inf", "finite"),
        ("compare", "precision", "fp7", "is not one of"),
        ("minimize", "run", "", "this is needed"),
        ("minimize", "starts", "'a", "No closing quotation"),
        ("capture", "output", "", "this is needed"),
        ("compare", "step", "3", ""),
        ("compare", "precision", "fp16", ""),
        ("compare", "rank", "", ""),
        ("minimize", "starts", "a 'b c'", ""),
    ],
)
def test_what_is_said_at_a_field(command, name, text, said):
    problem = field(command, name).problem(text)
    assert (said in problem) if said else problem == ""


def test_the_command_line_is_that_of_the_texts():
    form = form_of("minimize")
    texts = {"run": "14", "starts": "a 'b c'", "flaky": YES, "budget": "7"}
    line = shlex.join(form.words(texts, "here"))
    assert line == "minimize 14 --start a --start 'b c' --flaky --budget 7 --store here"
    assert form_of("capture").words({"model": "m.onnx"}, "here") == ["capture", "m.onnx"]


@pytest.mark.parametrize("name", FORMS)
def test_a_command_line_comes_back_as_the_texts_it_was_made_of(name):
    form = form_of(name)
    texts = {}
    for each in form.fields:
        if each.kind is FormKind.FLAG:
            texts[each.name] = YES
        elif each.kind is FormKind.CHOICE:
            texts[each.name] = each.choices[-1]
        else:
            texts[each.name] = "'a b' c" if each.several else "5"
    assert texts_of(form.words(texts, "here")) == texts


def test_a_command_line_without_a_form():
    with pytest.raises(KeyError):
        texts_of(["runs"])


def test_paths_are_completed(tmp_path, monkeypatch):
    for name in ("model.onnx", "model.pb", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    assert paths_that_begin("mod") == ["model.onnx", "model.pb", "models/"]
    assert paths_that_begin(f"{tmp_path}/.h") == [f"{tmp_path}/.hidden"]
    assert paths_that_begin("nowhere/x") == []
    assert paths_that_begin("a\0b/x") == []
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths_that_begin("~/model.p") == ["~/model.pb"]
    assert field("import", "path").words("~/model.pb") == [str(tmp_path / "model.pb")]
