"""The statements whose plans are asked for: one of each shape, with the values of the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pgstrata.driver.samples import Prepared, Sample
from pgstrata.traffic.captured import EXTENDED, PREPARED, SIMPLE, Header, Statement, Writer, name_of
from pgstrata.traffic.replay.samples import replayed_samples
from pgstrata.traffic.shapes import shape

Asked = tuple[str, int, tuple[str | None, ...], int, str]


def captured(path: Path, *asked: Asked, database: str = "shop") -> Path:
    """One session. asked: text, protocol, values, microseconds, SQLSTATE."""
    with Writer(path) as writer:
        session = writer.begin(10**15, writer.database(database))
        for n, (text, protocol, values, took, sqlstate) in enumerate(asked):
            number = writer.shape(shape(text).text)
            statement = Statement(10**15 + n * 1000, took, protocol, number, text, values, sqlstate)
            writer.add(session, statement, common=False)
        writer.end(session)
        writer.finish(Header())
    return path


def samples(path: Path, *asked: Asked) -> Sequence[Sample]:
    return replayed_samples(captured(path, *asked), "shop", "replay")


def test_values_stand_where_the_log_had_them(tmp_path: Path) -> None:
    log_samples = samples(
        tmp_path / "a",
        ("SELECT * FROM t WHERE a = 7 ;", SIMPLE, (), 10, ""),
        ("SELECT * FROM t WHERE b = $1 AND c = $2", EXTENDED, ("it's", None), 30, ""),
        ("UPDATE t SET a = $1", PREPARED, ("3",), 20, ""),
    )
    # Those that take most time come first: only so many plans are asked for.
    assert [sample.sql for sample in log_samples] == [
        "SELECT * FROM t WHERE b = 'it''s' AND c = NULL",
        "UPDATE t SET a = $1",
        "SELECT * FROM t WHERE a = 7",
    ]
    assert log_samples[1].prepared == Prepared("UPDATE t SET a = $1", ("unknown",), ("3",))
    assert (
        log_samples[0].prepared is None
        and log_samples[0].name == "#1 SELECT * FROM t WHERE b = $1 AND c = $2"
    )


def test_what_has_no_plan_or_would_be_executed_is_not_asked_for(tmp_path: Path) -> None:
    log_samples = samples(
        tmp_path / "a",
        ("BEGIN", SIMPLE, (), 10, ""),
        ("SELECT 1; DROP TABLE t", SIMPLE, (), 10, ""),
        ("VACUUM t", SIMPLE, (), 10, ""),
        ("SELECT failing", SIMPLE, (), 10, "42703"),
        ("COPY t TO STDOUT", SIMPLE, (), 10, ""),
        ("", SIMPLE, (), 10, ""),
        ("/* a; b */ (SELECT ';') -- ;", SIMPLE, (), 10, ""),
        ("WITH x AS (SELECT 1) SELECT * FROM x", SIMPLE, (), 5, ""),
    )
    assert [sample.sql for sample in log_samples] == [
        "/* a; b */ (SELECT ';')",
        "WITH x AS (SELECT 1) SELECT * FROM x",
    ]


def test_only_the_sessions_of_the_database_that_is_replayed(tmp_path: Path) -> None:
    file = captured(tmp_path / "a", ("SELECT 1", SIMPLE, (), 10, ""), database="other")
    assert replayed_samples(file, "shop", "replay") == []


def test_names_are_unique_and_short() -> None:
    long = "SELECT " + "x" * 1000
    assert name_of(3, long) == f"#3 {long[:150]}…"
