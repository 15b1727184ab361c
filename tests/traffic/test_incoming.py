"""Logs that come on standard input, with whole seconds, or in a format that is not read."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Literal

import pytest

from pgstrata.errors import UsageError
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import Captured, Statement
from pgstrata.traffic.logs import incoming
from pgstrata.traffic.logs.files import find
from pgstrata.traffic.replay.gaps import of_notes
from support.logs import FORMS, MS, START, S, Told, log, plain

TOLD = [plain(START + n * MS, 0.5, f"SELECT {n}") for n in range(5000)]


def statements(file: Path) -> list[Statement]:
    with Captured(file) as captured:
        return [s for entry in captured.sessions() for s in captured.statements(entry)]


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The writing end of a pipe that is standard input."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        yield writing


def feed(descriptor: int, data: bytes) -> threading.Thread:
    def write() -> None:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


@pytest.mark.long
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("form", FORMS)
def test_standard_input_comes_to_the_same(tmp_path: Path, piped: int, form: str, packed: bool) -> None:
    data = log(TOLD, form).encode()
    (tmp_path / "log").write_bytes(data)
    capture([tmp_path / "log"], tmp_path / "a")
    thread = feed(piped, gzip.compress(data) if packed else data)
    header = capture([Path("-")], tmp_path / "b")
    thread.join()
    assert statements(tmp_path / "b") == statements(tmp_path / "a")
    assert header.files == ["standard input"] and header.source == form
    assert header.balance is not None and header.balance.replayed == len(TOLD)


@pytest.mark.program
def test_standard_input_of_the_command(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pgstrata", "capture", "-", "-o", "a.traffic"],
        input=log(TOLD[:50]).encode(),
        capture_output=True,
        cwd=place,
    )
    assert done.returncode == 0, done.stderr
    assert b"50 replayed" in done.stdout
    last = done.stdout.decode().splitlines()[-1]
    assert last.endswith("pgstrata upgrade --from OLD --to NEW --dump DUMP --log a.traffic"), "the next step"


def test_standard_input_has_bounds(tmp_path: Path, piped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="read alone"):
        capture([Path("-"), tmp_path], tmp_path / "a")
    monkeypatch.setattr(incoming, "SILENCE_SECONDS", 0.1)
    with pytest.raises(UsageError, match="nothing came on standard input for"):
        capture([Path("-")], tmp_path / "a")
    os.close(piped)
    with pytest.raises(UsageError, match="nothing came on standard input"):
        capture([Path("-")], tmp_path / "a")
    assert not list(tmp_path.iterdir())
    terminal, other = os.openpty()
    with os.fdopen(other, "rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        with pytest.raises(UsageError, match="is a terminal"):
            capture([Path("-")], tmp_path / "a")
    os.close(terminal)


CSV = log([plain(START, 1, "SELECT 1")]).encode()
FORMATS = {
    "packed with lz4": (b"\x04\x22\x4d\x18\x04\x00\x01", "lz4cat log"),
    "a zip archive": (b"PK\x03\x04\x14\x00", "unzip log -d LOGS; pgstrata capture LOGS"),
    "binary data": (bytes(64) + b"log", "name the server's log"),
    "a captured file": (b"pgstrata traffic\1\0\0\0\0\0\0\0", "only its log can be masked"),
    "a dump of pg_dump": (b"--\n-- PostgreSQL database dump\n--\n", "name the server's log"),
    "a journald export": (b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1\nMESSAGE=LOG:  x\n", "journalctl -o json"),
    "a journal of systemd": (b"LPKSHHRH\0\0", "journalctl -o json --all --file log"),
    "JSON of a portion of an RDS log": (b'{\n"LogFileData": "2026"}\n', "jq -r .LogFileData log"),
    "JSON of a service that is not known": (b'{"time": 1, "line": "LOG:  x"}\n', "log_destination"),
    "pgBadger's output": (b"<!DOCTYPE html>\n<title>pgBadger</title>\n", "that pgBadger read"),
    "UTF-16 text": ("2026 LOG:  x\n".encode("utf-16"), "iconv"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_that_are_not_read_are_named(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, step = FORMATS[name]
    (tmp_path / "log").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"log is {name}") as caught:
        find([Path("log")])
    assert step in caught.value.hint


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_archives_of_several_logs_are_not_read(
    tmp_path: Path, mode: Literal["w", "w:gz", "w:xz"], form: str
) -> None:
    """Read as one log, an archive loses an entry at each file's begin, and times go back."""
    (tmp_path / "log").write_text(log(TOLD[:300], form))
    with tarfile.open(tmp_path / "logs", mode) as archive:
        for name in ("b.log", "a.log"):
            archive.add(tmp_path / "log", name)
    with pytest.raises(UsageError, match="logs is a tar archive") as caught:
        find([tmp_path / "logs"])
    assert "tar -xf" in caught.value.hint


