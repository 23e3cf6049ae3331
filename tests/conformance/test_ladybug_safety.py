"""What the pinned embedded engine must and must not do; run before the pin moves.

The first group must pass with any engine version we ship. The second group records
defects we work around: if one of them fails, the work-around can go.
"""

from __future__ import annotations

import importlib.metadata
import math
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import ladybug
import pyarrow as pa
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

ENGINE = """
import sys, ladybug, pyarrow as pa
def opened(path, **more):
    return ladybug.Database(path, max_db_size=2**34, buffer_pool_size=2**28, **more)
def make(connection):
    connection.execute("CREATE NODE TABLE Op(id STRING, a INT64, m BOOLEAN, PRIMARY KEY(id))")
    connection.execute("CREATE REL TABLE FEEDS(FROM Op TO Op, port INT64)")
def fill(connection, size):
    ids = [f"op{n}" for n in range(size)]
    ops = pa.table({"id": ids, "a": list(range(size)), "m": [True] * size})
    connection.execute("COPY Op FROM $rows", {"rows": ops})
    feeds = pa.table({"from": ids[:-1], "to": ids[1:], "port": [0] * (size - 1)})
    connection.execute("COPY FEEDS FROM $rows", {"rows": feeds})
"""


def run_child(code: str, *args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ENGINE + code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def said_by(code: str, *args: object) -> str:
    done = run_child(code, *args)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr}"
    return done.stdout.strip()


def chain(path: Path, size: int) -> ladybug.Connection:
    said_by(
        "c = ladybug.Connection(opened(sys.argv[1])); make(c); fill(c, int(sys.argv[2]))",
        path,
        size,
    )
    database = ladybug.Database(path, read_only=True, max_db_size=2**34, buffer_pool_size=2**28)
    return ladybug.Connection(database)


class TestMustHold:
    """Without these no version of the engine is usable for us."""

    def test_delete_then_copy_does_not_crash(self, tmp_path: Path) -> None:
        code = """
c = ladybug.Connection(opened(sys.argv[1]))
make(c)
for n in range(3):
    fill(c, 5000)
    c.execute("MATCH (o:Op) DETACH DELETE o")
fill(c, 5000)
print(c.execute("MATCH (a:Op)-[f:FEEDS]->(b:Op) RETURN count(f)").get_all())
"""
        assert said_by(code, tmp_path / "g.lbug") == "[[4999]]"

    def test_a_killed_writer_leaves_a_readable_file(self, tmp_path: Path) -> None:
        code = """
c = ladybug.Connection(opened(sys.argv[1]))
make(c)
print("ready", flush=True)
n = 0
while True:
    c.execute("CREATE (:Op {id: $id, a: $n})", {"id": f"op{n}", "n": n})
    n += 1
    print(n, flush=True)
"""
        path = tmp_path / "g.lbug"
        process = subprocess.Popen(
            [sys.executable, "-c", ENGINE + code, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGKILL)
        acknowledged = int((process.communicate()[0].split() or ["0"])[-1])
        count = "c = ladybug.Connection(opened(sys.argv[1]))\n"
        count += "print(c.execute('MATCH (o:Op) RETURN count(*)').get_all()[0][0])"
        assert int(said_by(count, path)) >= acknowledged

    def test_a_second_process_reads_while_this_one_does(self, tmp_path: Path) -> None:
        connection = chain(tmp_path / "g.lbug", 50)
        count = "c = ladybug.Connection(opened(sys.argv[1], read_only=True))\n"
        count += "print(c.execute('MATCH (o:Op) RETURN count(*)').get_all())"
        assert said_by(count, tmp_path / "g.lbug") == "[[50]]"
        assert connection.execute("MATCH (o:Op) RETURN count(*)").get_all() == [[50]]

    def test_read_only_refuses_to_write(self, tmp_path: Path) -> None:
        connection = chain(tmp_path / "g.lbug", 5)
        for cypher in ("CREATE (:Op {id: 'x'})", "MATCH (o:Op) DETACH DELETE o"):
            with pytest.raises(RuntimeError, match="read-only"):
                connection.execute(cypher)

    def test_a_limited_address_space_is_enough(self, tmp_path: Path) -> None:
        code = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2**35, 2**35))
