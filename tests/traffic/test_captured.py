"""The captured file gives back what was written, and says what is wrong with one that is damaged."""

from __future__ import annotations

import random
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.traffic import captured
from pgstrata.traffic.captured import (
    SIMPLE,
    Captured,
    CapturedError,
    Header,
    LeftOut,
    SessionEntry,
    Statement,
    Writer,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
STATEMENTS = st.builds(
    Statement,
    start=st.integers(0, 10**7),
    duration=st.none() | st.integers(0, 10**12),
    protocol=st.integers(0, 2),
    shape=st.integers(0, 3),
    text=TEXT | st.just("x" * 40_000),
    parameters=st.lists(st.none() | TEXT, max_size=5).map(tuple),
    sqlstate=st.sampled_from(["", "", "23505", "40P01"]),
    forgets=st.booleans(),
)


def read(path: Path) -> tuple[Header, list[tuple[SessionEntry, list[Statement]]]]:
    with Captured(path) as file:
        return file.header, [(entry, list(file.statements(entry))) for entry in file.sessions()]


@given(st.lists(st.tuples(st.integers(0, 4), STATEMENTS, st.booleans()), max_size=60), st.data())
def test_every_statement_comes_back(work: list[tuple[int, Statement, bool]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        # Chains of many blocks, and of few: most sessions are short.
        patch.setattr(captured, "BLOCK_BYTES", data.draw(st.sampled_from([1, 50, 16 << 10])))
        patch.setattr(captured, "HELD_BYTES", data.draw(st.sampled_from([1, 500, 64 << 20])))
        path = Path(folder) / "a.traffic"
        expected: dict[int, list[Statement]] = {}
        with Writer(path) as writer:
            for number in range(4):
                writer.shape(f"shape {number}")
            sessions = {}
            for number, statement, common in work:
                if number not in sessions:
                    sessions[number] = writer.begin(10**15 + number, writer.database(f"d{number % 2}"))
                before = expected.setdefault(number, [])
                start = max(10**15 + number + statement.start, before[-1].start if before else 0)
                ordered = statement._replace(start=start)
                if ordered.protocol == SIMPLE:
                    ordered = ordered._replace(parameters=())
                before.append(ordered)
                writer.add(sessions[number], ordered, common=common)
            for number in list(sessions)[::2]:
                writer.end(sessions[number])
            written_header = writer.finish(
                Header(source="csvlog", left_out=[LeftOut("why", 1, 2.0, "x")], notes=["n"])
            )
        header, read_sessions = read(path)
        assert header == written_header
        assert header.left_out == [LeftOut("why", 1, 2.0, "x")] and header.notes == ["n"]
        assert header.statements == len(work) and header.sessions == len(expected)
        assert [shape.calls for shape in header.shapes] == [
            sum(s.shape == number for _, s, _ in work) for number in range(4)
        ]
        assert header.seconds == pytest.approx(sum((s.duration or 0) / 1e6 for _, s, _ in work))
        assert [entry.begin - 10**15 for entry, _ in read_sessions] == sorted(expected)
        for entry, statements in read_sessions:
            expected_statements = expected[entry.begin - 10**15]
            assert statements == expected_statements and entry.statements == len(expected_statements)
            assert entry.end == max([s.start + (s.duration or 0) for s in expected_statements])
            assert bool(entry.flags & captured.OPEN_BEHIND) == (
                list(sessions).index(entry.begin - 10**15) % 2 == 1
            )


def sample(path: Path) -> None:
    with Writer(path) as writer:
        shape = writer.shape("SELECT $1")
        for number in range(3):
            session = writer.begin(1000 * number, writer.database("d"))
            for at in range(400):
                statement = Statement(1000 * number + at, 5, SIMPLE, shape, f"SELECT {at} -- {'x' * 90}")
                writer.add(session, statement, common=False)
            writer.end(session)
        writer.finish(Header())


def test_so_many_sessions_were_there_at_the_same_time(tmp_path: Path) -> None:
    with Writer(tmp_path / "a") as writer:
        shape = writer.shape("SELECT")
        for begin, end in ((0, 10), (5, 20), (10, 30), (40, 50)):
            session = writer.begin(begin, writer.database("d"))
            writer.add(session, Statement(begin, end - begin, SIMPLE, shape, "SELECT"), common=True)
            writer.end(session)
        header = writer.finish(Header())
    assert header.most_sessions == 3 and header.databases[0].most_sessions == 3
    assert (header.begin, header.end, header.sessions) == (0, 50, 4)


def test_a_place_that_is_taken_and_one_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        Writer(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "mine"
    with pytest.raises(UsageError, match="cannot be written"):
        Writer(tmp_path / "nowhere" / "a")


def test_one_that_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Writer(tmp_path / "a") as writer:
        writer.begin(0, writer.database("d"))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_damage_is_said_and_never_crashes(tmp_path: Path) -> None:
    sample(tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    header, sessions = read(tmp_path / "a")
    assert header.statements == 1200 and len(sessions) == 3
    dice = random.Random(7)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(dice.choice([1, 8])):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        (tmp_path / "b").write_bytes(damaged)
        try:
            read(tmp_path / "b")
        except CapturedError as error:
            refused += 1
            assert re.search(r"damaged|no captured file|has version|cut off", error.message), error.message
    assert refused > 200
    for size in (0, 5, 24, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "b").write_bytes(whole[:size])
        with pytest.raises(CapturedError, match=r"no captured file|cut off"):
            Captured(tmp_path / "b")
    (tmp_path / "b").write_bytes(whole[:16] + b"\x09" + whole[17:])
    with pytest.raises(CapturedError, match="has version 9 of the captured file"):
        Captured(tmp_path / "b")
    with pytest.raises(CapturedError, match="cannot be read"):
        Captured(tmp_path / "none")
