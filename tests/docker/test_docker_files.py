"""The files of docker/, without a Docker engine: linters, and the same settings on a real server.

docs/how-to/teams.md says what was not run.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import trustme
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.scale.local_neo4j import local_server
from divergraph.server.serve_command import serve_command
from graphstore.neo4j.local_server.jars import LTS
from graphstore.open_store import open_store

FOLDER = Path(__file__).parents[2] / "docker"
BIN = Path(sys.executable).parent
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
COMPOSE = sorted(FOLDER.glob("compose*.yaml"))
YAML_RULES = (
    "{extends: default, rules: {document-start: disable, "
    "line-length: {max: 100, allow-non-breakable-words: true}}}"
)


def run(*command: object) -> None:
    done = subprocess.run(
        [shutil.which(str(command[0]), path=str(BIN)) or "", *map(str, command[1:])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def service(name: str, path: Path = FOLDER / "compose.yaml") -> dict:
    return yaml.safe_load(path.read_text())["services"][name]


def test_the_dockerfile_has_no_faults():
    run("hadolint", FOLDER / "Dockerfile")


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_compose_files_have_no_faults(path):
    run("yamllint", "--strict", "-d", YAML_RULES, path)
    run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", path)


def test_versions_are_exact():
    assert service("neo4j")["image"] == f"neo4j:{LTS}-community"
    base = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert len(base) == 1
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", base[0])
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${BASE}"] * 2


def locked(name: str) -> list[Requirement]:
    """What a lock file pins, each with its hashes."""
    text = (FOLDER / name).read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert all(re.search(r" --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    return [Requirement(line.partition(" --hash")[0]) for line in lines]


def test_the_image_has_exactly_what_the_package_needs():
    """Each lock says how it was made; pip takes nothing but these files."""
    package = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())
    extras = package["project"]["optional-dependencies"]
    needed = [*package["project"]["dependencies"], *extras["neo4j"], *extras["server"]]
    builders = package["build-system"]["requires"]
    for name, wanted in (("requirements.lock", needed), ("build.lock", builders)):
        pins = locked(name)
        for requirement in map(Requirement, wanted):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                found = [pin for pin in pins if is_pin_of(pin, requirement)]
                assert len(found) == 1, f"{requirement} in {name}: make it as its first lines say"
        assert "tensorflow" not in {pin.name for pin in pins}
        assert f"--generate-hashes -o docker/{name}" in (FOLDER / name).read_text()
        assert f"--require-hashes -r docker/{name}" in DOCKERFILE
    assert DOCKERFILE.count("pip install --no-cache-dir --require-hashes") == 2
    assert DOCKERFILE.count("pip install") == 3  # the third is our own wheel, without the index


def is_pin_of(pin: Requirement, requirement: Requirement) -> bool:
    """Whether *pin* gives *requirement* on this Python, in a version it takes."""
    names = {canonicalize_name(each.name) for each in (pin, requirement)}
    here = pin.marker is None or pin.marker.evaluate()
    (version,) = (each.version for each in pin.specifier)
    return len(names) == 1 and here and requirement.specifier.contains(version)


def test_the_server_has_one_port_and_a_health_check():
    (port,) = (each.default for each in serve_command.params if each.name == "port")
    server = service("server")
    assert server["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert f"http://127.0.0.1:{port}/readyz" in server["healthcheck"]["test"][-1]
    assert re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE) == [str(port)]
    compile(server["healthcheck"]["test"][-1], "health check", "exec")
    serve_command.make_context("serve", server["command"][1:]).close()


@pytest.mark.parametrize("name", ["divergraph", "server"])
def test_an_image_writes_into_volumes_only(name):
    """Its home has tokens, jobs and caches."""
    own = service(name)
    assert own["read_only"] is True
    assert own["tmpfs"] == ["/tmp:mode=1777"]
    targets = [each.partition(":")[2] for each in own["volumes"][1:]]
    assert targets == re.findall(r"HOME=(\S+)", DOCKERFILE)
    assert own["volumes"][0].endswith(":/data:ro")


def test_nothing_runs_as_root():
    assert service("neo4j")["user"] == "7474:7474"
    users = re.findall(r"^USER (\d+)", DOCKERFILE, re.MULTILINE)
    assert users
    assert "0" not in users
    for name in ("neo4j", "divergraph", "server"):
        assert service(name)["cap_drop"] == ["ALL"]


def test_there_is_no_password_but_the_users():
    """Compose refuses to start where ``:?`` finds nothing; no command line has one."""
    for name in ("neo4j", "divergraph", "server"):
        entries = [str(value) for value in service(name)["environment"].values()]
        given = [value for value in entries if "PASSWORD" in value]
        assert len(given) == 1
        assert re.fullmatch(r"(neo4j/)?\$\{NEO4J_PASSWORD:\?[^}]+\}", given[0])
    assert "PASSWORD" not in str(service("neo4j")["healthcheck"])
    assert "PASSWORD" not in DOCKERFILE


def test_the_server_is_open_to_this_machine_only():
    assert service("neo4j")["ports"] == ["${NEO4J_BIND:-127.0.0.1}:7687:7687"]


def test_the_image_copies_every_package():
    copied = re.findall(r"^COPY (\w+) \w+$", DOCKERFILE, re.MULTILINE)
    assert copied == ["divergraph", "graphstore", "importers", "tui"]
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().split()
    assert {f"!{name}" for name in copied} <= set(ignored)


def wait_for(url: str) -> None:
    """Return when the page is there; the test's time limit ends a vain wait."""
    while True:
        try:
            with urlopen(url) as answer:
                assert answer.status == 200
                return
        except URLError:
            time.sleep(0.2)


def settings(path: Path, folder: Path) -> dict[str, str]:
    """The server's settings in a compose file, as Neo4j's image makes them of the variables."""
    found = {}
    for name, value in service("neo4j", path)["environment"].items():
        if name != "NEO4J_AUTH":
            key = name.removeprefix("NEO4J_").replace("__", "\0").replace("_", ".")
            plain = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)
            found[key.replace("\0", "_")] = plain.replace("/certificates", str(folder))
    return found


@pytest.mark.exhaustive
@pytest.mark.timeout(900)  # a busy machine is no failure
@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j-access")
def test_a_real_server_takes_the_settings(tmp_path, monkeypatch):
    """It would refuse unknown ones; the web port of the health check answers."""
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "private.key")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "public.crt")
    given = {}
    for path in COMPOSE:
        given |= settings(path, tmp_path)
    assert given["server.bolt.tls_level"] == "REQUIRED"
    assert given["server.memory.heap.max_size"] == "1g"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        web = f"127.0.0.1:{probe.getsockname()[1]}"
    given |= {"server.http.enabled": "true", "server.http.listen_address": web}
    with local_server(tmp_path / "home", version=LTS, settings=given) as server:
        wait_for(f"http://{web}")  # what the health check asks; it comes after Bolt
        monkeypatch.setenv("NEO4J_PASSWORD", server.password)
        with open_store(server.url) as store:
            assert server.url.startswith("bolt+ssc://")
            assert store.runs() == []
