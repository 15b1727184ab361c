"""Every entry of a log is in one account: entries in are entries out, whatever the entries are."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.traffic import account
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import EXTENDED, SIMPLE, Balance, Captured, Header, Statement
from pgstrata.traffic.logs.line import BROKEN, CUT, FRAGMENT, TRUNCATED, UNBOUNDED, UNFIT
from support.logs import FORMS, MS, PREFIX, START, S, Told, extended, listed, log, plain, taken

TEXTS = [
    "SELECT 1",
    "BEGIN",
    "COMMIT",
    "UPDATE t SET a = $1",
    "COPY t FROM STDIN",
    "SET client_encoding TO x",
]
TEXT = st.sampled_from(TEXTS) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=20
).map(lambda text: f"SELECT {text}x")
NAME = st.sampled_from(["<unnamed>", "S_1", "S_2/C_1", "<unnamed>/C_2"])
TOOK = st.sampled_from(["0.010", "1.500", "2000.000"])
MESSAGE = st.one_of(
    st.builds("duration: {} ms".format, TOOK),
    st.builds("duration: {} ms  statement: {}".format, TOOK, TEXT),
    st.builds(
        "duration: {} ms  {} {}: {}".format, TOOK, st.sampled_from(["parse", "bind", "execute"]), NAME, TEXT
    ),
    st.builds("duration: {} ms  execute fetch from {}: {}".format, TOOK, NAME, TEXT),
    st.builds("duration: {} ms  plan:\nQuery Text: {}".format, TOOK, TEXT),
    st.builds("statement: {}".format, TEXT),
    st.builds("execute {}: {}".format, NAME, TEXT),
    st.builds("execute fetch from {}: {}".format, NAME, TEXT),
    st.sampled_from(
        [
            'fastpath function call: "lo_creat" (OID 957)',
            'duration: 1.000 ms  fastpath function call: "lo_open" (OID 952)',
            f"duration: {'9' * 400} ms",
            f"duration: {'9' * 400}.0 ms  statement: SELECT 1",
            "connection received: host=[local]",
            "connection authorized: user=app database=shop",
            "disconnection: session time: 0:00:01.000 user=app",
            "could not receive data from client: Connection reset by peer",
            "duration: never",
            "execute nothing",
        ]
    ),
)
ENTRY = st.builds(
    Told,
    time=st.integers(0, 5000).map(lambda ms: START + ms * MS),
    message=MESSAGE,
    session=st.integers(1, 3).map(lambda n: f"697dee4{n}.1a2{n}"),
    database=st.sampled_from(["shop", "shop", "shop", ""]),
    detail=st.sampled_from(
        ["", "Parameters: $1 = 'a'", f"Parameters: ${'9' * 5000} = 'a'", "Parameters: $1"]
    ),
    tag=st.sampled_from(["", "", "PARSE", "BIND", "SELECT", "idle"]),
    number=st.integers(1, 10**25),
    transaction=st.sampled_from(["", "3/1", "3/99", "4/0", f"3/{'9' * 400}"]),
    severity=st.just("LOG"),
)
OTHER = st.builds(
    Told,
    time=st.integers(0, 5000).map(lambda ms: START + ms * MS),
    message=st.sampled_from(["duplicate key", "statement: x", "duration: 1.000 ms"]),
    session=st.integers(1, 3).map(lambda n: f"697dee4{n}.1a2{n}"),
    query=st.just("") | TEXT,
    severity=st.sampled_from(["ERROR", "FATAL", "WARNING", "NOTICE"]),
    sqlstate=st.sampled_from(["23505", "42601", "57P01", "25P01", "25P03", "01000"]),
    context=st.sampled_from(["", "unnamed portal with parameters: $1 = '8'"]),
)
LOG = st.lists(ENTRY | OTHER, min_size=1, max_size=25).map(
    lambda entries: sorted(entries, key=lambda entry: entry.time)
)
GOOD = plain(START + 10 * S, 1, "SELECT 'good'", session="697dee49.1a29")


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@given(entries=LOG)
@settings(deadline=None)
def test_entries_in_are_entries_out(form: str, entries: list[Told]) -> None:
    """`taken` compares; what is replayed comes from no other place than the log."""
    folder = Path(tempfile.mkdtemp())
    try:
        header, by_session = taken(folder, [*entries, GOOD], form)
    finally:
        shutil.rmtree(folder)
    balance = header.balance
    assert balance is not None
    assert balance.left_out == sum(part.entries for part in header.left_out)
    assert balance.damaged == sum(part.entries for part in header.damaged)
    statements = [statement for _, session_statements in by_session for statement in session_statements]
    assert len(statements) == header.statements
    assert header.seconds == pytest.approx(sum(s.duration or 0 for s in statements) / 1e6)


@given(entries=LOG)
@settings(deadline=None)
def test_no_duration_is_lent(entries: list[Told]) -> None:
    """The time of statements, of what is left out and of what is damaged is that of the log's durations, but
    for statements that failed, whose time is the difference of two entries."""
    entries = [
        entry
        for entry in entries
        if entry.severity == "LOG" and "plan:" not in entry.message and entry.database
    ]
    folder = Path(tempfile.mkdtemp())
    try:
        header, _ = taken(folder, [*entries, GOOD])
    finally:
        shutil.rmtree(folder)
    logged = sum(
        float(entry.message.split()[1])
        for entry in [*entries, GOOD]
        if entry.message.startswith("duration: ")
        and "9999" not in entry.message
        and "never" not in entry.message
    )
    parts = sum(part.seconds for part in (*header.left_out, *header.damaged))
    untimed = [s for s in header.notes if "does not say how long" in s]
    if not untimed:
        assert header.seconds + parts == pytest.approx(logged / 1000, abs=1e-6)


# --- bare durations ---------------------------------------------------------------------------


def reasons(header: Header) -> dict[str, tuple[int, int]]:
    """Entries and milliseconds of what is left out or damaged."""
    return {
        part.why: (part.entries, round(part.seconds * 1000)) for part in (*header.left_out, *header.damaged)
    }


def only(tmp_path: Path, entries: list[Told], form: str = "csvlog") -> tuple[Header, list[Statement]]:
    header, [(_, statements)] = taken(tmp_path, entries, form)
    return header, statements


@pytest.mark.parametrize("form", FORMS)
def test_bare_durations_are_of_no_later_statement(tmp_path: Path, form: str) -> None:
    entries = [
        Told(START, "duration: 40.000 ms"),
        Told(START + 300 * S, "duration: 60.000 ms"),
        plain(START + 600 * S, 200, "SELECT slow()"),
        Told(START + 700 * S, "duration: 5.000 ms"),
        Told(START + 800 * S, "duration: 300.000 ms  execute S_1: SELECT slower()"),
    ]
    header, statements = only(tmp_path, entries, form)
    assert [(s.start - START, s.duration) for s in statements] == [
        (600 * S - 200 * MS, 200 * MS),
        (800 * S - 300 * MS, 300 * MS),
    ]
    assert reasons(header) == {account.NO_TEXT: (3, 105)}
    assert any("3 durations without a statement" in note for note in header.notes)


def test_the_command_tag_says_what_a_bare_duration_is_of(tmp_path: Path) -> None:
    entries = [
        Told(START, "duration: 9.000 ms", tag="SELECT"),
        Told(START + MS, "duration: 0.100 ms", tag="PARSE"),
        Told(START + 700 * MS, "duration: 0.200 ms", tag="BIND"),
        Told(START + 701 * MS, "execute S_1: SELECT $1", detail=listed(["x"]), tag="SELECT"),
        Told(START + 702 * MS, "duration: 0.700 ms", tag="SELECT"),
    ]
    header, statements = only(tmp_path, entries)
    assert [(s.start - START, s.duration) for s in statements] == [(MS - 100, 1000)]
    assert reasons(header) == {account.NO_TEXT: (1, 9)}


def test_a_parse_is_of_its_own_statement(tmp_path: Path) -> None:
    """Prepared long before, executed later, others in between."""
    entries = [
        Told(START, "duration: 7.000 ms  parse S_1: SELECT $1::int"),
        Told(START, "duration: 5.000 ms  parse <unnamed>: SELECT 2"),
        plain(START + 10 * S, 1, "SELECT 1"),
        Told(START + 20 * S, "duration: 1.000 ms  bind S_1: SELECT $1::int", detail=listed(["3"])),
        Told(START + 20 * S, "duration: 2.000 ms  execute S_1: SELECT $1::int", detail=listed(["3"])),
        Told(START + 30 * S, "duration: 3.000 ms  parse S_2: SELECT 4"),
    ]
    header, statements = only(tmp_path, entries)
    assert [(s.text, s.duration, s.start - START) for s in statements] == [
        ("SELECT 1", MS, 10 * S - MS),
        ("SELECT $1::int", 10 * MS, 20 * S - 10 * MS),
    ]
    assert reasons(header) == {account.UNEXECUTED: (2, 8)}


@pytest.mark.parametrize("form", FORMS)
def test_warnings_and_function_calls_shift_nothing(tmp_path: Path, form: str) -> None:
    entries = [
        Told(START, "statement: commit"),
        Told(START + MS, "there is no transaction in progress", severity="WARNING", sqlstate="25P01"),
        Told(START + 2 * MS, "duration: 1.900 ms"),
        Told(START + 3 * MS, 'fastpath function call: "lo_creat" (OID 957)'),
        Told(START + 93 * MS, "duration: 90.000 ms"),
        Told(START + 5 * S, "statement: SELECT 1"),
        Told(START + 5 * S, "statement: SELECT 7", severity="NOTICE", sqlstate="00000"),
        Told(START + 5 * S + MS, "duration: 0.300 ms"),
    ]
    header, statements = only(tmp_path, entries, form)
    assert [(s.text, s.duration, s.sqlstate) for s in statements] == [
        ("commit", 1900, ""),
        ("SELECT 1", 300, ""),
    ]
    assert reasons(header) == {account.MESSAGES: (2, 0), account.FASTPATH: (2, 90)}


def test_parts_of_a_portal_are_of_their_own_statement(tmp_path: Path) -> None:
    entries = [
        *extended(START, 3, "SELECT a FROM t", [], name="<unnamed>/C_1"),
        Told(START + MS, "duration: 2.000 ms  execute fetch from <unnamed>/C_1: SELECT a FROM t"),
        plain(START + 9 * MS, 1, "SELECT 1"),
        Told(START + 20 * MS, "duration: 4.000 ms  execute fetch from <unnamed>/C_1: SELECT a FROM t"),
    ]
    header, statements = only(tmp_path, entries)
    assert [s.duration for s in statements] == [5 * MS, MS]
    assert reasons(header) == {account.LATER_PARTS: (1, 4)}


def test_a_connection_that_ends_is_no_failure_of_the_last_statement(tmp_path: Path) -> None:
    entries = [
        Told(START, "statement: SELECT 1"),
        Told(START + 60 * S, "terminating connection", severity="FATAL", sqlstate="57P05"),
    ]
    header, statements = only(tmp_path, entries)
    assert [(s.duration, s.sqlstate) for s in statements] == [(None, "")] and header.errors == 0
    assert reasons(header) == {account.ENDED: (1, 0)}


# --- damage -----------------------------------------------------------------------------------


def captured_text(folder: Path, text: str, prefix: str | None = PREFIX) -> tuple[Header, list[Statement]]:
    (folder / "log").write_text(text)
    (folder / "a").unlink(missing_ok=True)
    header = capture([folder / "log"], folder / "a", prefix=prefix)
    with Captured(folder / "a") as captured:
        assert header.balance is not None and header.balance.difference == 0
        return header, [s for entry in captured.sessions() for s in captured.statements(entry)]


WHOLE = log([plain(START + 10 * S, 1, "SELECT 1")], "stderr")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("    where id = 5\n", BROKEN),
        ("'2026-01-01 10:00:00' ERROR:  x\n", BROKEN),
        ("RAISE NOTICE 'ERROR:  %';\n", BROKEN),
        ("\n[Your log message was truncated]\n\n", TRUNCATED),
        ("rsync: connection unexpectedly closed\n", BROKEN),
    ],
)
def test_a_statement_that_may_be_cut_is_not_replayed(tmp_path: Path, line: str, why: str) -> None:
    begin = log([plain(START, 5, "DELETE FROM orders")], "stderr")
    header, statements = captured_text(tmp_path, begin + line + WHOLE)
    assert [s.text for s in statements] == ["SELECT 1"]
    assert reasons(header)[why] == (1, 5)
    # The same where log_statement begins it: its duration goes with it.
    entries = [Told(START, "statement: DELETE FROM orders"), Told(START + 5 * MS, "duration: 5.000 ms")]
    header, statements = captured_text(
        tmp_path, log(entries[:1], "stderr") + line + log(entries[1:], "stderr") + WHOLE
    )
    assert [s.text for s in statements] == ["SELECT 1"]
    assert reasons(header)[why] == (2, 5)


@pytest.mark.parametrize("form", FORMS)
def test_a_log_service_may_cut_within_the_text(tmp_path: Path, form: str) -> None:
    entries = [
        plain(START, 5, "DELETE FROM orders\n[Your log message was truncated]"),
        plain(START + MS, 1, "SELECT a[truncated] FROM t"),
    ]
    header, statements = only(tmp_path, entries, form)
    assert [s.text for s in statements] == ["SELECT a[truncated] FROM t"]
    assert reasons(header) == {TRUNCATED: (1, 5)}


def test_lines_of_other_programs_and_other_prefixes(tmp_path: Path) -> None:
    begin = log([plain(START, 5, "SELECT 2")], "stderr")
    strange = "2026-01-31 12:00:00.500 P00   INFO: archive-push command end\n"
    header, statements = captured_text(tmp_path, f"end of a line\n{begin}{strange}{WHOLE}")
    assert [s.text for s in statements] == ["SELECT 2", "SELECT 1"]
    assert reasons(header) == {FRAGMENT: (1, 0), UNFIT: (1, 0)}
    assert header.balance == Balance(4, 0, 2, 0, 2)


@pytest.mark.parametrize("form", FORMS)
def test_a_log_that_is_cut_off(tmp_path: Path, form: str) -> None:
    text = log([plain(START, 5, "SELECT 2"), plain(START + MS, 5, "DELETE FROM t WHERE a")], form)
    header, statements = captured_text(
        tmp_path, text.rstrip("\n")[:-20], PREFIX if form == "stderr" else None
    )
    assert [s.text for s in statements] == ["SELECT 2"]
    assert list(reasons(header)) == [CUT] and header.balance == Balance(2, 0, 1, 0, 1)


@pytest.mark.parametrize("form", FORMS)
def test_numbers_have_bounds(tmp_path: Path, form: str) -> None:
    nines = "9" * 400
    entries = [
        plain(START, 1, "SELECT 1"),
        Told(START + MS, f"duration: {nines}.000 ms  statement: SELECT 2"),
        Told(START + MS, f"duration: {nines} ms"),
        Told(START + MS, "duration: 1.0 ms  execute s: SELECT $1", detail=f"Parameters: ${nines * 20} = 'a'"),
        Told(START + MS, "statement: SELECT 3", number=10**300, transaction=f"{nines}/{nines}"),
    ]
    header, statements = only(tmp_path, entries, form)
    assert [s.text for s in statements] == ["SELECT 1", "SELECT 3"]
    assert reasons(header) == {UNBOUNDED: (2, 0), account.NO_PARAMETERS: (1, 1)}


def test_json_of_any_depth(tmp_path: Path) -> None:
    good = log([plain(START, 1, "SELECT 1")], "jsonlog")
    deep = good.rstrip()[:-1] + ',"more":' + "[" * 200_000 + "]" * 200_000 + "}\n"
    header, statements = captured_text(tmp_path, good + deep + good, None)
    assert [s.text for s in statements] == ["SELECT 1"] * len(statements) and len(statements) in (2, 3)
    assert header.balance is not None and header.balance.entries == 3


def test_parameters_that_may_be_cut_are_not_replayed(tmp_path: Path) -> None:
    """Three dots are no cut where a longer value was whole."""
    values = ["and so...", "a long text of the same log", "and so...", "a long text of the same..."]
    entries = [
        entry for n, v in enumerate(values) for entry in extended(START + n * 10 * MS, 3, "SELECT $1", [v])
    ]
    header, statements = only(tmp_path, entries)
    assert [s.parameters for s in statements] == [(values[1],), (values[2],), (values[3],)]
    assert reasons(header) == {account.CUT_VALUES: (3, 3)}


# --- verbose ----------------------------------------------------------------------------------


def test_verbose_text_logs_are_read_fully(tmp_path: Path) -> None:
    prefix = "2026-01-31 12:00:00.{:03d} UTC [697dee40.1a2b] {} app@shop "
    lines = [
        prefix.format(100, "00000") + "LOG:  00000: duration: 1.500 ms  statement: SELECT 1\n",
        prefix.format(100, "00000") + "LOCATION:  exec_simple_query, postgres.c:1361\n",
        prefix.format(200, "22012") + "ERROR:  22012: division by zero\n",
        prefix.format(200, "22012") + "HINT:  do not\n",
        prefix.format(200, "22012") + "LOCATION:  int4div, int.c:846\n",
        prefix.format(200, "22012") + "STATEMENT:  SELECT 1/0\n",
    ]
    for text in ("".join(lines), "".join(lines).replace("22012 app", "app").replace("00000 app", "app")):
        header, statements = captured_text(tmp_path, text, None)
        assert [(s.text, s.duration, s.sqlstate) for s in statements] == [
            ("SELECT 1", 1500, ""),
            ("SELECT 1/0", None, "22012"),
        ]
        assert not header.left_out and not header.damaged


def test_hints_and_internal_queries_do_not_stand_for_the_message(tmp_path: Path) -> None:
    prefix = "2026-01-31 12:00:00.100 UTC [697dee40.1a2b] 42703 app@shop "
    lines = [
        ("ERROR", "no column"),
        ("HINT", "Perhaps b."),
        ("QUERY", "SELECT x"),
        ("STATEMENT", "SELECT f()"),
    ]
    text = "".join(f"{prefix}{severity}:  {words}\n" for severity, words in lines)
    _, statements = captured_text(tmp_path, text)
    assert [(s.text, s.sqlstate) for s in statements] == [("SELECT f()", "42703")]


# --- what is not there ------------------------------------------------------------------------


def test_slow_statements_alone_are_recognized(tmp_path: Path) -> None:
    entries = [plain(START + n * S, 100 + n, "SELECT 1") for n in range(25)]
    header, _ = taken(tmp_path, entries)
    assert any("only slow statements: none of 25 took less than 100 ms" in note for note in header.notes)
    # Executions whose parse and bind were below the threshold.
    entries = [
        Told(START + n * S, f"duration: {20 + n}.000 ms  execute S_1: SELECT 1", tag="SELECT")
        for n in range(9)
    ]
    header, _ = taken(tmp_path, entries)
    assert any("only slow statements: none of 9" in note for note in header.notes)


def test_a_sample_of_statements_is_recognized(tmp_path: Path) -> None:
    whole = [
        replace(entry, transaction=f"3/{n // 3 + 1}")
        for n, entry in enumerate(
            plain(START + n * MS, 0.1, ("BEGIN", "UPDATE t SET a = 1", "COMMIT")[n % 3]) for n in range(300)
        )
    ]
    header, _ = taken(tmp_path, whole)
    assert not any("only a part" in note for note in header.notes)
    dice = Random(1)
    header, _ = taken(tmp_path, [entry for entry in whole if dice.random() < 0.4])
    assert any("only a part of the statements" in note and "without" in note for note in header.notes)
    sampled = [entry for n, entry in enumerate(whole) if n // 3 % 10 == 0]
    header, _ = taken(tmp_path, sampled)
    assert any("81 of 91 transactions without an entry" in note for note in header.notes)


def test_statements_that_are_their_own_transactions_are_no_gaps(tmp_path: Path) -> None:
    """PostgreSQL logs their durations behind their transactions, with the number 0."""
    words = ("SELECT 1", "BEGIN", "UPDATE t SET a = 1", "COMMIT", "SELECT 2", "SELECT 3")
    numbers = (0, 2, 2, 0, 0, 0)  # of each six entries with four transactions
    whole = [
        replace(
            plain(START + n * MS, 0.1, words[n % 6]),
            transaction=f"3/{numbers[n % 6] + n // 6 * 4 if numbers[n % 6] else 0}",
        )
        for n in range(300)
    ]
    header, _ = taken(tmp_path, whole)
    assert not any("only a part" in note for note in header.notes)
    header, _ = taken(tmp_path, [entry for n, entry in enumerate(whole) if n // 6 % 4 == 0])
    assert any("without an entry" in note for note in header.notes)


@pytest.mark.parametrize("form", ["csvlog", "jsonlog"])
def test_a_log_that_was_filtered_is_recognized(tmp_path: Path, form: str) -> None:
    entries = [replace(plain(START + n * MS, 0.1, "SELECT 1"), number=n + 1) for n in range(60)]
    header, _ = taken(tmp_path, entries, form)
    assert not any("missing by their numbers" in note for note in header.notes)
    header, _ = taken(tmp_path, [entry for n, entry in enumerate(entries) if n % 3], form)
    assert any("missing by their numbers: 19 lines" in note for note in header.notes)


def test_a_log_with_nothing_but_durations_says_so(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(log([Told(START + n * S, "duration: 1.000 ms") for n in range(9)]))
    with pytest.raises(UsageError, match="of 9 entries 9 of durations without a statement") as caught:
        capture([tmp_path / "log"], tmp_path / "a")
    assert "log_min_duration_statement = 0" in caught.value.hint


def test_protocols_are_told_apart(tmp_path: Path) -> None:
    entries = [plain(START, 1, "SELECT 1"), *extended(START + 5 * MS, 1, "SELECT $1", ["a"])]
    _, statements = only(tmp_path, entries)
    assert [s.protocol for s in statements] == [SIMPLE, EXTENDED]
