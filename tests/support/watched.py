"""Watches for tests of pages: a real repository and a real history, whose values are invented.

`make_watch` writes both as a pass does; what is shown is what `pgstrata.watch` makes of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pgstrata.watch.history import VERSION, Alarm, Alarms, CommitValues, History, Moved, Value
from pgstrata.watch.known import Known
from pgstrata.watch.site.command import read_known
from support.tree import git, repository

STEPS = ("select-only-prepared-c1", "select-only-simple-c1")

WATCH = """
name = {name}
repository = "{place}/repo"
results = "{place}/watch/watched"
branch = "main"
since = "base"
{more}

[[series]]
workload = "pgbench"
steps = {steps}
set = ['builtin=["select-only"]', 'modes=["prepared", "simple"]', "scale=1"]
"""


def make_watch(
    place: Path,
    subjects: Sequence[str],
    moves: Mapping[int, float],
    *,
    name: str = '"watched"',
    more: str = "",
    unmeasured: Sequence[int] = (),
    skipped: Mapping[int, str] | None = None,
    missing: Mapping[int, str] | None = None,
    idle: Sequence[int] = (),
    codes: Mapping[int, str] | None = None,
) -> Path:
    """Writes a watch of so many commits after the anchor; returns its file.

    moves: log ratios of the first step by the position of the commit that makes them; the second step stays.
    unmeasured, skipped, missing: positions without a value, of all steps or of the second, with the reasons.
    idle: those that change documentation only; codes: what stands for the code of a commit's server.
    """
    repo = repository(place / "repo")
    git(repo, "tag", "base")
    for number, subject in enumerate(subjects, 1):
        changed = repo / ("README" if number in idle else "src/backend/main.c")
        changed.write_text(f"/* {number} */\n")
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "--allow-empty-message", "-m", subject)
    file = place / "watch.toml"
    file.write_text(WATCH.format(place=place, name=name, more=more, steps=[*STEPS]))
    known = read_known(file)
    history = History(known.watch.folder)
    rng = np.random.default_rng(1)
    for position, stop in enumerate(known.line.stops):
        if position and position not in unmeasured:
            values = _values(known, position, moves, rng, missing or {})
            why = (skipped or {}).get(position, "")
            history.add(
                CommitValues(
                    version=VERSION,
                    commit=stop.id,
                    epoch=known.epoch,
                    at=f"2026-01-01T{position // 60:02}:{position % 60:02}:00+00:00",
                    seconds=60.0,
                    values={} if why else values,
                    missing={f"pgbench {STEPS[1]}": missing[position]}
                    if missing and position in missing
                    else {},
                    skipped=why,
                    cpu_seconds=90.0,
                    build_cpu_seconds=30.0,
                    code=(codes or {}).get(position, ""),
                )
            )
    return file


def _values(
    known: Known,
    position: int,
    moves: Mapping[int, float],
    rng: np.random.Generator,
    missing: Mapping[int, str],
) -> dict[str, Value]:
    values = {}
    for number, (name, series) in enumerate(known.series.items()):
        if number and position in missing:
            continue
        level = sum(size for at, size in moves.items() if at <= position) if number == 0 else 0.0
        log_ratio = level + rng.normal(0, 0.0002)
        values[name] = Value(series.asked, log_ratio, 0.0003, 5, 1000.0, 1000.0 * math.exp(-log_ratio), "")
    return values


def raise_alarm(file: Path, position: int, log_ratio: float, answer: str = "It is known.") -> Alarm:
    """Notes the alarm of a change whose search has found this commit; returns it."""
    known = read_known(file)
    stops, name = known.line.stops, f"pgbench {STEPS[0]}"
    alarm = Alarm(
        stops[position - 1].id,
        stops[position].id,
        name,
        {name: Moved(log_ratio, 0.0003)},
        f"2026-01-01T01:{position:02}:00+00:00",
        "found",
        [stops[position].id],
        stops[position].subject,
        answer,
        ended="2026-01-02T00:00:00+00:00",
    )
    before = History(known.watch.folder).alarms()
    History(known.watch.folder).save_alarms(Alarms(VERSION, stops[-1].id, [*before.alarms, alarm]))
    return alarm
