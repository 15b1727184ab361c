"""What the values of a watch are evidence for: commits of the same code, and commits without code."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.watch.known import changes_of
from pgstrata.watch.passing import line_between
from pgstrata.watch.site.command import read_known
from support.watched import STEPS, make_watch, raise_alarm

FIRST = f"pgbench {STEPS[0]}"

pytestmark = pytest.mark.program

SUBJECTS = [f"change {n}" for n in range(1, 31)]


def test_a_commit_without_code_has_the_value_of_the_one_before(tmp_path: Path) -> None:
    file = make_watch(tmp_path, SUBJECTS, {12: -0.05}, idle=[11, 13], unmeasured=[11, 13])
    known = read_known(file)
    (change,) = changes_of(known)[FIRST]
    assert (change.before, change.after) == (11, 12)


def test_neighbours_of_the_same_code_are_one_value(tmp_path: Path) -> None:
    codes = {position: "slow" if 12 <= position < 16 else "quick" for position in range(8, 20)}
    file = make_watch(
        tmp_path, SUBJECTS, {12: -0.05, 16: 0.05}, codes=codes, idle=[14, 16], unmeasured=[14, 15, 16]
    )
    known = read_known(file)
    spans = [(point.position, point.end) for point in known.evidence(known.series[FIRST])]
    assert spans == [
        *((p, p) for p in range(8)),
        (8, 11),
        (12, 14),
        (17, 19),
        *((p, p) for p in range(20, 31)),
    ]
    assert [(c.before, c.after) for c in changes_of(known)[FIRST]] == [(11, 12), (14, 17)]


def test_commits_without_code_are_not_searched(tmp_path: Path) -> None:
    file = make_watch(tmp_path, SUBJECTS, {12: -0.05}, idle=[11, 13, 15], unmeasured=[11, 13, 15])
    alarm = raise_alarm(file, 16, -0.05)  # between 15 and 16
    line = line_between(read_known(file), alarm)
    assert [stop.subject for stop in line.stops] == ["change 14", "change 16"]