c = ladybug.Connection(opened(sys.argv[1]))
make(c); fill(c, 100)
print(c.execute("MATCH (o:Op) RETURN count(*)").get_all())
"""
        assert said_by(code, tmp_path / "g.lbug") == "[[100]]"

    def test_all_hops_once_the_limit_is_raised(self, tmp_path: Path) -> None:
        connection = chain(tmp_path / "g.lbug", 3000)
        connection.execute("CALL var_length_extend_max_depth=65535")
        reach = "MATCH (:Op {id: 'op0'})-[:FEEDS* SHORTEST 1..65535]->(b:Op) RETURN count(b.id)"
        assert connection.execute(reach).get_all() == [[2999]]

    def test_infinities_and_gaps_survive(self, tmp_path: Path) -> None:
        values = [math.inf, None, -math.inf, 0.1, 5e-324, None, 1.7976931348623157e308] * 50
        assert doubles_back(tmp_path / "g.lbug", values) == values


class TestKnownDefects:
    """Worked around in graphstore/embedded/engine.py and graphstore/schema/tables.py."""

    def test_thirty_hops_by_default(self, tmp_path: Path) -> None:
        connection = chain(tmp_path / "g.lbug", 100)
        reach = "MATCH (:Op {id: 'op0'})-[:FEEDS*]->(b:Op) RETURN count(DISTINCT b.id)"
        assert connection.execute(reach).get_all() == [[30]], "99 would be right"

    def test_the_hop_limit_wraps_at_16_bits(self, tmp_path: Path) -> None:
        connection = chain(tmp_path / "g.lbug", 100)
        connection.execute("CALL var_length_extend_max_depth=1000000")
        reach = "MATCH (:Op {id: 'op0'})-[:FEEDS* SHORTEST 1..65546]->(b:Op) RETURN count(b.id)"
        assert connection.execute(reach).get_all() == [[10]], "99 would be right"

    def test_a_predicate_on_shortest_also_filters_the_end(self, tmp_path: Path) -> None:
        """So no query of ours uses one."""
        connection = chain(tmp_path / "g.lbug", 10)
        inner = "MATCH (:Op {id: 'op0'})-[:FEEDS* SHORTEST 1..9 (r, n | WHERE n.a < 5)]->(b:Op) "
        found = connection.execute(inner + "RETURN b.a ORDER BY b.a").get_all()
        assert found == [[1], [2], [3], [4]], "inner nodes only would give [5] too"

    def test_distinct_spoils_the_aggregates_beside_it(self, tmp_path: Path) -> None:
        """So such queries are refused."""
        connection = chain(tmp_path / "g.lbug", 4)
        grouped = "MATCH (o:Op) RETURN o.m, count(DISTINCT o.a), count(*)"
        assert connection.execute(grouped).get_all() == [[True, 4, 0]], "4 would be right"

    def test_a_parameter_without_a_value_is_true(self, tmp_path: Path) -> None:
        """So every parameter must have one."""
        connection = chain(tmp_path / "g.lbug", 4)
        found = connection.execute("MATCH (o:Op) WHERE o.a = $x RETURN count(*)").get_all()
        assert found == [[4]], "an error would be right"

    def test_nan_before_a_gap_spoils_the_column(self, tmp_path: Path) -> None:
        """So DOUBLE columns never hold NaN."""
        values = [math.nan, None] + [0.5] * 98
        back = doubles_back(tmp_path / "g.lbug", values)
        assert all(math.isnan(value) for value in back if value is not None)


def doubles_back(path: Path, values: list[float | None]) -> list[float | None]:
    database = ladybug.Database(path, max_db_size=2**34, buffer_pool_size=2**28)
    connection = ladybug.Connection(database)
    connection.execute("CREATE NODE TABLE M(id INT64, d DOUBLE, PRIMARY KEY(id))")
    rows = pa.table({"id": list(range(len(values))), "d": pa.array(values, pa.float64())})
    connection.execute("COPY M FROM $rows", {"rows": rows})
    found = connection.execute("MATCH (m:M) RETURN m.d ORDER BY m.id").get_all()
    connection.close()
    database.close()
    return [row[0] for row in found]


def test_the_engine_is_the_pinned_one() -> None:
    """Another one is tried with $DIVERGRAPH_ANY_LADYBUG set."""
    if os.environ.get("DIVERGRAPH_ANY_LADYBUG"):
        pytest.skip(f"trying ladybug {ladybug.__version__}")
    project = Path(__file__).parents[2] / "pyproject.toml"
    needed = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
    assert f"ladybug=={importlib.metadata.version('ladybug')}" in needed
