"""Who a browser is, and what it may not do although somebody is logged in."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest
from page_forms import seal_of
from served import served

from divergraph.server.tokens import TokenFile, UserRole


def test_a_stranger_is_led_to_the_login_and_back(team: httpx.Client) -> None:
    answer = team.get("/runs/first?where=cos<1")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Fruns%2Ffirst%3Fwhere%3Dcos%253C1"
    page = team.get(answer.headers["location"])
    assert page.status_code == 200
    assert "first" not in page.text.replace("%2Fruns%2Ffirst", "")


def test_a_cookie_is_for_our_pages_only(team: httpx.Client, tokens) -> None:
    form = {"seal": seal_of(team.get("/login")), "token": tokens[UserRole.READER]}
    cookie = team.post("/login", data=form).headers["set-cookie"].lower()
    assert {"httponly", "secure", "samesite=strict", "path=/"} <= set(cookie.split("; "))
    assert tokens[UserRole.READER].lower() not in cookie


def test_a_wrong_token_logs_nobody_in(team: httpx.Client) -> None:
    answer = team.post("/login", data={"seal": seal_of(team.get("/login")), "token": "dg_x"})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "nobody&#39;s token" in answer.text


@pytest.mark.parametrize(
    "onward",
    ["//evil.example/", "https://evil.example", "/\\evil.example", "javascript:x", "/\t/e"],
)
def test_a_login_leads_to_our_pages_only(team: httpx.Client, tokens, onward: str) -> None:
    form = {"seal": seal_of(team.get("/login")), "token": tokens[UserRole.READER]}
    answer = team.post("/login", params={"next": onward}, data=form)
    assert answer.headers["location"] == "/"


def test_each_role_sees_what_it_may_do(team: httpx.Client, tokens, log_in) -> None:
    reader, analyst = (log_in(tokens[role]) for role in (UserRole.READER, UserRole.ANALYST))
    page = team.get("/runs/values", headers=reader)
    assert page.status_code == 200
    assert "reader, reader" in page.text
    assert "/part?" not in page.text
    assert "Share links" not in page.text
    assert "Share links" in team.get("/runs/values", headers=analyst).text
    for url in ("/compare", "/runs/values/part", "/runs/values/op?op=relu&values=output:0"):
        assert team.get(url, headers=reader).status_code == 403
        assert team.get(url, headers=analyst).status_code == 200


def test_a_session_ends_with_a_logout_or_the_token(team: httpx.Client, log_in, settings) -> None:
    token = TokenFile(settings.tokens).add("guest", UserRole.READER)
    cookie, other = log_in(token), log_in(token)
    seal = seal_of(team.get("/", headers=cookie))
    assert team.post("/logout", data={"seal": seal}, headers=cookie).status_code == 303
    assert team.get("/", headers=cookie).status_code == 303
    assert team.get("/", headers=other).status_code == 200
    TokenFile(settings.tokens).remove("guest")
    assert team.get("/", headers=other).status_code == 303


def test_a_session_outlives_the_server(settings, log_in, tokens) -> None:
    cookie = log_in(tokens[UserRole.ANALYST])
    with served(replace(settings, behind_proxy=True)) as again:
        page = again.get("/", headers={"Accept": "text/html", **cookie})
        assert "analyst, analyst" in page.text
        secret = cookie["Cookie"].partition("=")[2]
        kept = settings.sessions
        assert secret not in kept.read_text(), "it is kept as a hash"
        assert kept.stat().st_mode & 0o77 == 0


def test_programs_change_nothing_with_a_cookie(team: httpx.Client, tokens, log_in) -> None:
    """A page of ours sends forms, which are sealed; it asks nothing else that changes something."""
    cookie = log_in(tokens[UserRole.ADMIN])
    assert team.get("/v1/runs", headers=cookie).status_code == 200
    assert team.delete("/v1/runs/first", headers=cookie).status_code == 401
    assert team.get("/v1/runs/first", headers=cookie).status_code == 200


def test_forms_need_the_seal_of_their_session(team: httpx.Client, tokens, log_in) -> None:
    mine, other = (log_in(tokens[role]) for role in (UserRole.ANALYST, UserRole.ADMIN))
    seals = [seal_of(team.get("/", headers=each)) for each in (mine, other)]
    url = "/runs/values/shares"
    for form in ({}, {"seal": ""}, {"seal": seals[1]}, {"seal": "é"}):
        answer = team.post(url, data=form | {"days": "1"}, headers=mine)
        assert answer.status_code == 403
        assert "open the page again" in answer.text
    assert team.post(url, data={"seal": seals[0], "days": "1"}, headers=mine).status_code == 200
    foreign = mine | {"Origin": "https://evil.example"}
    assert team.post(url, data={"seal": seals[0], "days": "1"}, headers=foreign).status_code == 403
    assert team.post(url, json={"seal": seals[0]}, headers=mine).status_code == 415


def test_this_machine_s_forms_need_a_seal_too(own: httpx.Client) -> None:
    assert own.post("/compare", data={"golden": "data:net.onnx"}).status_code == 403
    seal = seal_of(own.get("/compare"))
    form = {"seal": seal, "days": "1"}
    for headers in ({"Origin": "null"}, {"Host": "evil.example:1"}):
        answer = own.post("/runs/values/shares", data=form, headers=headers)
        assert answer.status_code in (403, 421)
    assert own.post("/runs/values/shares", data=form).status_code == 200


def test_pages_say_what_a_browser_may_do_with_them(own: httpx.Client) -> None:
    for url in ("/", "/runs/first", "/runs/first/op?op=conv", "/nowhere", "/login"):
        headers = own.get(url).headers
        policy = dict(
            each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers
    programs = own.get("/v1/runs").headers
    assert programs["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


def test_who_comes_from_elsewhere_keeps_their_session(team: httpx.Client, tokens, log_in) -> None:
    """A strict cookie does not come along with a link in a chat; asked by our page it does."""
    answer = team.get("/runs/first", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/runs/first">' in answer.text
