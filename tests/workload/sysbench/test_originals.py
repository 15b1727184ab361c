"""Every microbenchmark against the original scripts: texts, calls per event and rows per call.

The tables of this page are taken from the scripts (sysbench's `oltp_*.lua` and those of mdcallag/mytools,
bench/sysbench.lua, with the options of its `run.sh`), not from the code that is tested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.features import NEWEST
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step
from pgstrata.workload.sysbench.steps import ALL, SysbenchOptions
from support.steps import database, forget_calls, run_phase, run_step, statement_rows, with_transactions

SYSBENCH = catalog.find("sysbench")
DOCS = Path(__file__).parents[3] / "docs/reference/sysbench.md"
ROWS, EVENTS = 50_000, 20

Statements = list[tuple[float, str, float]]
"""Calls per event, text with `?` for a value and `(n ?)` for a list of n, mean rows of a call."""


def ranged(size: int) -> float:
    """Mean rows of [id, id + size − 1] with id uniform: at the end of the table fewer are left."""
    return size - size * (size - 1) / 2 / ROWS


def keys(n: int) -> float:
    """Mean rows of n uniform keys: one that is drawn twice finds its row once."""
    return ROWS * (1 - (1 - 1 / ROWS) ** n)


POINT = "SELECT c FROM sbtest1 WHERE id=?"
SIMPLE = "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?"
SUM = "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?"
ORDER = "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c"
DISTINCT = "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c"
INDEX_UPDATE = "UPDATE sbtest1 SET k=k+1 WHERE id=?"
UPDATE = "UPDATE sbtest1 SET c=? WHERE id=?"

TRANSACTION: Statements = [(1, "BEGIN", 0), (1, "COMMIT", 0)]
WRITES: Statements = [
    (1, INDEX_UPDATE, 1),
    (1, UPDATE, 1),
    (1, "DELETE FROM sbtest1 WHERE id=?", 1),
    (1, "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)", 1),
]


def reads(size: int) -> Statements:
    return [
        (10, POINT, 1),
        (1, SIMPLE, ranged(size)),
        (1, SUM, 1),
        (1, ORDER, ranged(size)),
        (1, DISTINCT, ranged(size)),
    ]


ORIGINALS: dict[str, Statements] = {
    "point-query": [(1, POINT, 1)],
    "random-points=10": [(1, "SELECT c FROM sbtest1 WHERE id IN (10 ?)", keys(10))],
    "random-points=100": [(1, "SELECT c FROM sbtest1 WHERE id IN (100 ?)", keys(100))],
    "random-points=1000": [(1, "SELECT c FROM sbtest1 WHERE id IN (1000 ?)", keys(1000))],
    "hot-points": [(1, "SELECT c FROM sbtest1 WHERE id IN (100 ?)", 100)],
    "points-covered-pk": [(1, "SELECT id FROM sbtest1 WHERE id IN (100 ?)", keys(100))],
    # k is uniform over as many values as there are rows: a value has one row on average
    "points-covered-si": [(1, "SELECT k FROM sbtest1 WHERE k IN (100 ?)", keys(100))],
    "points-notcovered-pk": [(1, "SELECT id, c FROM sbtest1 WHERE id IN (100 ?)", keys(100))],
    "points-notcovered-si": [(1, "SELECT k, c FROM sbtest1 WHERE k IN (100 ?)", keys(100))],
    # these end at id + 100
    "range-covered-pk": [(1, "SELECT id FROM sbtest1 WHERE id BETWEEN ? AND ?", ranged(101))],
    "range-covered-si": [(1, "SELECT k FROM sbtest1 WHERE k BETWEEN ? AND ?", ranged(101))],
    "range-notcovered-pk": [(1, "SELECT id, c FROM sbtest1 WHERE id BETWEEN ? AND ?", ranged(101))],
    "range-notcovered-si": [(1, "SELECT k, c FROM sbtest1 WHERE k BETWEEN ? AND ?", ranged(101))],
    "scan": [(1, "SELECT * FROM sbtest1 WHERE LENGTH(c) < 0", 0)],
    "read-only=10": TRANSACTION + reads(10),
    "read-only=100": TRANSACTION + reads(100),
    "read-only=10000": TRANSACTION + reads(10_000),
    # published: 153,585,482 queries in 11,814,300 transactions, so 13 in each
    "read-only-simple": [*TRANSACTION, (10, POINT, 1), (1, SIMPLE, ranged(1000))],
    "read-only-sum": [*TRANSACTION, (10, POINT, 1), (1, SUM, 1)],
    "read-only-order": [*TRANSACTION, (10, POINT, 1), (1, ORDER, ranged(1000))],
    "read-only-distinct": [*TRANSACTION, (10, POINT, 1), (1, DISTINCT, ranged(1000))],
    "read-only-count": [(1, "SELECT count(c) FROM sbtest1 WHERE id BETWEEN ? AND ?", 1)],
    "update-inlist": [(1, "UPDATE sbtest1 SET c=? WHERE id IN (10 ?)", keys(10))],
    "update-index": [(1, INDEX_UPDATE, 1)],
    "update-nonindex": [(1, UPDATE, 1)],
    "update-one": [(1, UPDATE, 1)],
    "update-zipf": [(1, UPDATE, 1)],
    "write-only": TRANSACTION + WRITES,
    "read-write=10": TRANSACTION + reads(10) + WRITES,
    "read-write=100": TRANSACTION + reads(100) + WRITES,
    "delete": [(1, "DELETE FROM sbtest1 WHERE id=?", 1)],
    "insert": [(1, "INSERT INTO sbtest1 (k, c, pad) VALUES (?, ?, ?)", 1)],
}


def normal(text: str) -> str:
    """Values and constants as `?`, a list of n of them behind IN as `(n ?)`."""
    text = re.sub(r"\$\d+|(?<!\w)\d+\b(?! \?)", "?", text)
    return re.sub(r" IN \((\?(?:, \?)*)\)", lambda match: f" IN ({match[1].count('?')} ?)", text)


Seen = dict[str, dict[str, tuple[float, float]]]
"""Of each microbenchmark: text → calls per event, rows per call."""


@pytest.fixture(scope="module", params=[True, False], ids=["prepared", "text"])
def seen(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Seen]:
    options = {
        "prepared": request.param,
        "rows": ROWS,
        "steps": "full extras",
        "cache_seconds": 0,
        "settle_base": 0,
        "settle_per_million": 0,
    }
    by_phase: Seen = {}
    with database(cluster, "originals") as connection:
        for phase in SYSBENCH.phases(SysbenchOptions.model_validate(options), NEWEST):
            if isinstance(phase, Step) and phase.measured:
                forget_calls(connection)
                # Another stream than that of the load, as in a run: else keys are drawn that k has been.
                outcome = run_step(cluster, "originals", with_transactions(phase, EVENTS), seed=2)
                by_phase[phase.name] = {
                    normal(text): (calls / EVENTS, rows / calls)
                    for text, (calls, rows) in statement_rows(connection).items()
                    if "sbtest" in text or text in ("BEGIN", "COMMIT")
                }
                if request.param and "BEGIN" in by_phase[phase.name]:
                    # Of a prepared BEGIN the extension counts the first execution only; the driver all.
                    for name in ("BEGIN", "COMMIT"):
                        sent = outcome.statement("query", name.lower())["count"]
                        by_phase[phase.name][name] = (sent / EVENTS, 0.0)
            else:
                run_phase(cluster, "originals", phase)
        yield by_phase


def test_the_table_above_has_every_microbenchmark() -> None:
    assert {m.name.removesuffix(".pre") for m in ALL} == ORIGINALS.keys()


@pytest.mark.parametrize("name", [m.name for m in ALL])
def test_a_server_sees_what_it_sees_of_the_original(seen: Seen, name: str) -> None:
    original = ORIGINALS[name.removesuffix(".pre")]
    assert {text: calls for text, (calls, _) in seen[name].items()} == {
        normal(text): calls for calls, text, _ in original
    }
    for _, text, rows in original:
        # of random ranges and keys, the mean of 20
        assert seen[name][normal(text)][1] == pytest.approx(rows, rel=0.12), text


def test_the_documentation_has_them_beside_the_originals() -> None:
    table = re.findall(r"^\| `([^`]+)` \| `[^|]+ \| (\d+) \| ([^|]+) \|$", DOCS.read_text(), re.MULTILINE)
    assert [name for name, *_ in table] == list(ORIGINALS)
    for name, queries, _ in table:
        assert int(queries) == sum(calls for calls, *_ in ORIGINALS[name]), name
