"""Profiles of stored runs: what makes pairs, and what older runs say."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pgstrata.judge.compare import Comparison, compare_all
from pgstrata.judge.profile_pairs import OLD
from pgstrata.store import Results, Run, RunKey
from pgstrata.store.choose import Side
from pgstrata.store.read import read_run
from pgstrata.store.record import ProfilePart, ProfileRecord, Slice
from support.records import circumstances, comparison_record, role_record, step_record

BATCHES, PAIRS_OF_BATCH = 10, 5
COUNTS = {"a": (60.0, 120.0), "b": (40.0, 40.0)}
"""Samples of a batch by function, of base and other."""


def stored(
    root: Path, side: int, *, parts: Sequence[int], waited: Sequence[int] = (), turns: bool = True
) -> Run:
    """One side; an operation takes 10 µs of CPU on the base. parts: batches that were profiled; waited: those
    that other programs disturbed."""
    variant = "ab"[side]
    cost = 1e-5 * sum(counts[side] for counts in COUNTS.values()) / 100
    builder = Results(root).begin(RunKey("c", variant, "w", 1))
    batches = [ProfilePart(number=n, samples=100, operations=1000, cpu_seconds=cost * 1000) for n in parts]
    profile = ProfileRecord(
        file="profile/s.folded.gz", backends=1, samples=100 * BATCHES, event="cpu-clock", seconds=1.0,
        perf_cpu_seconds=None, note="", parts=tuple(batches),
    )  # fmt: skip
    slices = [
        Slice(
            pair=pair,
            seconds=0.1,
            rate=1e5 * (1 + 0.001 * (pair % 7)) * 1e-5 / cost,
            waited=0.9 * ((pair - 1) // PAIRS_OF_BATCH + 1 in waited),
        )
        for pair in range(1, BATCHES * PAIRS_OF_BATCH + 1)
    ]
    in_turn: dict[str, Any] = {
        "turns": "windows",
        "slices": tuple(slices),
        "blocks": tuple(PAIRS_OF_BATCH * n for n in range(1, BATCHES + 1)),
    }
    operations = 1000 * BATCHES
    role = role_record(operations=operations, cpu_seconds=cost * operations, rate=1.0)
    record = step_record(
        "s", reads_only=True, roles={"query": role}, profile={"query": profile}, **(in_turn if turns else {})
    )
    rows = [
        {
            "role": "query", "part": n, "phase": "execution", "function": name, "file": f"{name}.c",
            # Batches differ a little, or they would have no error.
            "samples": counts[side] + (n * (3 + side) % 5 if name == "b" else 0),
        }
        for n in parts
        for name, counts in COUNTS.items()
    ]  # fmt: skip
    builder.step(record, profiles=rows)
    lines = "".join(f"postgres;main;{name} {round(counts[side])}\n" for name, counts in COUNTS.items())
    builder.attach("profile/s.folded.gz", gzip.compress(lines.encode()))
    together = {"comparison": comparison_record("a", "b")} if turns else {}
    run = read_run(builder.finish(circumstances(**together)))
    assert isinstance(run, Run), run
    return run


def compared(*runs: Run) -> Comparison:
    (comparison,) = compare_all(Side("a", runs[:1]), [Side("b", runs[1:])])
    return comparison


def test_batches_that_both_sides_profiled_are_pairs(tmp_path: Path) -> None:
    ours = stored(tmp_path, 0, parts=range(1, 11))
    theirs = stored(tmp_path, 1, parts=range(1, 11))
    (profile,) = compared(ours, theirs).steps[0].profiles
    assert profile.pairs == BATCHES and profile.reason == ""
    (change, *_) = profile.proven
    assert (change.name, change.word) == ("a", "more")
    assert change.difference == pytest.approx(6e-6, rel=0.05)
    assert (profile.files[0].name, profile.files[0].word) == ("a.c", "more")
    record = compared(ours, theirs).record()["steps"][0]["profiles"][0]
    assert record["functions"][0]["word"] == "more"  # type: ignore[index]


def test_disturbed_batches_and_those_of_one_side_are_no_pairs(tmp_path: Path) -> None:
    ours = stored(tmp_path, 0, parts=range(1, 11), waited=(3,))
    theirs = stored(tmp_path, 1, parts=range(2, 11))
    (profile,) = compared(ours, theirs).steps[0].profiles
    assert profile.pairs == 8


def test_a_disturbed_step_proves_nothing(tmp_path: Path) -> None:
    ours = stored(tmp_path, 0, parts=range(1, 11), waited=range(1, 7))
    theirs = stored(tmp_path, 1, parts=range(1, 11))
    (profile,) = compared(ours, theirs).steps[0].profiles
    assert profile.reason and not profile.proven


def test_runs_without_samples_of_batches_say_that_they_have_no_intervals(tmp_path: Path) -> None:
    (profile,) = compared(*(stored(tmp_path, side, parts=()) for side in (0, 1))).steps[0].profiles
    assert profile.reason == OLD and profile.pairs == 1
    assert {change.name: round(change.other * 1e6, 3) for change in profile.functions} == {"a": 12, "b": 4}
    assert not profile.whole.is_bounded


def test_one_run_each_has_no_interval(tmp_path: Path) -> None:
    sides = [stored(tmp_path, side, parts=(0,), turns=False) for side in (0, 1)]
    (profile,) = compared(*sides).steps[0].profiles
    assert "one pair has no interval" in profile.reason and profile.proven == ()
