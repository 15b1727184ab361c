"""Statements that rounds call slower, executed alone: a neighbour of a slow one is not slower."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping
from pathlib import Path

import pytest

from pgstrata.driver.client import Driver
from pgstrata.driver.events import Done
from pgstrata.measure.step import driver_spec
from pgstrata.page.results import read_results
from pgstrata.server.find.model import Server
from pgstrata.traffic.captured import Captured, Header, Statement, Writer
from pgstrata.traffic.replay.alone import (
    MOST_BYTES_OF_TEXTS,
    MOST_SAMPLES,
    MOST_TEXTS,
    TIMEOUT_SECONDS,
    alone_statements,
)
from pgstrata.traffic.replay.judged import Judged, judged
from support.interrupts import load
from support.page import PageReader
from support.program import Program
from support.steps import database, running

SLOW = "SELECT note FROM items WHERE id = $1"
"""Needs an index, which one side must not use."""

NEIGHBOUR = "UPDATE counters SET n = n + 1 WHERE id = 1"
"""Waits for a row that sessions with the slow statement hold."""

HARMLESS = "SELECT sum(g) FROM generate_series(1, 3000) g"

SCHEMA = """
CREATE TABLE items (id int PRIMARY KEY, note text);
INSERT INTO items SELECT g, md5(g::text) FROM generate_series(1, 30000) g;
CREATE TABLE counters (id int, n bigint);
INSERT INTO counters VALUES (1, 0);
"""

Asked = tuple[str, int, tuple[str, ...]]


def captured(path: Path, *sessions: list[Asked]) -> Path:
    """A captured file of such sessions."""
    with Writer(path) as writer:
        for number, statements in enumerate(sessions):
            session = writer.begin(10**15 + number, writer.database("shop"))
            for text, protocol, values in statements:
                statement = Statement(10**15, 100, protocol, writer.shape(text), text, values)
                writer.add(session, statement, common=True)
            writer.end(session)
        writer.finish(Header())
    return path


def plain(*texts: str) -> list[Asked]:
    return [(text, 0, ()) for text in texts]


def traffic(path: Path, turns: int = 40) -> Path:
    holding: list[Asked] = []
    waiting: list[Asked] = []
    for turn in range(turns):
        holding += plain("BEGIN", "UPDATE counters SET n = n + 2 WHERE id = 1")
        holding += [(SLOW, 2, (str(1 + 97 * turn + part),)) for part in range(3)]
        holding += plain("COMMIT")
        waiting += plain(NEIGHBOUR, HARMLESS)
    return captured(path, holding, waiting)


def campaign(place: Path, server: Server, *, rounds: int = 6, other_load: float = 1) -> None:
    (place / "schema.sql").write_text(SCHEMA)
    (place / "fast.conf").write_text("synchronous_commit = off\nautovacuum = off\n")
    (place / "noindex.conf").write_text("enable_indexscan = off\nenable_bitmapscan = off\n")
    traffic(place / "shop.traffic")
    (place / "a.toml").write_text(
        f"""
name = "alone"
order = "interleaved"
rounds = {rounds}
margin = 0.1
other_load = {other_load}
data_dir = "data"

[[variants]]
server = "path:{server.bin_dir}"
label = "old"
config = ["default", "fast.conf"]

[[variants]]
server = "path:{server.bin_dir}"
label = "new"
config = ["default", "fast.conf", "noindex.conf"]

