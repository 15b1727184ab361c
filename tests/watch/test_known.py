"""What the values of a watch are evidence for: commits of the same code, and commits without code."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.watch.file import read_watch
from pgstrata.watch.history import Alarm, Moved
from pgstrata.watch.known import changes_of, line_of
from pgstrata.watch.passing import line_between, raise_new_alarms
from pgstrata.watch.site.command import read_known
from pgstrata.watch.text import costs
from support.tree import commit, git
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


def test_what_moved_elsewhere_leaves_an_alarm_that_is_narrowed(tmp_path: Path) -> None:
    file = make_watch(tmp_path, SUBJECTS, {12: -0.05, 22: -0.03})
    known = read_known(file)
    stops, (first, second) = known.line.stops, known.series
    alarm = Alarm(stops[0].id, stops[30].id, first, dict.fromkeys((first, second), Moved(-0.08, 0.001)), "")
    known.alarms.alarms.append(alarm)
    raise_new_alarms(known)
    placed = [(a.good, a.bad, [*a.moved]) for a in known.alarms.alarms]
    assert placed == [(stops[n - 1].id, stops[n].id, [first]) for n in (12, 22)]


def test_an_alarm_that_a_single_value_has_raised_is_taken_back(tmp_path: Path) -> None:
    known = read_known(make_watch(tmp_path, SUBJECTS, {12: -0.05, 13: 0.05, 22: -0.03}))
    stops, (first, _) = known.line.stops, known.series
    moved = {first: Moved(-0.05, 0.001)}
    single = Alarm(stops[4].id, stops[8].id, first, dict(moved), "")
    searched = Alarm(stops[5].id, stops[6].id, first, dict(moved), "", answer="not known yet")
    elsewhere = Alarm("a" * 40, "b" * 40, first, dict(moved), "")
    known.alarms.alarms += [single, searched, elsewhere]
    raise_new_alarms(known)
    assert single not in known.alarms.alarms
    assert searched in known.alarms.alarms and elsewhere in known.alarms.alarms
    assert stops[22].id in [alarm.bad for alarm in known.alarms.alarms]


def test_a_commit_takes_no_longer_than_its_parts(tmp_path: Path) -> None:
    known = read_known(make_watch(tmp_path, SUBJECTS[:3], {}))
    assert "60.0 s and 90.0 s of CPU in the median; without its build, 60.0 s of CPU." in costs(known)


def test_an_acknowledged_commit_that_is_not_there_is_said(tmp_path: Path) -> None:
    file = make_watch(tmp_path, SUBJECTS[:3], {})
    repo = tmp_path / "repo"
    there = [git(repo, "rev-parse", f"main~{back}") for back in (0, 1)]
    git(repo, "checkout", "-q", "-b", "elsewhere", "main~2")
    there.append(commit(repo, "on no watched line"))
    mistyped = there[0][:11] + ("0" if there[0][11] != "0" else "1")
    entries = [there[0], there[1][:8], there[2], mistyped, "0" * 40]
    file.write_text(
        file.read_text()
        + "".join(f'\n[[acknowledged]]\ncommit = "{hash_}"\nnote = "meant"\n' for hash_ in entries)
    )
    lines: list[str] = []
    line_of(read_watch(file), lines.append)
    begin = f"warning: {file}: `acknowledged` names no commit: there is no commit "
    assert lines == [
        f"{begin}'{mistyped}' in {repo} (near are {there[0][:12]}; correct its hash, or remove the entry)",
        f"{begin}'{'0' * 40}' in {repo} (correct its hash, or remove the entry)",
    ]
