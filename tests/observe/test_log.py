"""Events out of logs of all versions, and out of hostile ones."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.observe.log import LogWindow, entries, events
from pgstrata.store.record import LogEvent

T0 = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC


def line(second: float, text: str, pid: int = 42, zone: str = "UTC") -> bytes:
    seconds = 20 + second
    stamp = f"2023-11-14 22:{13 + int(seconds // 60):02d}:{seconds % 60:06.3f}"
    return f"{stamp} {zone} [{pid}] LOG:  {text}\n".encode()


def events_of(*lines: bytes, seconds: float = 30.0) -> list[LogEvent]:
    return events(entries(b"".join(lines).splitlines(keepends=True)), T0, T0 + seconds)


CHECKPOINTS = {
    "9.6": (
        "checkpoint starting: xlog",
        "checkpoint complete: wrote 5 buffers (0.0%); 0 transaction log file(s) added, 0 removed, 1 recycled;"
        " write=0.250 s, sync=0.000 s, total=0.500 s; sync files=4, longest=0.000 s, average=0.000 s;"
        " distance=29 kB, estimate=29 kB",
    ),
    "12": (
        "checkpoint starting: immediate force wait",
        "checkpoint complete: wrote 44 buffers (0.3%); 0 WAL file(s) added, 0 removed, 0 recycled;"
        " write=0.250 s, sync=0.003 s, total=0.500 s; sync files=15, longest=0.001 s, average=0.000 s;"
        " distance=29 kB, estimate=29 kB",
    ),
    "18": (
        "checkpoint starting: fast force wait time",
        "checkpoint complete: wrote 44 buffers (0.3%), wrote 3 SLRU buffers; 0 WAL file(s) added, 0 removed,"
        " 0 recycled; write=0.250 s, sync=0.003 s, total=0.500 s; sync files=15, longest=0.001 s,"
        " average=0.000 s; distance=29 kB, estimate=29 kB; lsn=0/1B5A2E8, redo lsn=0/1B5A290",
    ),
}
VACUUMS = {
    "9.6": 'automatic vacuum of table "pgstrata.public.pi1": index scans: 1\n'
    "\tpages: 0 removed, 55 remain, 0 skipped due to pins, 0 skipped frozen\n"
    "\ttuples: 1000 removed, 9000 remain, 0 are dead but not yet removable\n"
    "\tbuffer usage: 300 hits, 0 misses, 60 dirtied\n"
    "\tavg read rate: 0.000 MB/s, avg write rate: 10.000 MB/s\n"
    "\tsystem usage: CPU 0.00s/0.01u sec elapsed 0.75 sec",
    "12": 'automatic aggressive vacuum to prevent wraparound of table "pgstrata.public.pi1": index scans: 0\n'
    "\tpages: 0 removed, 55 remain\n"
    "\tsystem usage: CPU: user: 0.00 s, system: 0.01 s, elapsed: 0.75 s",
    "18": 'automatic vacuum of table "pgstrata.public.pi1": index scans: 0\n'
    "\tdelay time: 0.000 ms\n"
    "\tWAL usage: 3 records, 1 full page images, 8000 bytes, 0 buffers full\n"
    "\tsystem usage: CPU: user: 0.00 s, system: 0.01 s, elapsed: 0.75 s",
}
ANALYZES = {
    "9.6": 'automatic analyze of table "pgstrata.public.pi1"'
    " system usage: CPU 0.00s/0.01u sec elapsed 0.75 sec",
    "12": 'automatic analyze of table "pgstrata.public.pi1" system usage: CPU: user: 0.03 s, system: 0.00 s,'
    " elapsed: 0.75 s",
    "18": 'automatic analyze of table "pgstrata.public.pi1"\n\tavg read rate: 0.0 MB/s\n'
    "\tsystem usage: CPU: user: 0.03 s, system: 0.00 s, elapsed: 0.75 s",
}


@pytest.mark.parametrize("version", CHECKPOINTS)
def test_every_format(version: str) -> None:
    starting, complete = CHECKPOINTS[version]
    got = events_of(
        line(1, starting),
        line(2.5, complete),
        line(10, VACUUMS[version], 7),
        line(20, ANALYZES[version], 8),
    )
    assert [(e.kind, e.second, e.until) for e in got] == [
        ("checkpoint", 1.0, 2.5),
        ("autovacuum", 9.25, 10.0),
        ("autoanalyze", 19.25, 20.0),
    ]
    assert starting in str(got[0].text) and "total=0.500 s" in str(got[0].text)
    assert "pgstrata.public.pi1" in str(got[1].text) and "\n" not in str(got[1].text)


def test_checkpoint_begun_before_the_log_in_view_starts_by_its_own_total() -> None:
    (event,) = events_of(line(0.25, CHECKPOINTS["12"][1]))
    assert (event.second, event.until) == (-0.25, 0.25)


def test_checkpoint_still_running() -> None:
    (event,) = events_of(line(29, CHECKPOINTS["12"][0]))
    assert (event.second, event.until) == (29.0, None)


def test_only_what_overlaps_the_step() -> None:
    assert (
        events_of(
            line(-5, CHECKPOINTS["12"][0]),
            line(-1, CHECKPOINTS["12"][1]),
            line(32, VACUUMS["12"]),
            line(33, CHECKPOINTS["18"][0]),
            line(34, CHECKPOINTS["18"][1]),
        )
        == []
    )
    # It ended just after the step, but most of it was inside.
    assert [e.until for e in events_of(line(30.5, VACUUMS["12"]))] == [30.5]


def test_lines_between_do_not_disturb() -> None:
    got = events_of(
        line(1, CHECKPOINTS["12"][0]),
        line(1.1, "duration: 5 ms  statement: select 1", 99),
        b"some library wrote to stderr\n",
        b"2023-11-14 22:13:21.500 UTC [99] ERROR:  checkpoint starting: forged\n",
        b"2023-11-14 22:13:21.500 UTC [99] STATEMENT:  checkpoint starting: forged\n",
        line(2, CHECKPOINTS["12"][1]),
        line(3, VACUUMS["18"].rsplit("\n", 1)[0]),
        b"noise in the middle of an entry\n",
        b"\tsystem usage: CPU: user: 0 s, system: 0 s, elapsed: 9.00 s\n",
    )
    assert [(e.kind, e.second, e.until) for e in got] == [
        ("checkpoint", 1.0, 2.0),
        ("autovacuum", 3.0, 3.0),
    ]


def test_zone_that_is_not_utc_is_not_guessed() -> None:
    assert events_of(line(1, CHECKPOINTS["12"][0], zone="CET")) == []


@given(st.text(max_size=300), st.text(max_size=300))
def test_strangers_cannot_forge_events(name: str, statement: str) -> None:
    """The server puts a tab behind every newline of a message; names and statements come raw."""
    forged = CHECKPOINTS["12"][0]

    def written(second: float, text: str, level: str = "LOG") -> bytes:
        text = text.encode("utf-8", "replace").decode().replace("\x00", "").replace("\n", "\n\t")
        return line(second, text).replace(b" LOG: ", f" {level}: ".encode(), 1)

    vacuum = VACUUMS["18"].replace("\t", "").replace("pi1", f"{name}\n{line(9, forged).decode()}")
    log = (
        written(1, f"duration: 1 ms  statement: {statement}\n{line(9, forged).decode()}")
        + written(2, f"{statement}\n{line(9, forged).decode()}", "STATEMENT")
        + written(3, vacuum)
        + line(4, CHECKPOINTS["12"][1])
    )
    got = events(entries(log.split(b"\n")), T0, T0 + 30)
    assert [e.kind for e in got] == ["autovacuum", "checkpoint"]
    assert [e.until for e in got] == [3.0, 4.0]
    assert got[0].second == 2.25
    assert str(got[0].text).isprintable() and len(str(got[0].text)) <= 1000


@given(st.lists(st.binary(max_size=200) | st.sampled_from([line(1, t) for t in VACUUMS.values()])))
def test_any_bytes(lines: list[bytes]) -> None:
    for event in events(entries(lines), T0, T0 + 10):
        assert event.kind in ("checkpoint", "autovacuum", "autoanalyze")


@given(st.text("0123456789", min_size=1, max_size=400))
def test_absurd_numbers(digits: str) -> None:
    text = VACUUMS["18"].replace("0.75", f"{digits}.00")
    for event in events_of(line(1, text)):
        assert event.kind == "autovacuum"
        assert math.isfinite(float(str(event.second)))
    for event in events_of(line(1, f"checkpoint complete: total={digits}.0 s")):
        assert math.isfinite(float(str(event.second)))
    events_of(b"2023-11-14 22:13:21.000 UTC [" + digits.encode() + b"] LOG:  checkpoint starting: time\n")


def test_seconds_between_two_messages_since_the_mark(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(line(0, "redo starts at 0/1") + line(1, "redo done at 0/2"))
    window = LogWindow(log)
    window.mark()
    redo = ("redo starts at", "redo done at")
    assert window.seconds_between(*redo) is None
    statement = line(2, "statement: SELECT '\n\tredo starts at\n" + "x" * 20_000)
    with log.open("ab") as file:
        file.write(statement + line(3, "redo starts at 0/3") + line(4, "database system is ready"))
    assert window.seconds_between(*redo) is None
    with log.open("ab") as file:
        file.write(
            line(5.25, "redo done at 0/4 system usage: CPU: user: 0.11 s") + line(9, "redo done at 0/5")
        )
    assert window.seconds_between(*redo) == pytest.approx(2.25)
    assert window.seconds_between("redo done", "redo starts") == 0.0  # a clock that was set back
    log.unlink()
    with pytest.raises(OSError):
        window.seconds_between(*redo)


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_no_log_upsets_the_seconds_between(
    tmp_path_factory: pytest.TempPathFactory, noise: list[bytes]
) -> None:
    log = tmp_path_factory.mktemp("log") / "log"
    log.write_bytes(b"".join(noise))
    window = LogWindow(log)
    with log.open("ab") as file:
        file.write(
            b"\n" + line(1, "redo starts at 0/1") + b"".join(noise) + b"\n" + line(2, "redo done at 0/2")
        )
    seconds = window.seconds_between("redo starts at", "redo done at")
    assert seconds is not None and seconds >= 0


def test_window_reads_only_its_part(tmp_path: Path) -> None:
    log = tmp_path / "log"
    padding = line(-60, "duration: 1 ms  statement: " + "x" * 1000) * 400
    log.write_bytes(line(-100, VACUUMS["12"]) + padding + line(-1, CHECKPOINTS["12"][0]))
    window = LogWindow(log)
    window.mark()
    with log.open("ab") as file:
        file.write(line(1, "statement: " + "y" * 3_000_000))
        file.write(line(3, CHECKPOINTS["12"][1]))
    # The checkpoint had begun before the mark, and is whole all the same.
    got = window.events(T0, T0 + 30)
    assert [(e.kind, e.second, e.until) for e in got] == [("checkpoint", -1.0, 3.0)]
    log.write_bytes(line(5, VACUUMS["12"]))  # somebody emptied the log
    assert [e.kind for e in window.events(T0, T0 + 30)] == ["autovacuum"]
    log.unlink()
    with pytest.raises(OSError):
        window.events(T0, T0 + 30)