[[workloads]]
name = "replay"
[workloads.options]
file = "shop.traffic"
setup = "schema.sql"
speed = 0
"""
    )


def outcome(place: Path) -> Judged:
    """What the runs prove, as the report reads it from their folders."""
    results = read_results(place / "results", "alone", "old")
    (workload,) = results.workloads
    (step,) = workload.compared
    return judged(results, step)["new"]


def executions_alone(place: Path, text: str) -> list[float]:
    """Of a statement in each turn, as the runs keep it."""
    counts = [
        part["seconds"] * part["rate"]
        for path in place.glob("results/**/run.json")
        for step in json.loads(path.read_text())["steps"]
        for statement in (step.get("alone") or {"statements": []})["statements"]
        if text in statement["name"]
        for part in statement["slices"]
    ]
    assert counts
    return counts


@pytest.mark.timeout(1200)
def test_only_the_planted_statement_is_slower(pg17: Server, place: Path, pgstrata: Program) -> None:
    campaign(place, pg17)
    done = pgstrata("run", "a.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "executed alone for 60.0 s at most" in done.stdout + done.stderr
    judged = outcome(place)
    by_text = {statement_verdict.statement.text: statement_verdict for statement_verdict in judged.statements}
    assert [statement_verdict.statement.text for statement_verdict in judged.of("slower")] == [SLOW]
    assert (judged.answers.changed, judged.answers.same) == ([], 4)  # two read, two change a row
    slow = by_text[SLOW].alone
    assert slow is not None and slow.verdict is not None
    assert slow.verdict.word == "slower" and slow.verdict.ratio < 0.5 and slow.verdict.n >= 16
    # Beside the slow one it waits for its lock, alone it does not.
    neighbour = by_text[NEIGHBOUR]
    assert neighbour.verdict.word == "unclear" and neighbour.verdict.aside, neighbour
    assert neighbour.alone is not None and neighbour.alone.verdict is not None
    assert neighbour.alone.verdict.word != "slower", neighbour.alone
    # Single turns may have been beside other programs.
    usual = statistics.median(executions_alone(place, NEIGHBOUR))
    assert usual > MOST_SAMPLES, "a turn is as long as it waited for its neighbour"
    assert neighbour.longer > 1.2
    assert neighbour.verdict.reason.startswith("slower beside the others (")
    page = PageReader(next(place.glob("results/**/*.html")))
    table = next(table for table in page.tables if table.caption.startswith("Statements on new"))
    remarks = {row[2].text: row[-1].text for row in table.rows}
    assert "alone " in remarks[SLOW] and remarks[NEIGHBOUR] == neighbour.verdict.reason


@pytest.mark.timeout(1200)
def test_nothing_is_known_of_statements_beside_busy_programs(
    pg17: Server, place: Path, pgstrata: Program
) -> None:
    """However large a difference is: beside other programs it may be theirs."""
    campaign(place, pg17, rounds=4, other_load=0.25)
    with load(len(os.sched_getaffinity(0))):
        done = pgstrata("run", "a.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "executed alone" not in done.stdout + done.stderr
    judged = outcome(place)
    assert judged.left_out >= 3 and judged.counted_rounds in (1, 4)
    assert judged.disturbance.startswith("other programs used ")
    assert judged.disturbance.endswith(f", and more than 25% in {judged.left_out} of 4 rounds")
    assert {statement.verdict.reason for statement in judged.statements} == {judged.disturbance}
    page = PageReader(next(place.glob("results/**/*.html")))
    table = next(table for table in page.tables if table.caption.startswith("Statements on new"))
    assert {row[0].text for row in table.rows} == {"not known"}
    assert f"{judged.left_out} of 4 rounds are left out" in " ".join(page.text)


@pytest.mark.timeout(1200)
def test_values_and_rollbacks(pg17: Server, tmp_path: Path) -> None:
    """Each execution alone has values of the log and what its session had set, and leaves no row."""
    change = "UPDATE items SET note = $1 WHERE id = $2"
    file = captured(
        tmp_path / "shop.traffic",
        [
            ("SET search_path = apart", 0, ()),
            *((change, 2, (f"note {n}", str(n))) for n in (1, 2)),
            *plain("BEGIN", "COMMIT", "VACUUM items", "SELECT 1; SELECT 2", "SELECT count(*) FROM nowhere"),
        ],
    )
    with Captured(file) as opened:
        texts = [shape.text for shape in opened.header.shapes]
    wanted: Mapping[int, float] = dict.fromkeys(range(len(texts)), 0.01)
    by_number = alone_statements(file, "shop", "replay", False, wanted, tmp_path)
    why = {texts[number]: alone.why_not for number, alone in by_number.items()}
    assert why[change] == "" and why["SELECT count(*) FROM nowhere"] == ""
    assert why["COMMIT"] == why["VACUUM items"] == "it is neither a query nor a change of rows"
    assert why["SELECT 1; SELECT 2"] == "it is several statements"
    statement = by_number[1]
    assert statement.step is not None
    with running(pg17) as cluster, database(cluster, "shop") as admin:
        admin.execute("CREATE SCHEMA apart")
        admin.execute("CREATE TABLE apart.items (id int, note text)")
        admin.execute("INSERT INTO apart.items VALUES (1, 'kept'), (2, 'kept')")
        with Driver(driver_spec(statement.step, cluster.connection("shop"), 1, "auto")) as driver:
            driver.ready()
            driver.start()
            done = next(event for event in driver.events() if isinstance(event, Done))
            driver.close()
        rows = admin.execute("SELECT note, xmax::text <> '0' FROM apart.items ORDER BY id").fetchall()
    (role,) = done.roles
    assert role.replay is not None and not [f for f in role.replay.failures if f.now], role.replay
    total = next(record for record in role.statements_by_name if record.number == statement.number)
    assert (total.count, total.errors, total.rows) == (10, 0, 10)
    assert rows == [("kept", True), ("kept", True)]


def test_texts_are_those_of_a_few_executions(tmp_path: Path) -> None:
    """Each once, with the values of the log, and no more than are worth it."""
    query, few = "SELECT note FROM items WHERE id = $1", 3
    asked: list[Asked] = [(query, 2, (str(n % few),)) for n in range(20)]
    large: list[Asked] = [("SELECT $1::text", 2, (str(n) * MOST_BYTES_OF_TEXTS,)) for n in range(3)]
    many: list[Asked] = [("SELECT $1::int", 2, (str(n),)) for n in range(2 * MOST_TEXTS)]
    change = ("DELETE FROM items WHERE id = $1", 2, ("1",))
    others = plain("DECLARE c CURSOR WITH HOLD FOR SELECT 'for'", "FETCH ALL FROM c", "SELECT 1; SELECT 2")
    file = captured(tmp_path / "shop.traffic", [*asked, *large, *many, change, *others])
    wanted: Mapping[int, float] = dict.fromkeys(range(7), TIMEOUT_SECONDS)
    statements = [
        alone
        for _, alone in sorted(alone_statements(file, "shop", "replay", False, wanted, tmp_path).items())
    ]
    texts = [alone.texts for alone in statements]
    assert [alone.changes for alone in statements if alone.changes] == [["DELETE FROM items WHERE id = '1'"]]
    assert [len(of_statement) for of_statement in texts] == [few, 1, MOST_TEXTS, 0, 1, 0, 0]
    assert texts[4] == ["SELECT 'for'"]
    assert texts[0] == [f"SELECT note FROM items WHERE id = '{n}'" for n in range(few)]
