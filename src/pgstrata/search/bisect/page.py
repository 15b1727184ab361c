"""The page of a search: the way through the history, what was measured on it, and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pgstrata.count.section import difference_tables
from pgstrata.errors import PgstrataError
from pgstrata.judge.marks import Mark
from pgstrata.numbers import counted, duration, moment, rate
from pgstrata.observe.profile import unavailable
from pgstrata.page.blocks import (
    Block,
    Cell,
    Chart,
    Column,
    Facts,
    Listing,
    Prose,
    Row,
    Section,
    Table,
    Term,
    words,
)
from pgstrata.page.charts import axis, color, label, legend_above
from pgstrata.page.results import read_results
from pgstrata.report.flames import draw_flames, read_flames
from pgstrata.report.sections.why import why
from pgstrata.report.write import write_page
from pgstrata.search.bisect.accounted import counted_sides, measurement_of
from pgstrata.search.bisect.hunt import RUNS, SearchResult
from pgstrata.search.bisect.line import about_commit
from pgstrata.search.bisect.procedure import By, Group
from pgstrata.search.bisect.search import Outcome
from pgstrata.search.bisect.state import Measurement
from pgstrata.search.bisect.text import (
    changed,
    headline,
    interval,
    is_worse,
    named,
    outcome_of,
    sentences,
    shown_probability,
)
from pgstrata.search.bisect.ways import other_way

PAGE = "index.html"


def write_search(search_result: SearchResult) -> Path:
    """Writes the page into the folder of the search; returns it. Raises StoreError."""
    out = search_result.search.folder
    line = search_result.search.line
    lede = (
        f"A search over {line.extent}, {line.what}: {search_result.search.work.workload}, "
        f"{search_result.search.work.step}, {counted(len(search_result.state.measured), 'measurement')}."
    )
    sections = [
        Section("answer", "Answer", _answer(search_result)),
        Section("path", "The way through the history", _charts(search_result)),
    ]
    for number, group in enumerate(_shown(search_result), 1):
        sections += _culprit(search_result, group, number, out)
    sections.append(Section("measurements", "Measurements", _tables(search_result)))
    title = f"{search_result.search.work.step}: {line.stops[0].name} … {line.stops[-1].name}"
    write_page(title, lede, sections, out, run_count=2 * len(search_result.state.measured))
    return out / PAGE


def _answer(search_result: SearchResult) -> list[Block]:
    first, *rest = sentences(search_result)
    effect = search_result.conclusion.effect
    bad = search_result.conclusion.state == "found" and effect is not None and is_worse(effect)
    blocks: list[Block] = [Prose(first, "bad" if bad else "")]
    blocks += [Prose(text) for text in rest]
    blocks += [Prose(note, "even") for note in search_result.search.line.notes]
    return blocks


def _shown(search_result: SearchResult) -> Sequence[Group]:
    return search_result.conclusion.groups if search_result.conclusion.state == "found" else ()


# --- the way ----------------------------------------------------------------------------------


def _charts(search_result: SearchResult) -> list[Block]:
    if not search_result.state.measured:
        return [Prose("Nothing has been measured yet.")]
    charts: list[Block] = [_effects(search_result)]
    if search_result.conclusion.state in ("open", "found"):
        charts.append(_posterior(search_result))
    return charts


def _effects(search_result: SearchResult) -> Chart:
    stops, measured = search_result.search.line.stops, search_result.state.measured_by(search_result.by)
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [m.other for m in some],
            "y": [100 * interval(outcome_of(search_result, m), search_result.by)[0] for m in some],
            "error_y": error_bars([outcome_of(search_result, m) for m in some], search_result.by),
            "text": [label(f"{stops[m.other].name} {stops[m.other].subject}".strip()) for m in some],
            "marker": {"color": color(index), "size": 8, "symbol": symbol},
            "hovertemplate": "%{x}: %{y:.2f} %<br>%{text}<extra></extra>",
        }
        for name, index, symbol, some in (
            ("the ends", 0, "diamond", [m for m in measured if m.why == "ends"]),
            ("between them", 1, "circle", [m for m in measured if m.why != "ends" and m.base == 0]),
        )
        if some
    ]
    aside = sorted({stop.position for stop in search_result.state.set_aside})
    if aside:
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "could not be measured",
                "x": aside,
                "y": [0.0] * len(aside),
                "text": [label(stops[p].name) for p in aside],
                "marker": {"color": color(5), "size": 9, "symbol": "x-thin-open"},
                "hovertemplate": "%{x}: %{text}<extra>could not be measured</extra>",
            }
        )
    what, better = axis_words(search_result.by)
    anew = "which is counted once" if search_result.by == "instructions" else "servers started anew"
    return Chart(
        id="effects",
        title=f"{what} of {search_result.search.work.step} against the good end — {better}",
        data=data,
        layout={
            **_layout(search_result),
            "yaxis": axis(f"change of the {what.lower()}, %", zeroline=True),
        },
        height=380,
        how=f"Each mark is one comparison with the good end, {anew}, with its 95 % interval. "
        "The marked stretch is what was found.",
    )


def axis_words(by: By) -> tuple[str, str]:
    """Returns the title of an axis, and which end of it is good."""
    return ("Instructions", "fewer is better") if by == "instructions" else ("Rate", "higher is faster")


def error_bars(outcomes: Sequence[Outcome], by: By) -> dict[str, Any]:
    """Returns the 95 % intervals of changes in percent, as Plotly has them."""
    spans = [interval(outcome, by) for outcome in outcomes]
    return {
        "type": "data",
        "symmetric": False,
        "array": [100 * (high - change) for change, _, high in spans],
        "arrayminus": [100 * (change - low) for change, low, _ in spans],
        "thickness": 1.4,
        "width": 3,
    }


def stretch(begin: float, end: float) -> dict[str, Any]:
    """Returns a marked part of the axis of commits, as Plotly has it."""
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": begin,
        "x1": end,
        "y0": 0,
        "y1": 1,
        "line": {"width": 0},
        "fillcolor": color(5),
        "opacity": 0.25,
    }


def _layout(search_result: SearchResult) -> dict[str, Any]:
    line = search_result.search.line
    title = f"{line.kind}s after the good end"
    x = axis(title, range=[-0.02 * line.n - 0.5, 1.02 * line.n + 0.5])
    if line.n <= 12:
        x |= {
            "tickmode": "array",
            "tickvals": list(range(line.n + 1)),
            "ticktext": [label(stop.name) for stop in line.stops],
        }
    return {
        "margin": {"l": 64, "r": 12, "t": 40, "b": 56},
        "showlegend": True,
        "legend": legend_above(1.02),
        "xaxis": x,
        "shapes": [stretch(group.first - 0.5, group.last + 0.5) for group in _shown(search_result)],
    }


def _posterior(search_result: SearchResult) -> Chart:
    procedure = search_result.search.ways(search_result.state).procedures[search_result.by]
    intervals = procedure.search.knowledge().intervals
    return Chart(
        id="posterior",
        title="Where the change is: probability of each stretch that no measurement divides",
        data=[
            {
                "type": "bar",
                "name": "probability",
                "x": [(interval.first + interval.last) / 2 for interval in intervals],
                "width": [max(interval.size, search_result.search.line.n / 150) for interval in intervals],
                "y": [100 * interval.probability for interval in intervals],
                "text": [f"{interval.first} … {interval.last}" for interval in intervals],
                "textposition": "none",
                "marker": {"color": color(4)},
                "hovertemplate": "%{text}: %{y:.1f} %<extra></extra>",
            }
        ],
        layout={
            **_layout(search_result),
            "showlegend": False,
            "yaxis": axis("probability, %", range=[0, 105]),
        },
        height=260,
        how="Of at least one change in it, from all measurements together; a narrow stretch is drawn wider "
        "than it is so that it can be seen.",
    )


# --- what was found ---------------------------------------------------------------------------


def _culprit(search_result: SearchResult, group: Group, number: int, out: Path) -> list[Section]:
    line = search_result.search.line
    stop = line.stops[group.last]
    terms = [Term("Probability", shown_probability(group.probability))]
    if group.against_parent is not None:
        terms.append(Term("Against what is before it", changed(group.against_parent, search_result.by)))
    blocks: list[Block] = [Prose(named(search_result, group))]
    if line.repo is not None:
        if group.first != group.last:
            blocks.append(
                Prose(
                    "The others between do not build, or their servers do not start: any of them may be it."
                )
            )
        about = about_commit(line.repo, stop.id)
        terms += [
            Term("Commit", about.hash),
            Term("Author", about.author),
            Term("Written", moment(about.date)),
        ]
        if len(about.parents) > 1:
            text = f"It is a merge: the change came in with the branch of {about.parents[1][:10]}"
            command = f"--good {about.parents[0][:10]} --bad {about.parents[1][:10]}"
            blocks.append(Prose(f"{text}; a search on it: {command}", "even"))
        blocks += [
            Facts(terms),
            Listing("Message", about.message, open=True),
            Listing("Diffstat", about.diffstat, open=True),
        ]
    else:
        blocks.append(Facts(terms))
    title = "What was found" if number == 1 else f"What was found ({number})"
    return [Section(f"found-{number}", title, blocks), *_moved(search_result, group, number, out)]


def _moved(search_result: SearchResult, group: Group, number: int, out: Path) -> list[Section]:
    """Returns sections about what moved with the rate from the stop before to this one: CPU, waits, plans,
    profiles."""
    measured = measurement_of(search_result, group)
    if measured is None:
        return []
    if search_result.by == "instructions":
        return [_functions(search_result, measured, number)]
    try:
        results = read_results(search_result.search.folder / RUNS, measured.campaign, "base")
    except PgstrataError as error:
        return [
            Section("why", "What moved with it", [Prose(f"The runs cannot be read: {error.message}", "bad")])
        ]
    flames, trouble = draw_flames(results, read_flames(results), out)
    sections = [why(results, workload, flames, trouble) for workload in results.workloads]
    moved_sections = [section for section in sections if section is not None]
    if not flames:
        reason = unavailable() or "it was switched off, or perf had nothing to record"
        moved_sections.append(
            Section("no-profile", "No profile", [Prose(f"There is no profile: {reason}", "even")])
        )
    return moved_sections


def _functions(search_result: SearchResult, measured: Measurement, number: int) -> Section:
    """Returns the section about the functions that account for the difference in instructions."""
    base, other, comparison = counted_sides(search_result, measured)
    tables: list[Block] = [
        table for verdict in comparison.steps for table in difference_tables(base, other, verdict)
    ]
    return Section(f"functions-{number}", "What accounts for it", tables)


# --- tables -----------------------------------------------------------------------------------


def _tables(search_result: SearchResult) -> list[Block]:
    stops = search_result.search.line.stops
    blocks: list[Block] = [
        _measurements(search_result, search_result.by, "measurements", "Every measurement, in its order")
    ]
    other = other_way(search_result.by)
    if search_result.state.measured_by(other):
        title = "The ends, timed" if other == "rate" else "The ends, counted"
        blocks.append(_measurements(search_result, other, "other-way", title))
    if search_result.state.set_aside:
        blocks.append(
            Table(
                "set-aside",
                "What could not be measured",
                [
                    Column("position", "Place"),
                    Column("name", search_result.search.line.kind.capitalize(), align="left"),
                    Column("why", "Why", align="left"),
                ],
                [
                    Row(
                        [
                            Cell(stop.position, str(stop.position)),
                            words(stops[stop.position].name, stops[stop.position].subject),
                            words(stop.why),
                        ]
                    )
                    for stop in search_result.state.set_aside
                ],
                "No evidence for or against any of them.",
                lead=2,
            )
        )
    return blocks


def _measurements(search_result: SearchResult, by: By, name: str, title: str) -> Table:
    """Returns a table of the measurements of one kind: time and instructions never share a column."""
    stops, measured = search_result.search.line.stops, search_result.state.measured_by(by)
    unit = measured[0].unit if measured else ""
    rows = []
    for m in measured:
        outcome = outcome_of(search_result, m)
        change, low, high = interval(outcome, by)
        mark: Mark = "" if low <= 0 <= high else "bad" if is_worse(outcome) else "good"
        rows.append(
            Row(
                [
                    Cell(m.other, str(m.other)),
                    words(stops[m.other].name, stops[m.other].subject),
                    words(stops[m.base].name),
                    Cell(
                        100 * change,
                        f"{100 * change:+z.2f}",
                        mark,
                        small=f"{100 * low:+z.2f} … {100 * high:+z.2f}",
                    ),
                    Cell(m.base_rate, rate(m.base_rate)),
                    Cell(m.other_rate, rate(m.other_rate)),
                    Cell(m.build_seconds, duration(m.build_seconds)),
                    Cell(m.seconds, duration(m.seconds)),
                    Cell(100 * m.others, f"{100 * m.others:.0f}", "bad" if m.disturbed else ""),
                    words(moment(m.at)),
                ]
            )
        )
    return Table(
        name,
        title,
        [
            Column("position", "Place"),
            Column("other", "Measured", align="left"),
            Column("base", "against", align="left"),
            Column("change", "Change", "%"),
            Column("base_rate", "Base", unit, rule=True),
            Column("other_rate", "Measured", unit),
            Column("build_seconds", "Build", "", rule=True),
            Column("seconds", "All"),
            Column("others", "Others", "%"),
            Column("at", "When", align="left"),
        ],
        rows,
        "The place is counted from the good end, 0. The interval, 95 %, holds the error of the "
        "measurement and what stays with one start of the servers. Others is the share of the CPUs' time "
        "that other programs used meanwhile.",
        lead=2,
    )


__all__ = ["PAGE", "axis_words", "error_bars", "headline", "stretch", "write_search"]
