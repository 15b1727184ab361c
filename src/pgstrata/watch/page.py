"""The page of a watch: open alarms, a table of the last commits, and the way of each series."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from pgstrata.watch.detect import Point
from pgstrata.watch.history import Alarm
from pgstrata.watch.known import Known
from pgstrata.watch.moves import Moves, moves_of
from pgstrata.watch.text import costs, listed_alarms, mail, others, size, summary

LATEST = 50
"""Commits in the table of the page; the CSV beside it has all."""

STRONGEST = 0.05
"""Change as a log ratio that has the full colour."""

MOST_NAMED = 12
"""Changes that a chart names; more would cover each other."""

COLOURS = (
    "Coloured is what is proven: the changes up to a commit, added up; a stronger colour is a larger change. "
    "Intervals are 95 %."
)


def write_watch(known: Known) -> Path:
    """Writes the page and the drafts of mails into the folder of the watch; returns the page. Raises
    StoreError."""
    folder = known.watch.folder
    moves = moves_of(known)
    parts = [
        Section("alarms", "Changes", alarms_blocks(known, lambda alarm: f"alarms/{alarm.name}/index.html")),
        Section("commits", "The latest commits", _commits(known, moves)),
        Section(
            "series",
            "Over time",
            parts=[
                Section(f"series-{number}", name, [series_chart(known, moves[name], number)])
                for number, name in enumerate(known.series)
            ],
        ),
    ]
    if skipped := _skipped(known):
        parts.append(Section("skipped", "Skipped", [skipped]))
    write_page(known.watch.name, lede(known), parts, folder, run_count=len(known.values))
    for alarm in listed_alarms(known):
        if (folder / "alarms" / alarm.name).is_dir():
            path = folder / "alarms" / alarm.name / "mail.txt"
            with storing("store the draft of a mail", path.parent):
                disk.replace(path, mail(known, alarm).encode("utf-8", "replace"), durable=False)
    return folder / "index.html"


def lede(known: Known) -> str:
    """Returns the first sentence of a watch's page."""
    return (
        f"{counted(known.line.newest, 'commit')} of {known.watch.file.branch} since "
        f"{known.line.stops[0].name}, each against that one: {counted(len(known.series), 'step')}."
    )


# --- alarms -----------------------------------------------------------------------------------


def alarms_blocks(known: Known, address: Callable[[Alarm], str]) -> list[Block]:
    """Returns blocks with a summary of what is measured, and the changes as a table. address: of a change's
    page, relative to this one."""
    blocks: list[Block] = [Prose(text) for text in (summary(known), costs(known)) if text]
    alarms = listed_alarms(known)
    if not alarms:
        blocks.append(Prose("There is no alarm.", "even"))
        return blocks
    columns = [
        Column("commit", "Commit", align="left"),
        Column("change", "Change", align="left"),
        Column("step", "Step", align="left"),
        Column("subject", "Subject", align="left"),
        Column("others", "Moved with it", align="left"),
        Column("state", "State", align="left"),
    ]
    how = (
        f"All steps together have one false alarm in {known.watch.file.false_alarm:,} commits at most. Each "
        "alarm was searched: its commit was measured again against the one before. Intervals are 95 %."
    )
    rows = [_alarm_row(known, alarm, address(alarm)) for alarm in alarms]
    blocks.append(Table("alarms", "The latest first", columns, rows, how, stacked=True))
    return blocks


def _alarm_row(known: Known, alarm: Alarm, address: str) -> Row:
    moved = alarm.moved[alarm.leading]
    mark: Mark = "bad" if moved.log_ratio < 0 else "good"
    note = known.note_of(alarm)
    place = alarm.commits[-1] if alarm.commits else alarm.bad
    return Row(
        [
            words(place[:10], alarm.subject, href=address),
            Cell(moved.log_ratio, size(moved, known.series[alarm.leading].by), "" if note else mark),
            words(alarm.leading),
            words(alarm.subject or f"one of the commits after {alarm.good[:10]}"),
            words("; ".join(others(known, alarm)) or "nothing"),
            words(f"acknowledged: {note}" if note else _state(alarm)),
        ]
    )


def _state(alarm: Alarm) -> str:
    if alarm.state == "open":
        return "being searched"
    return "open alarm" if alarm.is_worse else "better"


# --- commits ----------------------------------------------------------------------------------


def measured_positions(known: Known) -> list[int]:
    """Returns the positions of the commits that have a value, the newest first; without the anchor."""
    points = (known.points(series) for series in known.series.values())
    return sorted({point.position for of in points for point in of if point.position}, reverse=True)


