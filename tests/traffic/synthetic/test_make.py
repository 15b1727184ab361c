"""How calls are shared out and put in order, and what a file of statistics may hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from pgstrata.errors import UsageError
from pgstrata.traffic.captured import Captured
from pgstrata.traffic.synthetic.files import of_folder
from pgstrata.traffic.synthetic.make import Share, shared_out, spread_out, synthetic
from pgstrata.traffic.synthetic.statistics import CalledStatement, Statistics, elements
from pgstrata.traffic.synthetic.use import Understood

counts = some.lists(some.integers(1, 10**7), min_size=1, max_size=40)


def share(calls: int) -> Share:
    return Share(CalledStatement("SELECT 1", calls, 1.0), Understood("SELECT 1"), ())


@given(counts, some.integers(1, 10**5))
def test_calls_are_shared_out_as_they_were(calls: list[int], wanted: int) -> None:
    """Each to the whole number below or above its share, none is lost, and the rarest come once."""
    given_ = [call_share.number for call_share in shared_out([share(call) for call in calls], wanted)]
    whole = sum(calls)
    if whole <= wanted:
        assert given_ == calls
        return
    for called, number in zip(calls, given_, strict=True):
        assert number == 1 or abs(number - called * wanted / whole) < 1
    assert 0 <= sum(given_) - wanted < len(calls)


@given(some.lists(some.integers(1, 200), min_size=1, max_size=10), some.integers(0, 1000))
def test_any_part_has_the_shares_of_the_whole(numbers: list[int], seed: int) -> None:
    order = list(spread_out(numbers, seed))
    assert Counter(order) == Counter(dict(enumerate(numbers)))
    for end in range(0, len(order), 7):
        seen = Counter(order[:end])
        for number, count in enumerate(numbers):
            # Each is off by one at most in its own time, and that runs with the others'.
            assert abs(seen[number] - count * end / len(order)) <= 1 + count * len(numbers) / len(order)


def test_a_file_lasts_as_long_as_its_calls_took(tmp_path: Path) -> None:
    """A tenth of the calls in a tenth of the time, on four sessions for each statement at a time."""
    statements = [CalledStatement("SELECT 1", 9000, 90.0), CalledStatement("SELECT 2", 1000, 60.0)]
    header = synthetic(Statistics("shop", statements, [], 100.0), tmp_path / "a", calls=1000)
    assert header.sessions == header.most_sessions == 6
    assert (header.end - header.begin) / 1e6 == pytest.approx(10.0, rel=0.01)
    assert header.seconds == pytest.approx(15.0) and header.reads_only and header.synthetic
    with Captured(tmp_path / "a") as captured:
        starts = [s.start for e in captured.sessions() for s in captured.statements(e)]
    assert sorted(starts)[500] - min(starts) == pytest.approx(5e6, rel=0.01)


@pytest.mark.parametrize(("transactions", "around_reads", "left"), [(25, 0, 0), (40, 10, 0), (500, 100, 370)])
def test_transactions_are_as_many_as_they_were(
    tmp_path: Path, transactions: int, around_reads: int, left: int
) -> None:
    """Each around one call, changes first; those that find no call are left out."""
    called = {"SELECT FROM t": 100, "DELETE FROM t": 30, "BEGIN": transactions, "COMMIT": transactions}
    statements = [CalledStatement(text, calls, 1.0) for text, calls in called.items()]
    header = synthetic(Statistics("shop", statements, []), tmp_path / "a", sessions=3)
    around = min(transactions, 30) + around_reads
    assert {shape.text: shape.calls for shape in header.shapes} == called | dict.fromkeys(
        ("BEGIN", "COMMIT"), around
    )
    assert [left_out.count for left_out in header.left_out] == ([left, left] if left else [])
    with Captured(tmp_path / "a") as captured:
        texts = [[s.text for s in captured.statements(entry)] for entry in captured.sessions()]
    wrapped: Counter[str] = Counter()
    for session in texts:
        for before, text, behind in zip(session, session[1:], session[2:], strict=False):
            assert (before == "BEGIN") == (behind == "COMMIT") or text in ("BEGIN", "COMMIT")
            wrapped[text] += before == "BEGIN"
    assert wrapped["DELETE FROM t"] == min(transactions, 30) and wrapped["SELECT FROM t"] == around_reads
    reading = synthetic(Statistics("shop", statements, []), tmp_path / "r", reads_only=True)
    assert reading.reads_only and {shape.text for shape in reading.shapes} == {"SELECT FROM t"}


def test_rows_of_a_cursor_are_those_of_its_query(tmp_path: Path) -> None:
    """The time of FETCH is that of the query; of a cursor that nothing declares it is left out."""
    statements = [
        CalledStatement('DECLARE "a b" NO SCROLL CURSOR FOR SELECT 1', 10, 0.5),
        CalledStatement('FETCH FORWARD 100 FROM "a b"', 30, 5.0, rows=3000),
        CalledStatement('CLOSE "a b"', 10, 0.25),
        CalledStatement("FETCH 1 FROM c", 1, 1.0),
    ]
    header = synthetic(Statistics("shop", statements, []), tmp_path / "a")
    (shape,) = header.shapes
    assert shape.calls == 10 and shape.seconds == pytest.approx(5.75) and shape.rows == 300
    assert [(left_out.why, left_out.seconds) for left_out in header.left_out] == [
        ("utility statement: FETCH", 1.0)
    ]
    with Captured(tmp_path / "a") as captured:
        assert {s.text for e in captured.sessions() for s in captured.statements(e)} == {"SELECT 1"}


def test_what_happens_seldom_is_asked_once(tmp_path: Path) -> None:
    statements = [CalledStatement("SELECT 1", 10**6, 90.0), CalledStatement("SELECT 2, 3", 1, 60.0)]
    header = synthetic(Statistics("shop", statements, []), tmp_path / "a", calls=100)
    assert sorted(shape.calls for shape in header.shapes) == [1, 100]
    assert any("rarer than one call" in note and "40" in note for note in header.notes), header.notes
    assert any("nothing says over which time" in note for note in header.notes)


@given(some.lists(some.none() | some.text(max_size=20), max_size=20))
def test_lists_are_read_as_servers_write_them(values: list[str | None]) -> None:
    def written(value: str | None) -> str:
        if value is None:
            return "NULL"
        if value and value.isalnum() and value.upper() != "NULL":
            return value
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text = "{" + ",".join(map(written, values)) + "}"
    assert list(elements(text)) == values and list(elements("[0:9]=" + text)) == values


@pytest.mark.parametrize(
    ("statements", "columns", "message"),
    [
        (None, "", "no file of statistics"),
        ("a,b\n1,2\n", "", "does not hold pg_stat_statements"),
        ('query,calls\n"SELECT 1,2\n', "", "is no CSV"),
        ("query,calls\n", "schemaname,tablename,attname\n", "counted no statement"),
        ("query,calls,total_time\nSELECT 1,many,3\n", "", "no numbers"),
        ("query,calls\nSELECT 1,1\n", "a,b\n1,2\n", "does not hold pg_stats"),
        ("query,calls\nSELECT 1,1\n", "schemaname,tablename,attname\npublic,t,a\n", "no table of database"),
        (
            "query,calls\nSELECT 1,1\n",
            "schemaname,tablename,attname,null_frac,most_common_vals\npublic,t,a,0,oops{{\n",
            "no list where one is due",
        ),
    ],
)
def test_files_that_are_none(tmp_path: Path, statements: str | None, columns: str, message: str) -> None:
    if statements is not None:
        (tmp_path / "statements.csv").write_text(statements)
    (tmp_path / "columns.csv").write_text(columns)
    with pytest.raises(UsageError, match=message) as caught:
        of_folder(tmp_path)
    assert caught.value.hint


def test_no_value_of_a_statement_that_is_left_out_is_kept(tmp_path: Path) -> None:
    """Utility statements have their constants in them, and texts may end within one."""
    texts = (
        "ALTER ROLE ann PASSWORD 'secret1'",
        "SELECT 1 AS one WHERE 'secret2",
        "SET x = 'secret3'",
        "SELECT 1",
    )
    statements = [CalledStatement(text, 1, 1.0) for text in texts]
    header = synthetic(Statistics("shop", statements, []), tmp_path / "a")
    assert {left_out.example for left_out in header.left_out} == {
        "ALTER ROLE ann PASSWORD $1",
        "SELECT $1 AS one WHERE $2",
        "SET x = $1",
    }
    assert "secret" not in msgspec.json.encode(header).decode()


def test_files_of_pg_stats_alone_will_do(tmp_path: Path) -> None:
    """Without types and keys: values are known nevertheless. Two databases: that of most time."""
    (tmp_path / "statements.csv").write_text(
        "dbid,userid,query,calls,total_time,rows\n"
        '5,10,"SELECT * FROM t WHERE a = $1",100,1000,100\n'
        '5,11,"SELECT * FROM t WHERE a = $1",50,500,50\n'
        '5,10,"SELECT * FROM t WHERE b > $1 AND a = ANY ($2)",10,100,10\n'
        "5,10,<insufficient privilege>,7,7000,1\n"
        '6,10,"SELECT elsewhere",70,70,1\n'
        '5,10,"SELECT * FROM t WHERE a = $1 AND (cu",3,7,1\n'
    )
    (tmp_path / "columns.csv").write_text(
        "schemaname,tablename,attname,null_frac,n_distinct,most_common_vals,most_common_freqs,histogram_bounds\n"
        'public,t,a,0,2,"{x,""y z""}","{0.9,0.1}",\n'
        'public,t,b,0.5,-1,,,"{1,5,9}"\n'
    )
    statistics = of_folder(tmp_path)
    header = synthetic(statistics, tmp_path / "a", sessions=2)
    assert statistics.database == "5" and statistics.users == 2
    assert [shape.calls for shape in header.shapes] == [150, 10]
    assert header.shapes[0].parameters == ["$1 t.a"] and header.shapes[0].seconds == pytest.approx(1.5)
    left = {left_out.why.partition(":")[0]: left_out.seconds for left_out in header.left_out}
    assert left == {
        "statements of other users, whose texts are hidden": 7.0,
        "in another database, of which nothing else is known": 0.07,
        "it cannot be parsed, and may be cut off": 0.007,
    }
    assert any("2 users" in note for note in header.notes)
    with Captured(tmp_path / "a") as captured:
        drawn = [s for e in captured.sessions() for s in captured.statements(e)]
    assert {statement.parameters[0] for statement in drawn if statement.shape == 0} == {"x", "y z"}
    with pytest.raises(UsageError, match="of statements none can be") as caught:
        synthetic(Statistics("5", [CalledStatement("", 1, 1.0)], []), tmp_path / "b")
    assert "pg_read_all_stats" in caught.value.hint and not (tmp_path / "b").exists()
