"""A log that is longer than the time: its busiest window is replayed, with what holds in it from before."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.logs import START, S, extended, log, plain
from support.page import PageReader
from support.program import Program

DUMP = """--
-- PostgreSQL database dump
--

CREATE SCHEMA hidden;
CREATE TABLE hidden.only_here (v integer PRIMARY KEY);
CREATE TABLE public.quiet (v integer);
INSERT INTO hidden.only_here SELECT generate_series(1, 1000);
"""
REFUSED = "SELECT v FROM quiet WHERE v = 7OR v = 8"
"""Far from the busiest window. From 15 on a number and a word need a space."""
BUSY = 300
"""Seconds after the log's beginning."""


def _write(place: Path) -> None:
    (place / "shop.sql").write_text(DUMP)
    entries = [
        plain(START, 1, "SET search_path TO hidden, public"),
        plain(START + S, 1, "PREPARE count_all AS SELECT count(*) FROM only_here"),
        plain(START + 2 * S, 1, "CREATE TABLE only_here_too (a int)"),
    ]
    entries += [plain(START + 5 * S, 0.5, REFUSED)]
    entries += [plain(START + n * S, 0.5, "SELECT v FROM quiet") for n in range(10, 600, 10)]
    for n in range(100):
        at = START + BUSY * S + n * 30_000
        entries += extended(at, 6, "SELECT v FROM only_here WHERE v = $1", [f"{n + 1}"], name="S_1")
    entries.append(plain(START + (BUSY + 3) * S + S // 2, 1, "EXECUTE count_all"))
    other = [replace(entry, session="697dee41.1a2c") for entry in entries[:2]]
    (place / "shop.csv").write_text(log(sorted([*entries, *other], key=lambda entry: entry.time)))


@pytest.mark.timeout(1200)
def test_the_busiest_window_is_replayed(pg13: Server, pg17: Server, place: Path, pgstrata: Program) -> None:
    _write(place)
    question = ("upgrade", "--from", "13", "--to", "17", "--dump", "shop.sql", "--log", "shop.csv")
    done = pgstrata(*question, "--rounds", "2", "--seconds", "5", "--other-load", "100%", "--format", "json")
    assert done.returncode == 1, done.stderr
    assert "--seconds 5 is less than" in done.stderr and "its busiest window is replayed" in done.stderr
    answer = json.loads(done.stdout)
    (to,) = answer["to"]
    # Without the search path and the PREPARE of the beginning, none of these would be found.
    assert to["new_errors"] == [] and answer["failed"] == {}
    calls = {statement["statement"]: statement["calls"] for statement in to["statements"]}
    assert calls["SELECT v FROM only_here WHERE v = $1"] == 2 * 100
    assert calls["EXECUTE count_all"] == 2 and calls["SET search_path TO hidden, public"] == 2
    assert not any("CREATE TABLE" in text for text in calls)
    gaps = {gap["what"]: gap for gap in answer["not_covered"]}
    outside = next(gap for what, gap in gaps.items() if "outside of the window 2026-01-31 12:0" in what)
    assert outside["count"] > 50 and 0 < outside["share"] < 0.1
    # The checklist is of the whole log: what fails an hour later fails, too.
    (refused,) = [line for line in to["checklist"] if line["state"] == "fails"]
    assert refused["count"] == 1 and "7OR" in refused["objects"][0] and "1 thing" in to["said"]
    assert "Then a window of shop.csv, " in " ".join(PageReader(place / answer["page"]).text)
    assert any("(DDL)" in what for what in gaps)
    assert not any("Failed in the log" in what for what in gaps)


@pytest.mark.timeout(600)
def test_a_chosen_window_and_no_pauses(pg13: Server, pg17: Server, place: Path, pgstrata: Program) -> None:
    _write(place)
    question = (
        "upgrade",
        "--from",
        "13",
        "--to",
        "17",
        "--dump",
        "shop.sql",
        "--log",
        "shop.csv",
        "--dry-run",
    )
    done = pgstrata(*question, "--window", "12:01-12:03", "--skip-idle", "--rounds", "2")
    assert done.returncode == 0, done.stderr
    (part,) = (place / "upgrade" / "13-to-17-shop").glob("window-*.traffic")
    shown = json.loads(pgstrata("capture", part, "--format", "json").stdout)
    assert shown["statements"] == 12 + 2 and shown["end"] - shown["begin"] < 30 * S
    assert any("were cut" in note for note in shown["notes"])
    # The same log on standard input.
    data = (place / "shop.csv").read_bytes()
    command = [sys.executable, "-m", "pgstrata", *question[:-2], "-", "--dry-run", "--rounds", "2"]
    piped = subprocess.run(command, input=data, capture_output=True, cwd=place)
    assert piped.returncode == 0, piped.stderr
    for window, why in (("14:00-15:00", "lies beside the log"), ("noon", "is no window of time")):
        refused = pgstrata(*question, "--window", window)
        assert refused.returncode == 2 and why in refused.stderr and "Traceback" not in refused.stderr
