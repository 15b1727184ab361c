"""Whether `max_seconds` is enough for any verdict: the number to use is said before anything is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.interleaved import write
from support.program import Program

SAID = (
    "max_seconds = 12 is too short for a verdict on {}, which needs {}: max_seconds = {} or more "
    "(--max-seconds {})"
)


@pytest.mark.parametrize(
    ("step", "slice_", "needs", "number"),
    [
        ("point-query", 0.02, "8 batches of about 1.00 s of each of 2 variants", 14),
        ("point-query", 2.0, "10 slices of 2.00 s of each of 2 variants", 36),
    ],
)
def test_the_number_to_use_is_said(
    place: Path, pgstrata: Program, pg17: Server, step: str, slice_: float, needs: str, number: int
) -> None:
    file = write(place, pg17, [step], slice_=slice_, more='until = "verdict"\nmax_seconds = 12')
    warning = SAID.format(step, needs, number, number)
    plan = pgstrata("run", file, "--dry-run")
    assert plan.returncode == 0 and f"warning: {warning}" in plan.stdout
    assert "too short" not in pgstrata("run", file, "--dry-run", "--max-seconds", number).stdout
    as_json = pgstrata("run", file, "--dry-run", "--format", "json")
    json.loads(as_json.stdout)
    assert warning in as_json.stderr


def test_a_step_that_ends_by_time_needs_no_number(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = write(place, pg17, ["point-query"], slice_=0.02, more="max_seconds = 12")
    assert "too short" not in pgstrata("run", file, "--dry-run").stdout


def test_what_ended_too_early_says_it_after_the_run(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = write(place, pg17, ["point-query"], slice_=0.02, more='until = "verdict"\nmax_seconds = 6')
    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 0 and "warning: max_seconds = 6 is too short" in done.stdout + done.stderr
    compared = pgstrata("compare", "a", "b", "--format", "json")
    (verdict,) = json.loads(compared.stdout)[0]["steps"]
    assert verdict["word"] == "unclear"
    assert "of at least 8 batches were measured: max_seconds = " in verdict["reason"]
    check = pgstrata("check", "--base", "a", "--fail-slower", "50%")
    assert check.returncode == 3 and "unclear: point-query" in check.stderr


def test_many_queries_need_more(place: Path, pgstrata: Program, pg17: Server) -> None:
    (place / "queries").mkdir()
    for number in range(50):
        (place / "queries" / f"q{number}.sql").write_text("select 1")
    options = ("--server", pg17.spec, "--config", "default", "--config", "a17", "--data-dir", place)
    plan = pgstrata("compare-queries", *options, place / "queries", "--max-seconds", "20", "--dry-run")
    assert plan.returncode == 0, plan.stderr
    assert "max_seconds = 20 is too short for a verdict on queries, which needs 3 pairs of 50 queries" in (
        " ".join(plan.stdout.split())
    )
