"""The page of a question: its form, its answer, and the table as a file."""

from __future__ import annotations

import re

import httpx
import pytest

from divergraph.ask.registry import all_questions
from divergraph.server.pages.question_page import questions_about


def test_a_run_leads_to_the_questions_about_it(own: httpx.Client) -> None:
    page = own.get("/runs/first").text
    linked = re.findall(r'href="/runs/first/ask/([\w-]+)"', page)
    assert {"roles", "trace", "unmatched", "fusion"} <= set(linked)
    assert set(linked) == {name for name, _ in questions_about(runs=True)}
    assert 'href="/ask/compare-runs"' in own.get("/").text


@pytest.mark.parametrize("name", [name for name, _ in questions_about(runs=True)])
def test_every_question_about_a_run_has_a_page(own: httpx.Client, name: str) -> None:
    page = own.get(f"/runs/first/ask/{name}")
    assert page.status_code == 200, page.text
    assert f'<span class="quiet">{name}</span>' in page.text
    (heading,) = re.findall(r"<h1>(.*)</h1>", page.text)
    assert heading[-1] in "?."
    assert "`" not in heading


def test_an_answer_stands_below_its_form(own: httpx.Client) -> None:
    empty = own.get("/runs/first/ask/between").text
    assert 'name="start" value="" required' in empty
    assert "<table" not in empty
    page = own.get("/runs/first/ask/between?start=conv&end=conv").text
    assert '<a class="op" href="/runs/first/op?op=conv">conv</a>' in page
    (address,) = re.findall(r'href="([^"]*format=csv)"', page)
    table = own.get(address.replace("&amp;", "&"))
    assert table.headers["content-type"].startswith("text/csv")
    assert "conv" in table.text.splitlines()[1]


def test_a_tensor_is_drawn_and_what_is_nested_is_folded(own: httpx.Client) -> None:
    page = own.get("/runs/values/ask/tensor", params={"op": "relu"}).text
    assert "<figcaption>elements by |device - golden|</figcaption>" in page
    assert '<th scope="col">absolute error</th>' in page
    assert "<summary>show</summary>" in own.get("/runs/values/ask/trace").text


def test_a_model_shows_its_runs_and_the_first_page_what_is_new(own: httpx.Client) -> None:
    page = own.get("/runs/values/ask/model").text
    assert '<a class="op" href="/runs/values">values</a>' in page
    assert 'data-state="origin"' in page
    first = own.get("/").text
    assert re.search(r'Since yesterday \d+ runs?: <a class=bad href="/ask/regressions">', first)
    assert 'href="/runs/values/ask/model"' in own.get("/runs/values").text


def test_what_is_wrong_is_said(own: httpx.Client) -> None:
    assert "minimize has not been run on" in own.get("/runs/first/ask/minimize").text
    page = own.get("/runs/first/ask/between?start=conv&end=nowhere")
    assert (page.status_code, "no op named" in page.text) == (404, True)
    assert own.get("/runs/first/ask/between?begin=conv&start=a&end=b").status_code == 400
    for place in ("/runs/first/ask/none", "/ask/roles", "/runs/first/ask/recurring"):
        assert own.get(place).status_code == 404
    assert own.get("/runs/none/ask/roles").status_code == 404
    assert "roles" in all_questions()


def test_cypher_is_asked_with_the_schema_at_hand(own: httpx.Client) -> None:
    page = own.get("/ask/query").text
    assert "(:Op)-[:PRODUCES]->(:Tensor)" in page
    assert 'href="/ask/query"' in own.get("/").text
    (named,) = re.findall(r'href="(/ask/query\?cypher=first_diverging)"', page)
    answer = own.get(f"{named}&run=first")
    assert (answer.status_code, '<a class="op" href="/runs/first/op?op=conv">' in answer.text) == (
        200,
        True,
    )
    words = own.get("/ask/query/words", params={"before": "MATCH (t:Tensor) RETURN t.dt"}).json()
    assert words == {"word": "dt", "words": ["dtype"]}
    refused = own.get("/ask/query", params={"cypher": "MATCH (o) DELETE o"})
    assert (refused.status_code, "DELETE is not allowed" in refused.text) == (400, True)
