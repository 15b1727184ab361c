"""The parts of an upgrade's page below its answer: what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgstrata import numbers
from pgstrata.judge.marks import Mark
from pgstrata.judge.statements import StatementVerdict
from pgstrata.page.blocks import Block, Column, Listing, Prose, Row, Section, Table, words
from pgstrata.page.results import anchor
from pgstrata.report.sections.defaults import default_blocks
from pgstrata.report.sections.query_causes import remedies_as_sql
from pgstrata.report.sections.settings import not_taken
from pgstrata.report.sections.sizes import growth
from pgstrata.report.sections.statement_plans import both_plans
from pgstrata.traffic.replay.blocks import (
    ORDER,
    SAID,
    error_blocks,
    explained_statements,
    judged_table,
    shortened,
    statement_times,
)
from pgstrata.traffic.replay.emptiness import emptiness_in, emptiness_table
from pgstrata.traffic.replay.gaps import gap_table
from pgstrata.traffic.replay.judged import plans_of
from pgstrata.traffic.upgrade.checklist.model import STATES, Line
from pgstrata.traffic.upgrade.decision import Decision, Measured

MOST_PLANS = 40
MOST_OBJECTS = 10
"""Of a line of the checklist that the table shows; a list below it has the others."""

MARKS_OF_STATES: dict[str, Mark] = {"fails": "bad", "before": "missed", "after": "even", "unknown": "even"}


def sections(decision: Decision) -> list[Section]:
    """Returns them in their order."""
    result = []
    for label, checklist in decision.checklists.items():
        named = f" to {label}" if len(decision.checklists) > 1 else ""
        result.append(
            Section(anchor("checklist", label), f"Checklist{named}", [*_checklist(label, checklist)])
        )
    measured = decision.measured
    if measured is None:
        return result
    base = decision.base
    for variant, judged in measured.judged.items():
        result.append(
            Section(anchor("statements", variant), f"Statements on {variant}", [judged_table(base, judged)])
        )
    if causes := [*_cause_blocks(decision, measured)]:
        times = statement_times(base, measured.judged)
        parts = [Section("times", "Where the time went", parts=times, quiet=True)] if times else []
        result.append(Section("causes", "Why, and what helps", causes, parts))
    if any(measured.differing.values()) or any(judged.answers.changed for judged in measured.judged.values()):
        result.append(Section("answers", "Other answers", [*_differing_blocks(decision, measured)]))
    result.append(Section("plans", "Changed plans", [*_plan_blocks(decision, measured)]))
    result.append(Section("errors", "New errors", error_blocks(base, measured.judged)))
    result.append(Section("defaults", "Settings whose default changed", [*_default_blocks(measured)]))
    if (refused := not_taken(measured.results)) is not None:
        result.append(refused)
    grown = growth(measured.results)
    if grown is not None:
        result.append(Section("sizes", "Sizes", [grown]))
    result.append(Section("gaps", "What this does not cover", [*_gap_blocks(decision, measured)]))
    result.append(Section("how", "How it was measured", [*_how(decision, measured)]))
    return result


def _checklist(label: str, checklist: Sequence[Line]) -> Iterator[Block]:
    by_hand = [line for line in checklist if line.state == "hand"]
    long = [line for line in checklist if line.state != "hand" and line.count > MOST_OBJECTS]
    rows = []
    for line in checklist:
        if line.state == "hand":
            continue
        where = list(line.objects[:MOST_OBJECTS])
        if line.count > len(where):
            where.append(f"and {line.count - len(where)} more, listed below")
        rows.append(
            Row(
                [
                    words(STATES[line.state], mark=MARKS_OF_STATES.get(line.state, "")),
                    words(line.title),
                    words(" · ".join(where)),
                    words(line.act),
                    words(line.source),
                ]
            )
        )
    yield Table(
        name="checklist",
        title=f"What the upgrade to {label} meets",
        columns=[
            Column("when", "When", align="left"),
            Column("what", "What", align="left"),
            Column("where", "Where it is", align="left"),
            Column("act", "What to do", align="left"),
            Column("source", "Documented", align="left"),
        ],
        rows=rows,
        how="Fails: a server said so, which was given the definitions of the dump without rows and the "
        "statements of the log to parse. Before and after the upgrade: what the catalogs of the old version "
        "and the texts of functions and statements show. To look at: whether it matters depends on values "
        "or on what is not in the dump.",
        keys=[("variant", label)],
        stacked=True,
    )
    for line in long:
        rest = [f"and {line.count - len(line.objects)} more"] if line.count > len(line.objects) else []
        yield Listing(f"{line.title}: {line.count} places", "\n".join([*line.objects, *rest]))
    if by_hand:
        text = "\n\n".join(f"{line.title}\n    {line.act}\n    {line.source}" for line in by_hand)
        yield Listing(f"{len(by_hand)} changes that neither dump nor log can show", text)


def _cause_blocks(decision: Decision, measured: Measured) -> Iterator[Block]:
    explained = explained_statements(measured.judged)
    if not explained:
        return
    several = len(measured.judged) > 1
    yield Table(
        name="causes",
        title="Why statements are slower, and what helps",
        columns=[
            Column("statement", "Statement", align="left"),
            *([Column("version", "Version", align="left")] if several else []),
            Column("why", "Why", align="left"),
            Column("helps", "What helps", align="left"),
        ],
        rows=[
            Row(
                [
                    words(statement.name),
                    *([words(statement.variant)] if several else []),
                    words(statement.cause.sentence),
                    words(statement.cause.advice or "not looked for"),
                ]
            )
            for statement in explained
        ],
        how=f"Each was executed alone again, in turns: on {decision.base}, on the new version, and there "
        f"with the plan of {decision.base}, too. What that plan leaves of the difference is the "
        "executor's, the rest the planner's. What helps was tried in turn with the statement as it is, with "
        "values of the log; settings in a transaction that was rolled back, an index was created and dropped "
        "again. Figures are times of one execution, with what they may be as well.",
        stacked=True,
    )
    if sql := remedies_as_sql(explained):
        yield Listing("What helps, as SQL", sql, open=True)


def _differing_blocks(decision: Decision, measured: Measured) -> Iterator[Block]:
    for variant, judged in measured.judged.items():
        if judged.answers.changed:
            yield Table(
                name="changed_answers",
                title=f"Statements that answer otherwise on {variant}",
                columns=[
                    Column("statement", "Statement", align="left"),
                    Column(
                        "rows", "Rows of it, all executions", f"{decision.base} → {variant}", align="left"
                    ),
                ],
                rows=[
                    Row([words(statement.text), words(judged.answers.written.get(statement, ""))])
                    for statement in judged.answers.changed
                ],
                how="Executed on both versions with the same data and the values of its first executions in "
                "the log. Rows are compared in the order that the statement asks for, or in any, fractions "
                "to 12 digits; of changes, which are rolled back, also how many rows they write to each "
                "table, triggers included. What differs by nature is compared with none: what answers "
                "otherwise with another plan of the same version, numbers of sequences, words such as now() "
                "and random().",
                keys=[("variant", variant)],
                stacked=True,
            )
    for variant, differing in measured.differing.items():
        if not differing:
            continue
        yield Table(
            name="differing_rows",
            title=f"Statements with another number of rows on {variant}",
            columns=[
                Column("statement", "Statement", align="left"),
                Column("calls", "Asked", "a round"),
                Column("base", f"Rows, {decision.base}", "a round"),
                Column("rows", f"Rows, {variant}", "a round"),
            ],
            rows=[
                Row(
                    [
                        words(differing_rows.statement.text),
                        words(numbers.count(differing_rows.calls)),
                        words(numbers.count(differing_rows.base)),
                        words(numbers.count(differing_rows.other)),
                    ]
                )
                for differing_rows in differing
            ],
            how="The same number in every round on the one, and another in every round on the other.",
            keys=[("variant", variant)],
            stacked=True,
        )


def _plan_blocks(decision: Decision, measured: Measured) -> Iterator[Block]:
    base = decision.base
    here = {plan.name: plan for plan in plans_of(measured.step.by_variant[base])}
    shown = 0
    for variant, judged in measured.judged.items():
        if not judged.planned:
            yield Prose(f"No plan could be asked for on {variant}.", "even")
            continue
        if not judged.plans:
            yield Prose(f"All {judged.planned} statements that have a plan have the same one on {variant}.")
            continue
        yield Prose(
            "A plan is the way in which the server looks for the rows of a statement. On "
            f"{variant}, {_of(len(judged.plans), judged.planned)} executed in another way: other "
            f"indexes, joins or orders. Both ways stand side by side, {base} on the left; lines that differ "
            "have a mark. Seq Scan reads the whole table, an Index Scan only what an index points to. "
            "Another plan is not a worse one: the table above says how long it takes."
        )
        there = {plan.name: plan for plan in plans_of(measured.step.by_variant[variant])}
        by_name = {
            statement_verdict.statement.name: statement_verdict for statement_verdict in judged.statements
        }
        changed = sorted(judged.plans, key=lambda name: _rank(by_name.get(name)))
        for name in changed:
            if shown == MOST_PLANS:
                yield Prose("More changed plans are in the whole report.", "even")
                return
            shown += 1
            statement_verdict = by_name.get(name)
            prefix = f"{SAID[statement_verdict.verdict.word]}: " if statement_verdict is not None else ""
            both = {base: here[name], variant: there[name]}
            text = statement_verdict.statement.text if statement_verdict is not None else name
            yield both_plans(f"{prefix}{shortened(text)}", both, base, variant, open=shown <= 3)


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole} statements {'is' if part == 1 else 'are'}"


def _rank(statement_verdict: StatementVerdict | None) -> tuple[int, float]:
    return (
        (9, 0.0)
        if statement_verdict is None
        else (ORDER.index(statement_verdict.verdict.word), -statement_verdict.share)
    )


def _default_blocks(measured: Measured) -> Iterator[Block]:
    if measured.defaults is None or not (measured.defaults.changed or measured.defaults.only):
        yield Prose("Every setting begins with the same value.")
        return
    yield from default_blocks(measured.results, measured.defaults)


def _gap_blocks(decision: Decision, measured: Measured) -> Iterator[Block]:
    yield Prose(
        "Beside the checklist nothing was looked at but how these statements do on this data: not downtime, "
        "not backups, replicas and jobs that are not in the log, and not other machines. Here the data is "
        "freshly loaded, and most of it in memory after the first statements: a database that has grown for "
        "years, is larger than its memory, or has many more users at a time may do otherwise."
    )
    if measured.gaps:
        yield gap_table(measured.gaps)
    if (without := emptiness_table(emptiness_in(measured.step))) is not None:
        yield without
    for text, names in decision.tried.servers.lacking.items():
        yield Prose(f"PostgreSQL {text} was left out: it lacks {', '.join(names)}.", "bad")


def _how(decision: Decision, measured: Measured) -> Iterator[Block]:
    tried = decision.tried
    question = tried.question
    pace = (
        "as fast as answers came"
        if not question.speed
        else "at the pace of the original"
        if question.speed == 1
        else f"at {numbers.significant(question.speed)} times the pace of the original"
    )
    margin = f"{100 * question.margin:.3g} %"
    yield Prose(
        f"Every version got the same data, then ANALYZE, and before each round a fresh copy of it. A round "
        f"is all of it once, {pace}, on as many connections as there were. The versions took turns, so "
        f"that what else this machine did hit them alike. Differences below {margin} count as none."
    )
    yield Prose(
        "Slower, faster and the same are proven: among all statements that are called slower or faster, at "
        "most one in twenty is so by chance. Not known means that these rounds cannot tell, and more may "
        "(--minutes, --rounds)."
    )
    yield Prose(_alone(measured))
    yield Prose(
        f"All versions ran with the configuration {question.config}. Your own makes it yours: --config "
        "FILE.conf. The whole report of the runs, with response times and the machine, lies beside this "
        "page, in report/index.html."
    )
    yield Listing("Files", "\n".join(str(path) for path in (*question.dumps, *question.logs)))


def _alone(measured: Measured) -> str:
    text = (
        "A statement may be slower because others, which are slower, hold what it needs: so each that the "
        "rounds called slower or faster was executed alone after them, on the data that a round begins with "
        "and with values of the log; what may change rows was rolled back, which leaves out the time of its "
        "commit. Only where it is so alone, too, it is called slower or faster."
    )
    records = [
        m.record.alone
        for repeats in measured.step.by_variant.values()
        for m in repeats.repeats
        if m.record.alone is not None
    ]
    if not records:
        return "No statement was executed alone: one that is slower may be so because of others beside it."
    names = {statement.name for record in records for statement in record.statements}
    executed = {statement.name for record in records for statement in record.statements if statement.slices}
    limit = max(record.budget_seconds for record in records)
    were = numbers.agreeing(len(executed), "was", "were")
    return (
        f"{text} {len(executed)} of {numbers.counted(len(names), 'statement')} {were} executed so, in "
        f"{numbers.duration(max(record.seconds for record in records))} (at most "
        f"{max(record.most_statements for record in records)} statements and {numbers.duration(limit)})."
    )


__all__ = ["MARKS_OF_STATES", "sections"]
