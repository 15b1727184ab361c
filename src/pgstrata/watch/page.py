"""The page of a watch: open alarms, a table of the last commits, and the way of each series."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pgstrata.files import disk
from pgstrata.files.disk import storing
from pgstrata.judge.marks import Mark
from pgstrata.numbers import counted
from pgstrata.page.blocks import Block, Cell, Chart, Column, Prose, Row, Section, Table, missing, words
from pgstrata.page.charts import axis, color, label
from pgstrata.report.write import write_page
from pgstrata.search.bisect.page import axis_words, error_bars, stretch
from pgstrata.search.bisect.search import Outcome
from pgstrata.search.bisect.text import interval
from pgstrata.watch.detect import Change, Point
from pgstrata.watch.history import Alarm
from pgstrata.watch.measure import Series
from pgstrata.watch.passing import Known, changes_of
from pgstrata.watch.text import mail, others, size, summary

LATEST = 50
"""Commits in the table of the page; the CSV beside it has all."""


def write_watch(known: Known) -> Path:
    """Writes the page and the drafts of mails into the folder of the watch; returns the page. Raises
    StoreError."""
    folder = known.watch.folder
    changes = changes_of(known)
    parts = [
        Section("alarms", "Changes", _alarms(known)),
        Section("commits", "The latest commits", _commits(known)),
        Section(
            "series",
            "Over time",
            parts=[
                Section(f"series-{number}", name, [_chart(known, series, changes[name], number)])
                for number, (name, series) in enumerate(known.series.items())
            ],
        ),
    ]
    if skipped := _skipped(known):
        parts.append(Section("skipped", "Skipped", [skipped]))
    lede = (
        f"{counted(known.line.newest, 'commit')} of {known.watch.file.branch} since "
        f"{known.line.stops[0].name}, each against that one: {counted(len(known.series), 'step')}."
    )
    write_page(known.watch.name, lede, parts, folder, run_count=len(known.values))
    for alarm in known.shown_alarms:
        if alarm.leading in known.series and (folder / "alarms" / alarm.name).is_dir():
            path = folder / "alarms" / alarm.name / "mail.txt"
            with storing("store the draft of a mail", path.parent):
                disk.replace(path, mail(known, alarm).encode("utf-8", "replace"), durable=False)
    return folder / "index.html"


# --- alarms -----------------------------------------------------------------------------------


def _alarms(known: Known) -> list[Block]:
    shown = [alarm for alarm in known.shown_alarms if alarm.leading in known.series]
    blocks: list[Block] = [Prose(summary(known))]
    if not shown:
        blocks.append(Prose("No step has changed.", "even"))
        return blocks
    rows = []
    for alarm in shown:
        moved = alarm.moved[alarm.leading]
        mark: Mark = "bad" if moved.log_ratio < 0 else "good"
        note = known.note_of(alarm)
        place = alarm.commits[-1] if alarm.commits else alarm.bad
        rows.append(
            Row(
                [
                    words(place[:10], alarm.subject),
                    Cell(moved.log_ratio, size(moved, known.series[alarm.leading].by), "" if note else mark),
                    words(alarm.leading),
                    words(alarm.subject or f"one of the commits after {alarm.good[:10]}"),
                    words("; ".join(others(known, alarm)) or "nothing"),
                    words(note or _state(alarm)),
                    words(f"alarms/{alarm.name}/index.html"),
                ]
            )
        )
    columns = [
        Column("commit", "Commit", align="left"),
        Column("change", "Change", align="left"),
        Column("step", "Step", align="left"),
        Column("subject", "Subject", align="left"),
        Column("others", "Moved with it", align="left"),
        Column("state", "State", align="left"),
        Column("page", "Search", align="left"),
    ]
    how = (
        f"All steps together have one false alarm in {known.watch.file.false_alarm:,} commits at most. Each "
        "alarm was searched: its commit was measured again against the one before. Intervals are 95 %."
    )
    blocks.append(Table("alarms", "The latest first", columns, rows, how))
    return blocks


def _state(alarm: Alarm) -> str:
    if alarm.state == "open":
        return "being searched"
    return "open alarm" if alarm.is_worse else "better"


# --- commits ----------------------------------------------------------------------------------


def _commits(known: Known) -> list[Block]:
    stops = known.line.stops
    points = {name: {p.position: p for p in known.points(series)} for name, series in known.series.items()}
    measured = sorted({position for of in points.values() for position in of if position}, reverse=True)
    if not measured:
        return [Prose("Nothing has been measured yet.")]
    columns = [Column("commit", "Commit", align="left"), Column("date", "Date", align="left")]
    columns += [Column(f"s{n}", name, "%") for n, name in enumerate(known.series)]
    rows = []
    for position in measured[:LATEST]:
        stop = stops[position]
        cells = [words(stop.name, stop.subject), words(stop.date[:10])]
        for name, series in known.series.items():
            point = points[name].get(position)
            values = known.values[stop.id]
            cells.append(_cell(point, series) if point else missing(values.missing.get(name, "not measured")))
        rows.append(Row(cells))
    what = "the anchor's instructions or rate per operation"
    return [
        Table(
            "commits",
            f"The latest {counted(len(rows), 'measured commit')}",
            columns,
            rows,
            f"Change against {what}; a darker field is a larger one. Coloured are changes beyond "
            "the smallest that is looked for and beyond their interval.",
            lead=1,
        )
    ]


def _cell(point: Point, series: Series) -> Cell:
    change, low, high = interval(Outcome(point.log_ratio, point.error), series.by)
    beyond = abs(point.log_ratio) > max(series.smallest, 2 * point.error)
    mark: Mark = "" if not beyond else "bad" if point.log_ratio < 0 else "good"
    shade = None if mark else min(1.0, abs(point.log_ratio) / (10 * series.smallest))
    return Cell(
        100 * change, f"{100 * change:+.2f}", mark, f"{100 * low:+.2f} … {100 * high:+.2f} %", shade=shade
    )


# --- charts -----------------------------------------------------------------------------------


def _chart(known: Known, series: Series, changes: Sequence[Change], number: int) -> Chart:
    stops = known.line.stops
    points = known.points(series)
    outcomes = [Outcome(p.log_ratio, p.error) for p in points]
    what, better = axis_words(series.by)
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": label(series.name),
            "x": [p.position for p in points],
            "y": [100 * interval(outcome, series.by)[0] for outcome in outcomes],
            "text": [label(f"{stops[p.position].name} {stops[p.position].subject}") for p in points],
            "error_y": error_bars(outcomes, series.by),
            "line": {"shape": "hv", "width": 1, "color": color(0)},
            "marker": {"size": 6, "color": color(0)},
            "hovertemplate": "%{text}<br>%{y:+.3f} %<extra></extra>",
        }
    ]
    shapes = [stretch(change.before + 0.5, change.after + 0.5) for change in changes]
    return Chart(
        id=f"series-chart-{number}",
        title=f"{what} of {series.name} against {stops[0].name} — {better}",
        data=data,
        layout={
            "margin": {"l": 64, "r": 12, "t": 30, "b": 56},
            "showlegend": False,
            "xaxis": axis("commits after the anchor", range=[-0.5, known.line.newest + 0.5]),
            "yaxis": axis(f"change of the {what.lower()}, %", zeroline=True),
            "shapes": shapes,
        },
        height=300,
        how="Each mark is a commit with its 95 % interval; the marked stretches are where the level changed.",
    )


def _skipped(known: Known) -> Table | None:
    skipped = sorted(known.positions(skipped=True), reverse=True)
    if not skipped:
        return None
    stops = known.line.stops
    rows = [
        Row([words(stops[p].name, stops[p].subject), words(known.values[stops[p].id].skipped)])
        for p in skipped
    ]
    columns = [Column("commit", "Commit", align="left"), Column("why", "Why", align="left")]
    return Table(
        "skipped", "Commits that cannot be measured", columns, rows, "No evidence for or against them."
    )


__all__ = ["write_watch"]