def _commits(known: Known, moves: Mapping[str, Moves]) -> list[Block]:
    stops = known.line.stops
    points = points_of(known)
    measured = measured_positions(known)
    if not measured:
        return [Prose("Nothing has been measured yet.")]
    columns = [Column("commit", "Commit", align="left"), Column("date", "Date", align="left")]
    columns += [Column(f"s{n}", name, "%") for n, name in enumerate(known.series)]
    rows = []
    for position in measured[:LATEST]:
        stop = stops[position]
        cells = [words(stop.name, stop.subject), words(stop.date[:10])]
        cells += [value_cell(known, moves[name], points[name], position) for name in known.series]
        rows.append(Row(cells))
    what = "the anchor's instructions or rate per operation"
    title = f"The latest {counted(len(rows), 'measured commit')}"
    return [Table("commits", title, columns, rows, f"Change against {what}. {COLOURS}", lead=1)]


def points_of(known: Known) -> dict[str, dict[int, Point]]:
    """Returns the values by name of the series and position."""
    return {name: {p.position: p for p in known.points(series)} for name, series in known.series.items()}


def value_cell(known: Known, moves: Moves, points: Mapping[int, Point], position: int) -> Cell:
    """Returns the cell with a commit's value against the anchor, coloured if the commit is at another level
    than the anchor."""
    point, series = points.get(position), moves.series
    if point is None:
        values = known.values.get(known.line.stops[position].id)
        why = (values.missing.get(series.name) or values.skipped) if values else ""
        return missing(why or "not measured")
    change, low, high = interval(Outcome(point.log_ratio, point.error), series.by)
    level = moves.level_at(position)
    mark = moves.mark(0, level)
    shade = min(1.0, abs(moves.total(0, level).log_ratio) / STRONGEST) if mark and level else None
    note = f"{100 * low:+z.2f} … {100 * high:+z.2f} %"
    return Cell(100 * change, f"{100 * change:+z.2f}", mark, note, shade=shade)


# --- charts -----------------------------------------------------------------------------------


def series_chart(known: Known, moves: Moves, number: int) -> Chart:
    """Returns the chart of all values of a series with their intervals, and its changes with their dates."""
    series = moves.series
    what, better = axis_words(series.by)
    return Chart(
        id=f"series-chart-{number}",
        title=f"{what} of {series.name} against {known.line.stops[0].name} — {better}",
        data=[_trace(known, moves)],
        layout={
            "margin": {"l": 64, "r": 12, "t": 30, "b": 56},
            "showlegend": False,
            "xaxis": axis("commits after the anchor", range=[-0.5, known.line.newest + 0.5]),
            "yaxis": axis(f"change of the {what.lower()}, %", zeroline=True),
            "shapes": [stretch(move.first - 0.5, move.last + 0.5) for move in moves.moves],
            "annotations": _dates(known, moves),
        },
        height=300,
        how="Each mark is a commit with its 95 % interval; the marked stretches are where the level changed.",
    )


def _trace(known: Known, moves: Moves) -> dict[str, Any]:
    series, stops = moves.series, known.line.stops
    points = known.points(series)
    outcomes = [Outcome(p.log_ratio, p.error) for p in points]
    where = [stops[p.position] for p in points]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label(series.name),
        "x": [p.position for p in points],
        "y": [round(100 * interval(outcome, series.by)[0], 4) for outcome in outcomes],
        "text": [label(f"{stop.name} {stop.date[:10]} {stop.subject[:100]}") for stop in where],
        "error_y": error_bars(outcomes, series.by),
        "line": {"shape": "hv", "width": 1, "color": color(0)},
        "marker": {"size": 6, "color": color(0)},
        "hovertemplate": "%{text}<br>%{y:+.3f} %<extra></extra>",
    }


def _dates(known: Known, moves: Moves) -> list[dict[str, Any]]:
    newest = known.line.newest

    def anchor(place: float) -> str:
        return "left" if place < newest / 10 else "right" if place > 0.9 * newest else "center"

    return [
        {
            "x": (move.first + move.last) / 2,
            "xanchor": anchor((move.first + move.last) / 2),
            "y": 1,
            "yref": "paper",
            "yanchor": "top",
            "showarrow": False,
            "text": label(known.line.stops[move.last].date[:10]),
        }
        for move in moves.moves[-MOST_NAMED:]
    ]


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


__all__ = [
    "COLOURS",
    "alarms_blocks",
    "lede",
    "measured_positions",
    "points_of",
    "series_chart",
    "value_cell",
    "write_watch",
]
