from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstrata.errors import StoreError, UsageError
from pgstrata.store import Results, RunKey
from pgstrata.store.ask import plain, query
from pgstrata.store.views import connect
from support.parquet_files import write_parquet
from support.runs import INSERT_STEPS, VARIANTS, clone_run, make_campaign, make_run, sum_anew

# docs/reference/results.md promises these, in this order; more may follow
CONTRACT = {
    "runs": "run_id campaign variant server version config workload repeat status started finished host "
    "error path",
    "steps": "run_id campaign variant server config workload step step_order step_group repeat measured rate "
    "rate_unit role operations rows seconds target_rate background_rate sla_met engine driver_cpu_seconds "
    "server_cpu_seconds wal_bytes database_bytes max_seconds p50_seconds p95_seconds p99_seconds",
    "series": "run_id step role second seconds operations transactions statements rows errors retries "
    "p50_seconds p95_seconds p99_seconds max_seconds histogram",
    "histograms": "run_id step role bucket bucket_order up_to_seconds responses share",
    "backends": "run_id step role client pid cpu_seconds",
    "host": "run_id step second cpu_user cpu_system cpu_iowait cpu_steal cpu_idle context_switches "
    "disk_reads disk_read_bytes disk_writes disk_write_bytes memory_used_bytes page_cache_bytes "
    "server_rss_bytes",
    "pgstat": "run_id step view object counter before after",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two variants, one with a failed run and a missed SLA. Not to be written to."""
    root = tmp_path_factory.mktemp("it's a folder") / "results"
    make_campaign(root, seconds=3, missed=[(VARIANTS[0], "qr1000")])
    make_run(root, RunKey("insert-cached", "pg18.0.x10a", "insert", 1), seconds=2, failed_after="l.x")
    make_run(root, RunKey("theirs", "dsn17.2", "insert", 1), seconds=2, managed=False)
    return root


def value_of(root: Path, sql: str) -> object:
    ((value,),) = query(root, sql).rows
    return value


# --- the contract -----------------------------------------------------------------------------


@pytest.mark.parametrize("view", CONTRACT)
def test_views_have_the_promised_columns(root: Path, view: str) -> None:
    answer = query(root, f"select * from {view}")
    promised = CONTRACT[view].split()
    assert answer.columns[: len(promised)] == promised
    assert answer.rows


@pytest.mark.parametrize("view", CONTRACT)
def test_an_empty_folder_has_the_same_columns_and_types(root: Path, tmp_path: Path, view: str) -> None:
    assert query(tmp_path, f"describe {view}").rows == query(root, f"describe {view}").rows
    assert value_of(tmp_path, f"select count(*) from {view}") == 0


@pytest.mark.parametrize(
    ("view", "column", "kind"),
    [
        ("runs", "started", "TIMESTAMP"),
        ("runs", "repeat", "BIGINT"),
        ("steps", "rate", "DOUBLE"),
        ("steps", "sla_met", "BOOLEAN"),
        ("steps", "wal_bytes", "BIGINT"),
        ("series", "second", "BIGINT"),
        ("series", "max_seconds", "DOUBLE"),
        ("pgstat", "after", "DOUBLE"),
    ],
)
def test_types(root: Path, view: str, column: str, kind: str) -> None:
    types = {row[0]: row[1] for row in query(root, f"describe {view}").rows}
    assert types[column] == kind


def test_documented_columns_are_the_tested_ones() -> None:
    text = (Path(__file__).parents[2] / "docs/reference/results.md").read_text()
    for view, columns in CONTRACT.items():
        assert f"`{view}({', '.join(columns.split())}" in text


# --- what the views say -----------------------------------------------------------------------


def test_steps_say_what_run_json_says(root: Path) -> None:
    columns = "run_id, step, rate, sla_met, server_cpu_seconds, database_bytes, p99_seconds, started"
    rows = query(root, f"select {columns} from steps").rows
    expected = {
        (
            run.run_id,
            step.name,
            step.rate,
            step.sla_met,
            step.server_cpu_seconds,
            step.sizes.database_bytes,
            step.headline.latency.p99,
            datetime.fromisoformat(step.started).astimezone(UTC).replace(tzinfo=None),
        )
        for run in Results(root).runs()
        for step in run.steps
    }
    assert set(rows) == expected
    assert len(rows) == 2 * len(INSERT_STEPS) + 2 + len(INSERT_STEPS)


def test_runs_say_which_failed_and_why(root: Path) -> None:
    rows = query(root, "select variant, status, error from runs where status <> 'done'").rows
    assert rows == [("pg18.0.x10a", "failed", "the server died in step l.x")]


def test_series_add_up_to_steps(root: Path) -> None:
    sql = """
        select count(*) from steps join (
            select run_id, step, role, sum(operations) as operations, sum(rows) as rows
            from series group by all
        ) as added using (run_id, step, role)
        where added.operations = steps.operations and added.rows = steps.rows
    """
    assert value_of(root, sql) == value_of(root, "select count(*) from steps")


def test_buckets_hold_all_responses(root: Path) -> None:
    sql = """
        select count(*) filter (where abs(share - 1) > 1e-9), count(*) from (
            select sum(share) as share, sum(responses) from histograms group by run_id, step, role
        )
    """
    ((wrong, all_of_them),) = query(root, sql).rows
    assert wrong == 0
    assert all_of_them > len(INSERT_STEPS)


def test_a_server_that_is_not_ours_has_no_host_figures(root: Path) -> None:
    sql = """
        select count(host.second), count(steps.server_cpu_seconds), count(*)
        from runs join steps using (run_id) left join host using (run_id) where runs.campaign = 'theirs'
    """
    assert query(root, sql).rows == [(0, 0, len(INSERT_STEPS))]


def test_folders_of_an_older_pgstrata_lack_columns_and_have_null(root: Path, tmp_path: Path) -> None:
    (run, *_) = Results(root).runs()
    folder = clone_run(tmp_path, run.folder, RunKey("old", "v", "insert", 1))
    path = folder / "series.parquet"
    older = path.with_suffix(".older")
    write_parquet(older, f"SELECT * EXCLUDE (retries), 1 AS new_figure FROM read_parquet('{path}')").replace(
        path
    )
    sum_anew(folder)
    clone_run(tmp_path, run.folder, RunKey("new", "v", "insert", 1))
    sql = (
        "select campaign, count(retries), count(*) from series join runs using (run_id) group by 1 order by 1"
    )
    new, old = query(tmp_path, sql).rows
    assert old[1] == 0
    assert new[1] == new[2] == old[2]


def test_a_name_is_data_also_where_sql_is_made(tmp_path: Path, root: Path) -> None:
    (run, *_) = Results(root).runs()
    key = RunKey("'; drop table runs; --", 'a"b', "${x}", 1)
    clone_run(tmp_path, run.folder, key)
    assert query(tmp_path, "select campaign, variant, workload from runs").rows == [
        (key.campaign, key.variant, key.workload)
    ]


# --- what a query may do ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "from steps select variant, median(rate) group by all",
        "with s as (select * from steps) select count(*) from s; select 1;",
        "create temp table fast as select * from steps where rate > 1; select count(*) from fast",
        "pivot (select variant, step, rate from steps) on step using median(rate)",
        "explain select * from series",
        "explain analyze select 1",
        "show tables",
        "summarize steps",
        "set variable x = 5; select getvariable('x')",
    ],
)
def test_sql_of_many_kinds(root: Path, sql: str) -> None:
    assert query(root, sql).rows


@pytest.mark.parametrize(
    "sql",
    [
        "copy (select 1) to '{root}/x'",
        "select 1; copy (select 1) to '{root}/x'",
        "explain analyze copy (select 1) to '{root}/x'",
        "EXPLAIN (ANALYZE, FORMAT JSON) copy (select 1) to '{root}/x'",
        "/* */ explain analyze copy (select 1) to '{root}/x'",
        "explain /* */ analyze copy (select 1) to '{root}/x'",
        "select 1; explain analyze copy (select 1) to '{root}/x'",
        "prepare p as copy (select 1) to '{root}/x'; execute p",
        "export database '{root}/x'",
        "attach '{root}/x'",
        "attach ':memory:' as more",
        "install httpfs",
        "load httpfs",
        "select * from read_text('/etc/passwd')",
        "select * from read_text('{root}/../../../../../../../etc/passwd')",
        "select * from glob('/etc/*')",
        "select * from read_csv('https://example.org/x.csv')",
        "select * from '/etc/passwd'",
        "set enable_external_access = true",
        "set allowed_directories = ['/']",
        "reset lock_configuration",
        "create table t as select * from read_text('/etc/passwd')",
        "select * from query('copy (select 1) to ''{root}/x''')",
        "create persistent secret s (type s3, key_id 'a', secret 'b')",
        "select * from runs_of_python",
        "",
        ";",
        "-- nothing",
        "selec 1",
        "select nothing from runs",
        "select * from nowhere",
        "explain",
        "select 1/*",
        "select '\0' from",
    ],
)
def test_a_query_reads_results_and_nothing_else(root: Path, sql: str) -> None:
    runs_of_python = [(1,)]
    before = sorted(root.rglob("*"))
    with pytest.raises(UsageError) as caught:
        query(root, sql.replace("{root}", str(root).replace("'", "''")))
    assert caught.value.message
    assert caught.value.hint
    assert sorted(root.rglob("*")) == before
    assert runs_of_python


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(st.text(max_size=40))
def test_no_text_breaks_the_query(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    try:
        query(tmp_path_factory.getbasetemp(), text)
    except UsageError as error:
        assert error.message


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no results folder"):
        query(tmp_path / "none", "select 1")


def test_a_damaged_table_takes_its_run_out_of_the_answer(root: Path, tmp_path: Path) -> None:
    (run, *_) = Results(root).runs()
    sound = clone_run(tmp_path, run.folder, RunKey("c", "v", "insert", 2))
    folder = clone_run(tmp_path, run.folder, RunKey("c", "v", "insert", 1))
    path = folder / "series.parquet"
    data = bytearray(path.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    path.write_bytes(bytes(data))
    answer = query(tmp_path, "select run_id, max(histogram), max(max_seconds) from series group by 1")
    assert [row[0] for row in answer.rows] == [sound.name.split("-", 1)[1]]
    (broken,) = answer.broken
    assert str(broken) == f"{folder}: series.parquet is damaged: it is not what was stored"


def test_a_table_damaged_while_it_is_read_is_named(root: Path, tmp_path: Path) -> None:
    """As damage that came between the look at the check sums and the query."""
    (run, *_) = Results(root).runs()
    folder = clone_run(tmp_path, run.folder, RunKey("c", "v", "insert", 1))
    path = folder / "series.parquet"
    data = bytearray(path.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    path.write_bytes(bytes(data))
    sum_anew(folder)
    with pytest.raises(StoreError, match=r"series\.parquet"):
        query(tmp_path, "select max(histogram), max(max_seconds) from series")


def test_broken_runs_are_in_the_answer(root: Path, tmp_path: Path) -> None:
    (run, *_) = Results(root).runs()
    folder = clone_run(tmp_path, run.folder, RunKey("c", "v", "insert", 1))
    (folder / "run.json").write_text("{")
    answer = query(tmp_path, "select count(*) from runs")
    assert answer.rows == [(0,)]
    assert [broken.folder for broken in answer.broken] == [folder]


def test_a_run_of_damaged_figures_is_left_out_and_named(root: Path, tmp_path: Path) -> None:
    (run, *_) = Results(root).runs()
    folder = clone_run(tmp_path, run.folder, RunKey("c", "v", "insert", 1))
    data = json.loads((folder / "run.json").read_text())
    data["steps"][0]["rate"] = "fast"
    (folder / "run.json").write_text(json.dumps(data))
    answer = query(tmp_path, "select * from steps")
    assert answer.rows == []
    (broken,) = answer.broken
    assert broken.reason == "run.json is damaged: Expected `float | null`, got `str` - at `$.steps[0].rate`"


def test_the_connection_is_open_for_more(root: Path) -> None:
    with connect(root) as connection:
        assert connection.execute("select count(*) from runs").fetchone() == (4,)
        assert connection.execute("select count(*) > 0 from series").fetchone() == (True,)


# --- values -----------------------------------------------------------------------------------


def test_values_become_plain(root: Path) -> None:
    sql = """
        select 1.50, 2.0::decimal(5, 1), date '2026-01-31', timestamp '2026-01-31 12:00:01.5',
               interval 90 minutes, 'nan'::double, 'inf'::float, null, true, [1, 2.5],
               {'a': date '2026-01-31'}, '\\x01'::blob,
               map {'k': 1}, time '12:00', 'text', sum(operations),
               uuid '00000000-0000-0000-0000-000000000001'
        from steps
    """
    ((*values, total, uuid),) = query(root, sql).rows
    assert [plain(value) for value in values] == [
        1.5,
        2,
        "2026-01-31",
        "2026-01-31T12:00:01.500000",
        5400.0,
        None,
        None,
        None,
        True,
        [1, 2.5],
        {"a": "2026-01-31"},
        "01",
        {"k": 1},
        "12:00:00",
        "text",
    ]
    assert isinstance(plain(total), int)
    assert plain(uuid) == "00000000-0000-0000-0000-000000000001"


@given(
    st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(),
            st.text(),
            st.binary(),
            st.dates(),
            st.datetimes(),
            st.timedeltas(),
            st.decimals(),
        ),
        lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
        max_leaves=8,
    )
)
def test_every_plain_value_is_json(value: object) -> None:
    json.dumps(plain(value), allow_nan=False)


def test_plain_keeps_what_json_has() -> None:
    assert plain(Decimal("12345678901234567890")) == 12345678901234567890
    assert plain(timedelta(days=1, milliseconds=1)) == 86400.001
    assert plain(date(2026, 1, 31)) == "2026-01-31"


def test_what_other_programs_did_beside_a_step_is_in_steps(tmp_path: Path) -> None:
    (folder,) = make_campaign(tmp_path, variants=("a",), seconds=2)
    file = folder / "run.json"
    data = json.loads(file.read_text())
    step = data["steps"][-1]
    step["disturbance"] = {"other_load": 0.4, "pressure": 0.2}
    step["cpus"] = [0, 1]
    step["slices"] = [
        {"pair": 1, "seconds": 1.0, "rate": 5.0, "waited": 0.1},
        {"pair": 2, "seconds": 3.0, "rate": 5.0, "waited": 0.5},
        {"pair": 3, "seconds": 1.0, "rate": 5.0},
    ]
    file.write_text(json.dumps(data))
    columns = "other_load, stolen, pressure, throttled, round(waited, 6), cpus"
    rows = query(tmp_path, f"SELECT {columns} FROM steps ORDER BY step_order DESC LIMIT 2").rows
    assert [tuple(row) for row in rows] == [(0.4, 0.0, 0.2, None, 0.4, "0,1"), (None,) * 6]