def test_a_recognized_prefix_is_nothing_that_is_not_covered(tmp_path: Path) -> None:
    text = "2026-08-03 10:00:01 UTC [7] app@shop LOG:  duration: 1.000 ms  statement: SELECT 1\n"
    (tmp_path / "log").write_text(text)
    notes = capture([tmp_path / "log"], tmp_path / "a").notes
    assert any("was recognized as" in note for note in notes)
    limits = [gap.what for gap in of_notes(notes)]
    assert limits == [note for note in notes if "recognized" not in note]
    assert any("whole seconds" in what for what in limits)


# --- whole seconds ----------------------------------------------------------------------------


def test_whole_seconds_make_no_bursts(tmp_path: Path) -> None:
    """Of statements at any time, those of each second are spread over it, in their order."""
    dice = Random(1)
    ends = sorted(dice.randrange(20 * S) for _ in range(3000))
    sessions = [f"{100 + dice.randrange(8)}" for _ in ends]
    lines = [
        f"2026-08-03 10:00:{end // S:02d} UTC [{session}] app@shop LOG:  "
        f"duration: {dice.random() * 4:.3f} ms  statement: SELECT {number}\n"
        for number, (end, session) in enumerate(zip(ends, sessions, strict=True))
    ]
    (tmp_path / "log").write_text("".join(lines))
    header = capture([tmp_path / "log"], tmp_path / "a")
    captured_statements = statements(tmp_path / "a")
    tenths = Counter(s.start % S // 100_000 for s in captured_statements)
    assert len(captured_statements) == 3000 and max(tenths.values()) < 450 and min(tenths.values()) > 200
    true = {f"SELECT {number}": end for number, end in enumerate(ends)}
    for s in captured_statements:
        # Never more than its second away from what it was.
        moved = s.start + (s.duration or 0) - 1_785_751_200 * S - true[s.text]
        assert abs(moved) < S
    assert any("whole seconds (%t)" in note for note in header.notes)


def test_a_session_that_was_always_busy_fills_its_second(tmp_path: Path) -> None:
    """Durations say more than the order: nothing is pushed into the next second."""
    line = "2026-08-03 10:00:{:02d} UTC [7] app@shop LOG:  duration: {}.000 ms  statement: SELECT {}\n"
    times = [(0, 900), (0, 10), (0, 80), (1, 5), (1, 5), (1, 980)]
    (tmp_path / "log").write_text("".join(line.format(*pair, n) for n, pair in enumerate(times)))
    capture([tmp_path / "log"], tmp_path / "a")
    captured_statements = statements(tmp_path / "a")
    begin = 1_785_751_200 * S
    for s, (second, took) in zip(captured_statements, times, strict=True):
        end = s.start + took * MS - begin
        assert second * S <= end <= (second + 1) * S
    assert all(a.start + (a.duration or 0) <= b.start for a, b in pairwise(captured_statements))


def test_other_logs_keep_their_times(tmp_path: Path) -> None:
    entries = [Told(START, "statement: SELECT 1"), Told(START, "statement: SELECT 2")]
    (tmp_path / "log").write_text(log(entries, "stderr"))
    header = capture([tmp_path / "log"], tmp_path / "a")
    assert [s.start for s in statements(tmp_path / "a")] == [START, START]
    assert not any("whole seconds" in note for note in header.notes)
