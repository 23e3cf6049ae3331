"""Files of one's own computer, sent with the form that compares them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from headless_browser import Browser
from page_forms import seal_of
from served import served

from divergraph.server.settings import Limits, ServerSettings, UploadLimits

pytestmark = pytest.mark.thorough

DUMPS = ("golden", "device")
OTHERS = ("device", "device-dump", "weights")
SMALL = UploadLimits(
    bytes=100_000, bytes_of_one=120_000, of_one=3, always_bytes=200_000, memory=256
)


@pytest.fixture
def own(settings: ServerSettings, tmp_path: Path) -> Iterator[httpx.Client]:
    """A browser on this machine; nothing was sent yet."""
    limits = Limits(jobs=0, uploads=SMALL)
    with served(replace(settings, state=tmp_path / "state", limits=limits)) as client:
        client.headers["Accept"] = "text/html"
        yield client


def zipped(folder: Path, below: str = "") -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for path in folder.iterdir():
            archive.write(path, below + path.name)
    return held.getvalue()


def sent(client: httpx.Client, files: Mapping[str, tuple[str, bytes]], **texts: str):
    fields = {"seal": seal_of(client.get("/compare"))} | texts
    return client.post("/compare", data=fields, files=files)


def uploads(client: httpx.Client) -> dict[str, str]:
    return {each["name"]: each["path"] for each in client.get("/v1/uploads").json()["uploads"]}


def test_files_and_paths_are_compared(own: httpx.Client, place: Path) -> None:
    files = {
        "golden-file": ("net.onnx", (place / "net.onnx").read_bytes()),
        "golden-dump-file": ("flat.ZIP", zipped(place / "golden")),
        "device-dump-file": ("deep.zip", zipped(place / "device", "run/0/")),
        "weights-file": ("", b""),
    }
    answer = sent(own, files, golden="what a file goes before", device="data:net.onnx")
    assert answer.status_code == 303, answer.text
    page, kept = own.get(answer.headers["location"]).text, uploads(own)
    assert f"<code>--golden={kept['net.onnx']}</code>" in page
    assert f"<code>--golden-dump={kept['flat.ZIP']}</code>" in page
    assert f"<code>--device-dump={kept['deep.zip']}/run/0</code>" in page
    assert "<code>--device=data:net.onnx</code>" in page
    assert "--weights" not in page


def test_what_was_sent_need_not_be_sent_again(own: httpx.Client) -> None:
    page = sent(own, {"golden-file": ("net.onnx", b"model")}, device="/etc/passwd")
    assert (page.status_code, "paths start with a root: data:" in page.text) == (403, True)
    assert f'value="{uploads(own)["net.onnx"]}"' in page.text


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"device-dump-file": ("a.zip", b"PK no zip")}, 400, "device-dump: the archive is refused"),
        (
            {"device-dump-file": ("a", b"x" * 100_001)},
            413,
            "device-dump: it is larger than 100000 bytes",
        ),
        (
            {"device-dump-file": (".a", b"x")},
            400,
            "device-dump: &#34;.a&#34; cannot be the name of a file",
        ),
        ({f"{each}-file": ("a", b"x" * 60_000) for each in OTHERS[:2]}, 413, "than 59995 bytes"),
        ({"name-file": ("a", b"x")}, 400, "name-file: no file is asked for there"),
        ({"other": ("a", b"x")}, 400, "other: no file is asked for there"),
        ({f"{each}-file": ("a", b"x") for each in OTHERS}, 429, "weights: you have 3 uploads"),
        ({f"no-{each}": ("", b"") for each in range(200)}, 400, "has no 200 fields"),
    ],
)
def test_all_files_are_taken_or_none(own: httpx.Client, changed, code: int, said: str) -> None:
    answer = sent(own, {"golden-file": ("net.onnx", b"model")} | changed, device="typed")
    assert answer.status_code == code
    assert said in answer.text
    assert 'value="typed"' in answer.text, "what was typed before stays"
    assert uploads(own) == {}


def in_order(client: httpx.Client, *parts: tuple[str, str | None, bytes]) -> httpx.Response:
    """The form with its fields as a browser sends them: text and files in the page's order."""
    seal = ("seal", None, seal_of(client.get("/compare")).encode())
    named = [(field, (file, data)) for field, file, data in (seal, *parts)]
    return client.post("/compare", files=named)


@pytest.mark.parametrize("refused", [("a", b"x" * 100_001), (".a", b"x" * 9_000)])
def test_what_is_typed_in_behind_a_file_that_is_refused_stays(own: httpx.Client, refused) -> None:
    page = in_order(
        own,
        ("golden-file", *refused),
        ("golden-dump", None, b"data:typed"),
        ("device-dump-file", "b", b"y" * 90_000),
        ("name", None, b"my run"),
    )
    assert page.status_code in (400, 413)
    assert 'value="data:typed"' in page.text
    assert 'value="my run"' in page.text
    assert "golden: " in page.text
    assert uploads(own) == {}


def test_no_more_is_read_past_than_may_be_sent(own: httpx.Client) -> None:
    large = [(f"{each}-file", "a", b"x" * 100_001) for each in OTHERS]
    page = in_order(own, *large, ("name", None, b"my run"))
    assert (page.status_code, "my run" in page.text) == (413, False)


def test_pages_of_others_send_nothing(own: httpx.Client) -> None:
    file = {"golden-file": ("a", b"x")}
    for seal in ({}, {"seal": "0" * 64}):
        page = own.post("/compare", data=seal, files=file)
        assert (page.status_code, "none of ours" in page.text) == (403, True)
    late = {**file, "seal": (None, seal_of(own.get("/compare")))}
    assert own.post("/compare", files=late).status_code == 403, "the seal comes before files"
    assert uploads(own) == {}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=a", b"x" * 1000),
        ("multipart/form-data; boundary=a", b"--a\r\nContent-Disposition: form-data\r\n\r\n"),
        ("multipart/form-data; boundary=a", b"--a\r\nA: " + b"x" * 10_000),
        ("multipart/form-data; boundary=a", b""),
    ],
)
def test_a_body_that_is_no_form_is_told(own: httpx.Client, kind: str, body: bytes) -> None:
    page = own.post("/compare", content=body, headers={"Content-Type": kind})
    assert page.status_code == 400
    assert 'role="alert"' in page.text


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_files_of_a_browser_become_a_run(
    browser: Browser, settings: ServerSettings, place: Path, tmp_path: Path
) -> None:
    """Without scripts, as a person sends them."""
    for dump in DUMPS:
        (tmp_path / f"{dump}.zip").write_bytes(zipped(place / dump, f"{dump}/"))
    chosen = {
        **dict.fromkeys(("golden", "device"), place / "net.onnx"),
        **{f"{dump}-dump": tmp_path / f"{dump}.zip" for dump in DUMPS},
    }
    busy = replace(settings, state=tmp_path / "state", limits=Limits())
    with served(busy) as client, browser.page(script=False) as page:
        page.visit(f"{client.base_url}/compare")
        root = page.call("DOM.getDocument")["root"]["nodeId"]
        for field, path in chosen.items():
            asked = {"nodeId": root, "selector": f"[name={field}-file]"}
            node = page.call("DOM.querySelector", **asked)["nodeId"]
            page.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)
        page.click("#name")
        page.write("from-here")
        page.press("Enter")
        page.until("document.querySelector('h1 .job.ended')")
        page.click("#live p a.op")
        page.until("location.pathname === '/runs/from-here' && document.querySelector('.origins')")
