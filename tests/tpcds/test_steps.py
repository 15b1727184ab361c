"""TPC-DS without a server: options, rows, keys, streams, what counts, and when two answers are one."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pgstrata.driver.events import SqlError, StatementDone
from pgstrata.driver.message import document
from pgstrata.errors import ServerError
from pgstrata.judge.common_queries import rate_of_queries
from pgstrata.server.features import NEWEST
from pgstrata.tpc import answering, data, load, reference
from pgstrata.tpc.compare import RightAnswer, close, compare
from pgstrata.tpc.options import numbers_in
from pgstrata.tpc.source import queries, tables
from pgstrata.tpcds import schema
from pgstrata.tpcds.options import TpcdsOptions
from pgstrata.tpcds.schema import TPCDS
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Admin, Step, Work
from pgstrata.workload.core.recorded import rows_from, rows_of

WORKLOAD = catalog.find("tpcds")

# --- options ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("all", list(range(1, 100))),
        ("1-3 14 95", [1, 2, 3, 14, 95]),
        ("q14, q02", [2, 14]),
        ("5 5 4-6", [4, 5, 6]),
    ],
)
def test_queries_are_chosen_by_number(text: str, numbers: list[int]) -> None:
    assert numbers_in(text, TPCDS.queries) == numbers


@pytest.mark.parametrize("text", ["0", "100", "5-3", "x", "", "1-", "1;2", "१"])
def test_what_is_no_query_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="quer"):
        TpcdsOptions(queries=text)


@given(st.text(max_size=30))
def test_any_text_is_numbers_or_refused(text: str) -> None:
    try:
        numbers = numbers_in(text, TPCDS.queries)
    except ValueError:
        return
    assert numbers == sorted(set(numbers))
    assert numbers and 1 <= numbers[0] <= numbers[-1] <= 99


# --- rows of the generator --------------------------------------------------------------------


def test_rows_are_copied_by_a_statement_that_every_version_understands() -> None:
    assert load.copy("item") == "COPY item FROM STDIN WITH DELIMITER '|' NULL ''"


cells = st.lists(st.text("ab12. ", max_size=5), min_size=1, max_size=4)


@given(st.lists(cells, max_size=20), st.integers(1, 9))
def test_the_last_delimiter_goes_wherever_chunks_end(rows: list[list[str]], chunk: int) -> None:
    source = "".join("|".join(row) + "|\n" for row in rows).encode()
    written = io.BytesIO()
    counted, size = data.without_last_delimiter(io.BytesIO(source), written.write, chunk_bytes=chunk)
    assert written.getvalue().decode() == "".join("|".join(row) + "\n" for row in rows)
    assert (counted, size) == (len(rows), len(written.getvalue()))


def test_a_disk_that_is_too_small_is_named_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path))
    with pytest.raises(ServerError, match=r" free, the data needs about 10\.\d TiB") as raised:
        data.make(TPCDS, 10_000)
    assert "smaller scale" in raised.value.hint
    assert list((tmp_path / "tpcds").iterdir()) == []


# --- the schema -------------------------------------------------------------------------------


def test_tables_and_queries_come_from_the_extension() -> None:
    assert len(tables(TPCDS)) == 24
    assert sorted(queries(TPCDS)) == list(range(1, 100))
    assert all(text.rstrip()[-1] != ";" for text in queries(TPCDS).values())


def test_every_table_has_a_key_of_its_own_columns() -> None:
    for table, columns in tables(TPCDS).items():
        names = [c.name for c in columns]
        assert set(schema.primary_key(table)) <= set(names)
        assert set(schema.joined_columns(table)) <= set(names)
    assert schema.primary_key("store_sales") == ["ss_item_sk", "ss_ticket_number"]
    assert schema.primary_key("inventory") == ["inv_date_sk", "inv_item_sk", "inv_warehouse_sk"]
    assert schema.primary_key("item") == ["i_item_sk"]
    assert schema.joined_columns("web_sales") == [
        "ws_sold_date_sk",
        "ws_ship_date_sk",
        "ws_bill_customer_sk",
        "ws_ship_customer_sk",
    ]


@pytest.mark.parametrize("connections", [1, 2, 5, 24])
def test_every_table_is_loaded_once_whatever_the_connections(connections: int) -> None:
    shares = load.spread_tables(TPCDS, connections, lambda table: [table])
    assert sorted(t for share in shares for t in share) == sorted(tables(TPCDS))
    assert len(shares) == connections
    assert all(shares)


def phases(**options: Any) -> list[Any]:
    return WORKLOAD.phases(TpcdsOptions(scale=0.01, **options), NEWEST)


def names(**options: Any) -> list[str]:
    return [p.name for p in phases(**options)]


def test_phases_follow_the_options() -> None:
    assert names() == [
        "data", "create tables", "copy", "indexes", "vacuum", "analyze", "answers", "plans", "power",
        "throughput",
    ]  # fmt: skip
    assert names(plans="none", answers=False, streams=0, warmup=1, indexes="none", vacuum="none") == [
        "data", "create tables", "copy", "analyze", "warm-up", "power",
    ]  # fmt: skip
    kinds = [type(p) for p in phases()[:2]]
    assert kinds == [Work, Admin]


def test_loads_are_compared_unless_told_otherwise() -> None:
    def compared(**options: Any) -> list[str]:
        return [p.name for p in phases(**options) if isinstance(p, Step) and p.measured]

    assert compared() == ["copy", "indexes", "vacuum", "analyze", "power", "throughput"]
    assert compared(judge_loads=False) == ["power", "throughput"]


def test_streams_run_the_same_queries_in_orders_of_their_own() -> None:
    (step,) = [p for p in phases(streams=3, passes=0, queries="1-20") if p.name == "throughput"]
    (role,) = document(step.spec())["roles"]
    branches = [branch for op in role["scripts"][0]["ops"] for branch in op["if"]]
    orders = [[op["name"] for op in ops] for _, ops in branches]
    assert [condition for condition, _ in branches] == [f":client_id = {n}" for n in range(3)]
    assert role["clients"] == len(orders) == 3
    assert all(sorted(order) == [f"q{n:02d}" for n in range(1, 21)] for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert role["start"][0]["sql"] == ["SET statement_timeout = 1800000"]


def test_texts_reach_the_driver_as_they_are() -> None:
    (step,) = [p for p in phases(queries="36", passes=2) if p.name == "power"]
    assert isinstance(step, Step)
    ops = document(step.spec())["roles"][0]["scripts"][0]["ops"]
    assert [op["sql"] for op in ops] == [[queries(TPCDS)[36]]] * 2


# --- what counts ------------------------------------------------------------------------------


def event(name: str, seconds: float, client: int = 0, sqlstate: str = "") -> StatementDone:
    error = SqlError(sqlstate=sqlstate, message=f"state {sqlstate}") if sqlstate else None
    return StatementDone(
        role="query",
        client=client,
        name=name,
        start=0.0,
        seconds=seconds,
        planning_seconds=None,
        rows=1,
        error=error,
        result=None,
    )


def test_a_query_over_its_limit_counts_twice_and_a_rejected_one_not_at_all(tmp_path: Path) -> None:
    events = [event("q01", 2.0), event("q02", 5.1, sqlstate="57014"), event("q03", 0.1, sqlstate="42601")]
    rows = rows_from(events, tmp_path, time_limit=5)
    assert [(r["query"], r["seconds"], r["timed_out"], r["sqlstate"]) for r in rows] == [
        ("q01", 2.0, False, None),
        ("q02", 10.0, True, "57014"),
        ("q03", 0.1, False, "42601"),
    ]
    assert rate_of_queries(rows) == pytest.approx(2 * 3600 / 12.0)


def test_the_longest_stream_says_how_long_a_throughput_run_took(tmp_path: Path) -> None:
    events = [event("q01", 2.0, 0), event("q02", 1.0, 0), event("q02", 4.0, 1), event("q01", 1.0, 1)]
    rows = rows_from(events, tmp_path, time_limit=60)
    assert [(r["stream"], r["execution"]) for r in rows] == [(1, 1), (1, 1), (2, 1), (2, 1)]
    assert rate_of_queries(rows) == pytest.approx(4 * 3600 / 5.0)
    assert rate_of_queries([]) is None


# --- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("1.50", "1.5", True),
        ("0.333333333333", "0.33333333", True),
        ("100", "100.0002", False),
        ("100000000", "100000001", True),
        ("1e-12", "0", True),
        ("NaN", "nan", True),
        ("NaN", "1", False),
        (None, "", False),
        (None, None, True),
        ("a", "b", False),
        ("2000-01-01", "2000-01-02", False),
    ],
)
def test_numbers_are_equal_to_a_tolerance(a: str | None, b: str | None, same: bool) -> None:
    assert close(a, b) is close(b, a) is same


RIGHT = RightAnswer([["a", "1"], ["b", "2"], ["c", "2"], ["d", "3"], ["e", "3"]], [0, 1, 1, 2, 2], limit=4)


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([["a", "1"], ["b", "2"], ["c", "2"], ["d", "3"]], "same"),
        ([["a", "1"], ["c", "2.0"], ["b", "2"], ["e", "3"]], "same"),
        ([["b", "2"], ["a", "1"], ["c", "2"], ["d", "3"]], "different"),
        ([["a", "1"], ["b", "2"], ["b", "2"], ["d", "3"]], "different"),
        ([["a", "1"], ["b", "2"], ["c", "2"]], "different"),
        ([["a", "1"], ["b", "2"], ["c", "2"], ["f", "3"]], "different"),
        ([["a", "1"], ["b", "2"], ["c", "2"], ["d", "3", "x"]], "different"),
    ],
)
def test_order_counts_where_the_query_orders(rows: list[list[str | None]], verdict: str) -> None:
    assert compare(rows, RIGHT) == verdict


values = st.one_of(
    st.none(), st.integers(-5, 5).map(str), st.floats(-1e6, 1e6).map(repr), st.text("xyz", max_size=2)
)


@given(st.lists(st.lists(values, min_size=2, max_size=2), max_size=12), st.randoms())
def test_without_an_order_any_order_is_the_same(rows: list[list[str | None]], dice: Any) -> None:
    mixed = list(rows)
    dice.shuffle(mixed)
    assert compare(mixed, RightAnswer(rows, [0] * len(rows))) == "same"
    if rows:
        assert compare(mixed[1:], RightAnswer(rows, [0] * len(rows))) == "different"
        changed: list[list[str | None]] = [["nowhere", "7e9"], *mixed[1:]]
        assert compare(changed, RightAnswer(rows, [0] * len(rows))) == "different"


@given(st.lists(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_characters="\0"), max_size=8)),
                         min_size=1, max_size=3), max_size=5))  # fmt: skip
def test_results_are_read_as_the_driver_writes_them(rows: list[list[str | None]]) -> None:
    def cell(value: str | None) -> str:
        if value is None:
            return "\\N"
        for raw, escaped in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
            value = value.replace(raw, escaped)
        return value

    text = "".join("\t".join(map(cell, row)) + "\n" for row in rows)
    assert rows_of(text) == rows


# --- the reference ----------------------------------------------------------------------------


@pytest.fixture
def small() -> Any:
    with duckdb.connect(":memory:") as connection:
        answering.reckon_as_postgres(connection)
        connection.execute(
            "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a', 1.0), (2, 'b', 1.0), (3, 'c', 2.0), "
            "(4, 'd', 2.0), (5, 'e', NULL)) AS v(i, s, d)"
        )
        yield connection


def test_an_answer_keeps_the_ties_of_its_last_row(small: Any) -> None:
    answer = answering.ask(small, "SELECT s FROM t ORDER BY d LIMIT 3")
    assert answer.rows == [["a"], ["b"], ["c"], ["d"]]
    assert (answer.groups, answer.limit) == ([0, 0, 1, 1], 3)
    assert compare([["b"], ["a"], ["d"]], answer) == "same"
    assert compare([["b"], ["a"], ["e"]], answer) == "different"


def test_keys_may_be_columns_positions_or_expressions(small: Any) -> None:
    by_position = answering.ask(small, "SELECT s, i FROM t ORDER BY 2 DESC LIMIT 2")
    assert by_position.rows == [["e", "5"], ["d", "4"]]
    assert by_position.groups == [0, 1]
    by_expression = answering.ask(small, "SELECT s FROM t ORDER BY i % 2, s LIMIT 2")
    assert by_expression.rows == [["b"], ["d"]]
    by_alias = answering.ask(small, "SELECT -i AS s FROM t ORDER BY s LIMIT 1")
    assert by_alias.rows == [["-5"]]
    aggregate = answering.ask(small, "SELECT d, count(*) FROM t GROUP BY d ORDER BY sum(i) DESC, d")
    assert [r[0] for r in aggregate.rows] == ["2.0", None, "1.0"]


def test_without_an_order_all_rows_are_one_group(small: Any) -> None:
    answer = answering.ask(small, "SELECT s FROM t LIMIT 2")
    assert set(answer.groups) == {0}
    assert compare([["e"], ["c"]], answer) == "same"
    assert compare([["e"], ["e"]], answer) == "different"


def test_what_is_not_one_select_is_refused(small: Any) -> None:
    with pytest.raises(ValueError, match="not one SELECT"):
        answering.ask(small, "SELECT 1; SELECT 2")


def test_duckdb_reckons_as_postgres_does(small: Any) -> None:
    answer = answering.ask(
        small,
        "SELECT round(23 * 1.00 / 40, 2), round(-41 * 1.00 / 40, 2), round(0.5749999, 2), round(2.5), 7 / 2",
    )
    assert compare([["0.58", "-1.03", "0.57", "3", "3"]], answer) == "same"
    assert compare([["0.57", "-1.03", "0.57", "3", "3"]], answer) == "different"


def test_an_answer_that_failed_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path))
    folder = reference.folder(TPCDS, 1)
    folder.mkdir(parents=True)
    (folder / "q01.json").write_text(json.dumps({"error": "Out of Memory"}))
    (folder / "q02.json").write_text('{"rows": [["1"')
    assert [reference.answer(TPCDS, 1, n) for n in (1, 2, 3)] == [None, None, None]


@pytest.mark.program
def test_a_disk_that_becomes_full_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path))
    generate = data._generate
    monkeypatch.setattr(
        data,
        "_generate",
        lambda benchmark, scale, table, to, check: generate(
            benchmark, scale, table, Path("/dev/full"), check
        ),
    )
    with pytest.raises(ServerError, match="became full") as raised:
        data.make(TPCDS, 0.01)
    assert "PGSTRATA_CACHE" in raised.value.hint
    assert list((tmp_path / "tpcds").iterdir()) == []


@pytest.mark.program
def test_what_a_killed_generator_left_is_removed_and_damage_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path))
    monkeypatch.setattr(data, "tables", lambda benchmark: {"reason": (), "income_band": ()})
    dead = tmp_path / "tpcds" / ".sf0.01-x.building-999999999"
    dead.mkdir(parents=True)
    (data.folder(TPCDS, 0.01)).mkdir()  # whole folders say what is in them, and this one does not
    facts = data.make(TPCDS, 0.01)
    assert facts["tables"]["income_band"]["rows"] == 20
    assert data.file(TPCDS, 0.01, "income_band").read_text().splitlines()[0] == "1|0|10000"
    assert [p.name for p in (tmp_path / "tpcds").iterdir()] == [data.folder(TPCDS, 0.01).name]
    assert data.make(TPCDS, 0.01, check=lambda: pytest.fail("made twice")) == facts
