"""The page of plans that were compared without data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pgstrata import numbers
from pgstrata.page.blocks import (
    Block,
    Cell,
    Column,
    Facts,
    Finding,
    Findings,
    Listing,
    Prose,
    Row,
    Section,
    Table,
    Term,
    words,
)
from pgstrata.page.results import anchor
from pgstrata.report.sections.statement_plans import both_plans
from pgstrata.report.write import write_page
from pgstrata.traffic.replay.blocks import shortened
from pgstrata.traffic.upgrade.page import by_line
from pgstrata.traffic.upgrade.planned.asked import Asked, AskedStatement
from pgstrata.traffic.upgrade.planned.outcome import Changed, PlannedUpgrade, PlannedVersion
from pgstrata.traffic.upgrade.planned.restore import Restored
from pgstrata.traffic.upgrade.tried import page_folder, question_digest

MOST_NAMED, MOST_ROWS, MOST_LISTINGS = 5, 500, 60
"""Statements that the first screenful names, that a table has, and whose plans stand side by side."""

MOST_UNKNOWN = 0.01
"""Share of the time without a plan from which on the first sentence says so."""

NOT_SAID = "What only data can prove is not said: how long they take."

PROOF = "To prove it, give a dump with data in the place of the statistics (pg_dump -Fc)"

Item = tuple[str, str, Sequence[tuple[str, str, str]]]


def write_planned_page(planned: PlannedUpgrade, proof: str) -> Path:
    """Writes the page and returns it. proof: the command that measures. Raises StoreError."""
    out = page_folder(planned.question, question_digest(planned.question, planned.captured))
    sections = [Section("answer", "The answer", [*_answer(planned, proof)])]
    for target in planned.versions:
        sections.append(_plans(planned, target))
    if refused := [block for target in planned.versions for block in _refused(planned, target)]:
        sections.append(Section("refused", "Refused statements", refused))
    sections.append(Section("gaps", "Not covered", [*_gaps(planned)]))
    write_page(title(planned), lede(planned), sections, out, run_count=0, variants=[])
    return out / "index.html"


def title(planned: PlannedUpgrade) -> str:
    """Returns the title: from which version to which."""
    old, *new = (server.server.version for server in planned.servers)
    return f"Plans of PostgreSQL {old} and {' and '.join(new)}"


def lede(planned: PlannedUpgrade) -> str:
    """Returns a few sentences on what was done."""
    dumps = " and ".join(dump.name for dump in planned.question.dumps)
    statistics = planned.question.statistics
    name = statistics.name if statistics is not None else ""
    planned_count = sum(statement.sample is not None for statement in planned.asked.statements)
    return (
        f"The definitions of {dumps} and the planner statistics of {name} were put into every version, "
        f"without rows. Each was asked for the plans of {numbers.counted(planned_count, 'statement')} of "
        f"{planned.asked.source} (EXPLAIN); nothing was executed."
    )


def answer_sentence(planned: PlannedUpgrade, target: PlannedVersion) -> str:
    """Returns the answer for a version, in one sentence: how many statements have another plan."""
    asked = planned.asked
    whole = len(target.changed) + len(target.same)
    changed = (
        f"{len(target.changed):,} of {numbers.counted(whole, 'statement')} "
        f"({_percent(asked, target.changed)} of the {asked.of}) "
        f"{'gets' if len(target.changed) == 1 else 'get'} another plan"
    )
    if (share := sum(asked.share(statement) for statement, _ in target.unknown)) >= MOST_UNKNOWN:
        has = "has" if len(target.unknown) == 1 else "have"
        unknown = numbers.counted(len(target.unknown), "statement")
        changed += f"; {unknown} with {percent(share)} of the {asked.of} {has} no plan to compare"
    if target.refused:
        is_refused = "is" if len(target.refused) == 1 else "are"
        refused = numbers.counted(len(target.refused), "statement")
        return f"Do not go yet: {refused} that the old version plans {is_refused} refused; {changed}."
    return f"Cannot tell: {changed}."


def _percent(asked: Asked, statements: Sequence[Changed | AskedStatement]) -> str:
    return percent(sum(asked.share(_of(statement)) for statement in statements))


def percent(share: float) -> str:
    """Returns a share as percent in words."""
    return f"{numbers.share_of_time(share, 2)} %"


def _of(entry: Changed | AskedStatement) -> AskedStatement:
    return entry.statement if isinstance(entry, Changed) else entry


def costs(changed: Changed) -> str:
    """Estimates of both versions."""
    return " → ".join("?" if cost is None else f"{cost:,.0f}" for cost in changed.costs)


def _answer(planned: PlannedUpgrade, proof: str) -> Iterator[Block]:
    findings = []
    for number, target in enumerate(planned.versions):
        items = [*_items(planned, target)]
        findings.append(Finding(target.label, number, answer_sentence(planned, target), items))  # type: ignore[arg-type]
    yield Findings("", findings)
    yield Prose(f"{NOT_SAID} {PROOF}.")
    yield Listing("The command that measures", by_line(proof), open=True)
    yield Facts([*facts(planned)])
    for note in planned.notes:
        yield Prose(note, "even")


def _items(planned: PlannedUpgrade, target: PlannedVersion) -> Iterator[Item]:
    asked = planned.asked
    if target.refused:
        named = [
            (shortened(statement.text), percent(asked.share(statement)), "refused")
            for statement, _ in target.refused
        ]
        yield "bad", f"refused: {len(target.refused)}", _first(named, "refused")
    if target.changed:
        where = anchor("plans", target.label)
        named = [
            (shortened(changed.statement.text), percent(asked.share(changed.statement)), where)
            for changed in target.changed
        ]
        yield "even", f"another plan: {len(target.changed)}", _first(named, where)
    yield "same", f"same plan: {len(target.same)}", ()


def _first(named: list[tuple[str, str, str]], where: str) -> list[tuple[str, str, str]]:
    more = len(named) - MOST_NAMED
    return [*named[:MOST_NAMED], (f"and {more:,} more", "", where)] if more > 0 else named


def facts(planned: PlannedUpgrade) -> Iterator[Term]:
    """Yields the facts that the comparison rests on."""
    for server in planned.servers:
        restored = server.restored
        yield Term(
            f"Statistics on {server.label}",
            f"{numbers.counted(restored.relations, 'table or index', 'tables and indexes')}, "
            f"{numbers.counted(restored.columns, 'column')}"
            + (
                f", {numbers.counted(restored.extended, 'object')} of CREATE STATISTICS"
                if restored.extended
                else ""
            )
            + (f"; {restored.count:,} not restored, listed below" if restored.count else ""),
        )
        if server.definitions_refused:
            yield Term(
                f"Definitions refused by {server.label}", f"{len(server.definitions_refused):,}, listed below"
            )
    for target in planned.versions:
        on = f" on {target.label}" if len(planned.versions) > 1 else ""
        share = percent(sum(planned.asked.share(statement) for statement, _ in target.unknown))
        yield Term(f"Not planned{on}", f"{len(target.unknown):,}, {share} of the {planned.asked.of}")


def _plans(planned: PlannedUpgrade, target: PlannedVersion) -> Section:
    where = anchor("plans", target.label)
    if not target.changed:
        return Section(where, f"Plans on {target.label}", [Prose("Every plan is the same.", "even")])
    base = planned.servers[0].label
    rows = [
        Row(
            [
                words(shortened(changed.statement.text), note=changed.statement.text[:2000]),
                _share_cell(planned.asked, changed.statement),
                words(costs(changed)),
                words("; ".join(filter(None, (ours for ours, _ in changed.lines[:3])))),
                words("; ".join(filter(None, (theirs for _, theirs in changed.lines[:3])))),
            ]
        )
        for changed in target.changed[:MOST_ROWS]
    ]
    table = Table(
        f"plans-{target.label}",
        "Statements with another plan",
        [
            Column("statement", "Statement", align="left"),
            Column("share", f"Of the {planned.asked.of}", "%"),
            Column("cost", "Estimated cost", f"{base} → {target.label}"),
            Column("old", f"Only on {base}", align="left"),
            Column("new", f"Only on {target.label}", align="left"),
        ],
        rows,
        "Plans differ where nodes, indexes, conditions, keys, workers or compilation do. The cost is each "
        "version's own estimate: it is no time, and models of two versions differ. Statements with most "
        f"{planned.asked.of} come first.",
        stacked=True,
        notes=[
            f"In the answer as JSON: {numbers.counted(len(target.changed) - MOST_ROWS, 'more statement')}."
        ]
        if len(target.changed) > MOST_ROWS
        else [],
    )
    listings = [
        both_plans(
            f"{shortened(changed.statement.text)}: {base} and {target.label}",
            {base: changed.base, target.label: changed.other},
            base,
            target.label,
            open=number == 0,
        )
        for number, changed in enumerate(target.changed[:MOST_LISTINGS])
    ]
    return Section(where, f"Plans on {target.label}", [table, *listings])


def _share_cell(asked: Asked, asked_statement: AskedStatement) -> Cell:
    share = asked.share(asked_statement)
    return Cell(share, numbers.share_of_time(share, 2))


def _refused(planned: PlannedUpgrade, target: PlannedVersion) -> Iterator[Block]:
    if target.refused:
        yield _said_table(f"refused-{target.label}", f"Refused by {target.label}", planned, target.refused)


def _said_table(
    name: str, heading: str, planned: PlannedUpgrade, said_of: Sequence[tuple[AskedStatement, str]]
) -> Table:
    return Table(
        name,
        heading,
        [
            Column("statement", "Statement", align="left"),
            Column("share", f"Of the {planned.asked.of}", "%"),
            Column("why", "Why", align="left"),
        ],
        [
            Row([words(shortened(statement.text)), _share_cell(planned.asked, statement), words(why)])
            for statement, why in said_of[:MOST_ROWS]
        ],
        "In the server's words where it was asked.",
        stacked=True,
    )


def _gaps(planned: PlannedUpgrade) -> Iterator[Block]:
    yield Prose(
        "Not covered by plans: times, cold data and bloat, answers, locks, what sessions had set for "
        "themselves, temporary tables, and the ends of columns that only an index knows."
    )
    for server in planned.servers:
        if server.restored.count or server.restored.bare:
            yield _not_restored(server.label, server.restored)
        if server.definitions_refused:
            yield _pairs(
                f"definitions-{server.label}",
                f"Definitions refused by {server.label}",
                server.definitions_refused,
            )
    for target in planned.versions:
        if target.unknown:
            heading = f"Statements without a plan on both, for {target.label}"
            yield _said_table(f"unknown-{target.label}", heading, planned, target.unknown)


def _not_restored(label: str, restored: Restored) -> Table:
    reasons = {missing.what: missing.why for missing in restored.missing}
    reasons |= dict.fromkeys(restored.bare[:MOST_ROWS], "the file has no statistics of this table")
    return _pairs(f"statistics-{label}", f"Statistics that {label} does not have", reasons)


def _pairs(name: str, heading: str, reasons: Mapping[str, str]) -> Table:
    rows = [Row([words(what), words(why)]) for what, why in list(reasons.items())[:MOST_ROWS]]
    columns = [Column("what", "What", align="left"), Column("why", "Why", align="left")]
    return Table(name, heading, columns, rows, "In the server's words where it was asked.", stacked=True)


__all__ = [
    "NOT_SAID",
    "PROOF",
    "answer_sentence",
    "costs",
    "facts",
    "lede",
    "percent",
    "title",
    "write_planned_page",
]
