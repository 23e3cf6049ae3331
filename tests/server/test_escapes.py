"""Paths that would lead out of a root, and secrets that would be told: neither happens."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from served import served

from divergraph.api.demo import demo_data
from divergraph.server.settings import Limits, ServerSettings
from divergraph.server.tokens import TokenFile, UserRole


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a root, ``in``, whose links lead out of it, and what nobody may read."""
    place = tmp_path_factory.mktemp("escapes")
    root = place / "in"
    shutil.copytree(demo_data().device, root / "net")
    (place / "secret").write_text("nobody is told")
    (place / "in-beside").mkdir()
    (place / "in-beside" / "secret").write_text("nobody is told")
    (root / "link").symlink_to(place / "secret")
    (root / "relative").symlink_to("../secret")
    (root / "folder").symlink_to(place)
    (root / "system").symlink_to("/etc")
    (root / "device").symlink_to("/dev/zero")
    (root / "itself").symlink_to(root / "itself")
    (root / "far").symlink_to(root / "link")
    (root / "holds").mkdir()
    (root / "holds" / "link").symlink_to(place / "secret")
    (root / "holds" / "deep").mkdir()
    (root / "holds" / "deep" / "up").symlink_to("../../../secret")
    os.mkfifo(root / "pipe")
    return place


@pytest.fixture(scope="module")
def client(place: Path) -> Iterator[httpx.Client]:
    settings = ServerSettings(
        str(place / "store"),
        tokens=place / "tokens",
        state=place / "state",
        roots=(("in", place / "in"), ("other", place / "in-beside")),
        limits=Limits(jobs=0),
    )
    with served(settings) as client:
        yield client


ESCAPES = [
    *("in:..", "in:../", "in:../secret", "in:net/../../secret", "in:./../secret", "in:.././secret"),
    *("in:net/../..", "in:net/./../../secret", "in://../secret", "in:/../secret", "in:///.."),
    *("in:../in-beside/secret", "in:../in-beside", "in:../in/../secret", "in:" + "../" * 40),
    *("in:" + "../" * 40 + "etc/passwd", "in:net/" + "../" * 12 + "etc/passwd"),
    *("in:../../../../proc/self/environ", "in:../../../../proc/self/root/etc/passwd"),
    *("in:../../../../dev/zero", "in:../../../../dev/stdin", "in:../../../../proc/1/fd/0"),
    *("in:link", "in:relative", "in:folder", "in:folder/secret", "in:folder/in/../secret"),
    *("in:system", "in:system/passwd", "in:device", "in:far", "in:itself", "in:itself/x"),
    *("in:holds", "in:holds/link", "in:holds/deep", "in:holds/deep/up", "in:pipe", "in:./pipe"),
    *("/etc/passwd", "etc/passwd", "../secret", ".", "..", "~", "~root", "file:///etc/passwd"),
    *("IN:net", "In:net", "in", "in;net", ":net", " in:net", "in :net", "in\\:net", "net", ""),
    *(
        "in:../state",
        "in:../state/jobs.sqlite",
        "in:../tokens",
        "in:../store",
        "in:../state/uploads",
    ),
    *("uploads:", "uploads:..", "uploads:../jobs", "uploads:.", "uploads:x/../../jobs.sqlite"),
    *("uploads:/etc/passwd", "uploads:.part-x", "Uploads:x", "uploads:" + "0" * 32),
    *("other:../in/net", "other:../secret", "none:x", "http://127.0.0.1/x"),
    *("in:\0", "in:net\0/../../secret", "in:../secret\0.json", "in:%2e%2e/secret\0"),
    *("in:" + "a" * 5000, "in:" + "a/" * 3000),
]
WORDS = ("root", "none of the server", "no upload named", "no file and no folder", "is needed")


@pytest.mark.parametrize("text", ESCAPES, ids=lambda text: text[:30])
def test_a_path_that_leads_out_of_a_root_is_refused(
    client: httpx.Client, place: Path, text: str
) -> None:
    jobs = client.get("/v1/jobs").json()
    answer = client.post("/v1/jobs", json={"command": "import", "options": {"path": text}})
    problem = answer.json()
    assert answer.status_code in (400, 403, 404), answer.text
    assert any(word in problem["detail"] for word in WORDS), problem
    assert str(place) not in answer.text
    assert "nobody is told" not in answer.text
    assert client.get("/v1/jobs").json() == jobs


@pytest.mark.parametrize(
    "text", ["in:%2e%2e/secret", "in:..%2fsecret", "in:%2e%2e%2fsecret", "in:..\u2215secret"]
)
def test_what_is_encoded_twice_is_a_name(client: httpx.Client, text: str) -> None:
    """Nothing decodes a path of a job: this is a file that is not there."""
    asked = client.post("/v1/jobs", json={"command": "import", "options": {"path": text}})
    assert asked.status_code == 400
    assert "there is no such file or folder" in asked.text


@pytest.mark.parametrize(
    "address",
    [
        *("/../secret", "/..%2fsecret", "/%2e%2e/secret", "/v1/../../secret", "/v1/runs/..%2f.."),
        *("/v1/runs/%2e%2e%2f%2e%2e/ops", "/v1/runs/x%00/ops", "/static/../pages/routes.py"),
        *("/static/..%2froutes.py", "/static/%2e%2e/routes.py", "/v1/jobs/..%2fx/answer"),
        *("/v1/jobs/%2e%2e/answer", "/v1/uploads/..%2fjobs", "/v1/uploads/%2e%2e"),
    ],
)
def test_an_address_leads_to_no_file(client: httpx.Client, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code in (400, 404), answer.text
    assert "nobody is told" not in answer.text
    assert "import" not in answer.text


@pytest.mark.slow
def test_secrets_are_in_no_log_and_no_process_list(place: Path, tmp_path: Path) -> None:
    """Neither a token nor a password of the store, whatever is asked with them."""
    token = TokenFile(tmp_path / "tokens").add("ann", UserRole.ANALYST)
    password = "a-password-of-the-store"
    command = [
        *(sys.executable, "-m", "divergraph", "serve", "--port", "0", "--json", "--behind-proxy"),
        *("--store", str(tmp_path / "store"), "--state", str(tmp_path / "state")),
        *("--tokens", str(tmp_path / "tokens"), "--root", f"in={place / 'in'}"),
    ]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "NEO4J_PASSWORD": password},
        )
    try:
        assert server.stdout is not None
        said = b""
        while not said.endswith(b"}\n"):
            said += server.stdout.readline()
        headers = {"Authorization": f"Bearer {token}"}
        url = json.loads(said)["url"]
        with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60) as client:
            client.get(f"/v1/runs?token={token}")
            client.get("/v1/runs", headers={"Authorization": f"Basic {token}"})
            job = {"command": "import", "options": {"path": "in:net", "name": "net"}}
            asked = client.post("/v1/jobs", json=job).json()["id"]
            end = time.monotonic() + 120
            listed = b""
            while client.get(f"/v1/jobs/{asked}").json()["ended"] is None:
                for each in Path("/proc").glob("[0-9]*/cmdline"):
                    try:
                        listed += each.read_bytes()
                    except OSError:  # it has just ended
                        continue
                assert time.monotonic() < end
    finally:
        server.terminate()
        server.wait(60)
        assert server.stdout is not None
        server.stdout.close()
    told = (tmp_path / "log").read_bytes() + listed
    told += b"".join(
        each.read_bytes() for each in (tmp_path / "state").rglob("*") if each.is_file()
    )
    assert b"serve" in listed
    for secret in (token, token.removeprefix("dg_"), password):
        assert secret.encode() not in told
