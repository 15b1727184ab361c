"""The page of an upgrade that was tried: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pgstrata import numbers
from pgstrata.judge.marks import Mark
from pgstrata.judge.statements import StatementVerdict
from pgstrata.page.blocks import (
    Block,
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
from pgstrata.page.charts import color
from pgstrata.page.results import anchor
from pgstrata.report.export_html import Switch
from pgstrata.report.sections.defaults import default_blocks
from pgstrata.report.sections.settings import not_taken
from pgstrata.report.sections.sizes import growth
from pgstrata.report.sections.statement_plans import both_plans
from pgstrata.report.write import write_page, write_report_of
from pgstrata.traffic.captured import text_of
from pgstrata.traffic.replay.blocks import MARKS, ORDER, SAID, error_blocks, judged_table, left_out_rounds
from pgstrata.traffic.replay.emptiness import emptiness_in, emptiness_table
from pgstrata.traffic.replay.gaps import gap_table
from pgstrata.traffic.replay.judged import Judged, plans_of
from pgstrata.traffic.upgrade.checklist.lines import STATES, Line
from pgstrata.traffic.upgrade.decision import Decision, Measured, told_twice
from pgstrata.traffic.upgrade.differing import DifferingRows
from pgstrata.traffic.upgrade.settle import at_most, undecided

MOST_NAMED = 5
"""Statements of each kind that the first screenful and the terminal name."""

QUIET = "Stop other programs before, or take every round: --other-load 100%."

MOST_PLANS = 40
MOST_LETTERS = 100
MOST_OBJECTS = 30
"""Of a line of the checklist that the table shows; JSON has more."""

MARKS_OF_STATES: dict[str, Mark] = {"fails": "bad", "before": "missed", "after": "even", "unknown": "even"}


def write_pages(decision: Decision, again: str) -> tuple[Path, Path | None]:
    """Writes the page, and the whole report of the runs beside it where there are runs.

    again: the command that goes on with more rounds. Raises StoreError.
    """
    folder = decision.tried.question.folder
    measured = decision.measured
    report = write_report_of(measured.results, folder / "report").html if measured is not None else None
    out = folder / "page"
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    results = measured.results if measured is not None else None
    write_page(
        title(decision),
        lede(decision),
        _sections(decision, again),
        out,
        run_count=len(results.runs) if results is not None else 0,
        variants=[Switch(v, color(results.color(v)), v == results.base) for v in results.variants]
        if results is not None
        else [],
    )
    return out / "index.html", report


def title(decision: Decision) -> str:
    """From which version to which."""
    of = version_of(decision, decision.base)
    return f"PostgreSQL {of} to " + " and ".join(version_of(decision, label) for label in decision.targets)


def version_of(decision: Decision, label: str) -> str:
    """The version of a label, as the server writes it."""
    servers = decision.tried.servers
    by_label = dict(zip(decision.targets, (server for _, server in servers.targets), strict=True))
    return by_label.get(label, servers.base).version


def lede(decision: Decision) -> str:
    """What was done, in a few sentences."""
    tried, header = decision.tried, decision.tried.header
    dumps = " and ".join(dump.name for dump in tried.question.dumps)
    sessions = numbers.counted(header.sessions, "connection")
    asked = f"{numbers.counted(header.statements, 'statement')} of {sessions}"
    if header.synthetic:
        source = f"{asked}, drawn from what the server has counted of them"
    else:
        logs = ", ".join(log.name for log in tried.question.logs)
        source = f"what {logs} holds, {asked} in {numbers.duration((header.end - header.begin) / 1e6)}"
    measured = decision.measured
    if measured is None:
        return (
            f"The definitions of {dumps} were executed on every version, without rows, and parsed with them: "
            f"{source}. Nothing was replayed."
        )
    times = "once" if measured.rounds == 1 else f"{measured.rounds} times"
    host = next((run.record.host.hostname for run in measured.results.runs), None)
    return (
        f"{dumps} was loaded into every version. Then {source}, was asked "
        f"again {times} on each, in turns{f', on {host}' if host else ''}: each time is called a round. "
        f"Everything is compared with {decision.base}."
    )


def _sections(decision: Decision, again: str) -> list[Section]:
    made = [Section("answer", "The answer", [*_answer(decision, again)])]
    for label, checklist in decision.checklists.items():
        named = f" to {label}" if len(decision.checklists) > 1 else ""
        made.append(Section(anchor("checklist", label), f"Checklist{named}", [*_checklist(label, checklist)]))
    measured = decision.measured
    if measured is None:
        return made
    base = decision.base
    for variant, own in measured.judged.items():
        made.append(
            Section(anchor("statements", variant), f"Statements on {variant}", [judged_table(base, own)])
        )
    if any(measured.differing.values()):
        made.append(Section("answers", "Other answers", [*_differing_blocks(decision, measured)]))
    made.append(Section("plans", "Changed plans", [*_plan_blocks(decision, measured)]))
    made.append(Section("errors", "New errors", error_blocks(base, measured.judged)))
    made.append(Section("defaults", "Settings whose default changed", [*_default_blocks(measured)]))
    if (refused := not_taken(measured.results)) is not None:
        made.append(refused)
    grown = growth(measured.results)
    if grown is not None:
        made.append(Section("sizes", "Sizes", [grown]))
    made.append(Section("gaps", "What this does not cover", [*_gap_blocks(decision, measured)]))
    made.append(Section("how", "How it was measured", [*_how(decision, measured)]))
    return made


# --- the answer -------------------------------------------------------------------------------

Item = tuple[Mark, str, Sequence[tuple[str, str, str]]]


def _answer(decision: Decision, again: str) -> Iterator[Block]:
    measured, tried = decision.measured, decision.tried
    found = []
    for number, label in enumerate(decision.targets):
        color_number = measured.results.color(label) if label in decision.judged and measured else number
        found.append(Finding(label, color_number, decision.answers[label].said, [*_items(decision, label)]))
    yield Findings("", found)
    if to_settle := [*settle_lines(decision)]:
        yield Prose("What is not known, and what would settle it: " + " ".join(to_settle))
        yield Listing("The command that goes on with what is there", again, open=True)
    for label, error in tried.failed.items():
        yield Prose(f"{label} could not be measured: {error}", "bad")
    if tried.unchecked:
        yield Prose(f"There is no checklist: {tried.unchecked}", "bad")
    for label, own in decision.judged.items():
        if own.left_out:
            yield Prose(f"{label}: {left_out_rounds(own)}.", "even")
    yield Facts([*facts(decision)])
    for note in tried.notes:
        yield Prose(note, "even")


def _items(decision: Decision, label: str) -> Iterator[Item]:
    """What a reader has to know, in this order: what fails, answers otherwise, is to be done, is slower, is
    not known; then the rest."""
    own = decision.judged.get(label)
    checklist = decision.checklists.get(label, ())
    where = anchor("checklist", label)
    failing = [*dict.fromkeys(error.statement for error in own.new_errors)] if own is not None else []
    named = [(shortened(text_of(name)), "", "errors") for name in failing[:MOST_NAMED]]
    texts = [text_of(name) for name in failing]
    refused = [
        (line, line.count - len(told_twice(line, texts))) for line in checklist if line.state == "fails"
    ]
    named += [(shortened(line.title), f"{count}", where) for line, count in refused if count]
    if named:
        yield "bad", f"fails: {len(failing) + sum(count for _, count in refused)}", named
    differing = decision.measured.differing.get(label, ()) if decision.measured is not None else ()
    if differing:
        named = [(shortened(text_of(one.statement)), _rows(one), "answers") for one in differing[:MOST_NAMED]]
        yield "missed", f"answers otherwise: {len(differing)}", _and_more(named, len(differing), "answers")
    for state in ("before", "after"):
        todo = [line for line in checklist if line.state == state]
        if todo:
            named = [(shortened(line.title), "", where) for line in todo[:MOST_NAMED]]
            mark = MARKS_OF_STATES[state]
            yield mark, f"{STATES[state]}: {len(todo)}", _and_more(named, len(todo), where)
    if own is not None:
        yield from _timed(own, label)
    looked = [line for line in checklist if line.state in ("look", "unknown")]
    if looked:
        named = [(shortened(line.title), "", where) for line in looked[:MOST_NAMED]]
        yield "even", f"to look at: {len(looked)}", _and_more(named, len(looked), where)


def _timed(own: Judged, label: str) -> Iterator[Item]:
    where = anchor("statements", label)
    for word in ("slower", "unclear", "faster", "same"):
        statements = own.of(word)
        if not statements:
            continue
        named = [
            (shortened(text_of(one.name)), numbers.longer(one.longer) if word != "unclear" else "", where)
            for one in statements[:MOST_NAMED]
        ]
        share = numbers.significant(100 * own.share(word), 2)
        yield (
            MARKS[word],
            f"{SAID[word]}: {len(statements)}, {share} % of the time",
            _and_more(named, len(statements), where),
        )


def _and_more(named: list[tuple[str, str, str]], count: int, where: str) -> list[tuple[str, str, str]]:
    more = count - MOST_NAMED
    return [*named, (f"and {more} more", "", where)] if more > 0 else named


def _rows(one: DifferingRows) -> str:
    return f"{numbers.count(one.base)} → {numbers.count(one.other)} rows"


def settle_lines(decision: Decision) -> Iterator[str]:
    """What would settle what is not known, a sentence for each new version."""
    for label, settled in decision.settlings.items():
        on = f"{label}: " if len(decision.targets) > 1 else ""
        yield f"{on}{settled.said}{at_most(undecided(decision.judged[label]))}."
        if decision.judged[label].disturbance:
            yield QUIET


def goes_on(decision: Decision) -> float | None:
    """Returns the minutes of further rounds that would settle what is open; None where none would."""
    minutes = [one.minutes for one in decision.settlings.values() if one.rounds is not None]
    return max(minutes, default=None)


def together(measured: Measured, variant: str) -> str:
    """How long all statements take as one, with what is proven of that."""
    found = measured.whole.get(variant)
    if found is None or found.verdict.ratio <= 0:
        return "cannot be compared"
    longer = numbers.longer(1 / found.verdict.ratio)
    match found.verdict.word:
        case "unclear":
            return f"{longer}, which is not proven"
        case "same":
            return "the same time"
        case _:
            return longer


def facts(decision: Decision) -> Iterator[Term]:
    """What is known of the measuring itself, in short."""
    measured = decision.measured
    if measured is None:
        return
    yield Term("Other programs on this machine", f"{100 * measured.other_load:.0f} % of its CPUs at most")
    late = numbers.milliseconds(measured.lag)
    yield Term("Lag of the replay", f"1 of 100 statements was sent {late} ms late or more")
    yield Term(
        "Rounds",
        f"{measured.rounds}, {numbers.duration(measured.round_seconds)} each with all versions",
    )
    for variant, own in measured.judged.items():
        on = f" on {variant}" if len(measured.judged) > 1 else ""
        yield Term(f"All statements together{on}", together(measured, variant))
        plans = (
            f"{len(own.plans)} of {own.planned} statements" if own.planned else "no plan could be asked for"
        )
        yield Term(f"Changed plans{on}", plans)
        yield Term(f"New errors{on}", _counted_errors(own))
        if own.apart_errors:
            count = sum(error.count for error in own.apart_errors)
            said = f"{numbers.counted(count, 'time')}, of order or not in every round: told apart"
            yield Term(f"Other errors{on}", said)
    if measured.defaults is not None:
        yield Term("Settings with another default", str(len(measured.defaults.changed)))
    yield Term("Database on disk, all loaded", _sizes_said(measured))
    yield Term(
        "Not covered",
        f"{numbers.counted(len(measured.gaps), 'thing')}, listed below" if measured.gaps else "nothing known",
    )


def _counted_errors(own: Judged) -> str:
    if not own.new_errors:
        return "none"
    count = sum(error.count for error in own.new_errors)
    kinds = numbers.counted(len(own.new_errors), "kind")
    return f"{kinds}, {numbers.counted(count, 'time')} in {numbers.counted(own.rounds, 'round')}"


def _sizes_said(measured: Measured) -> str:
    said = []
    for variant in measured.results.variants:
        sizes = measured.loaded(variant)
        said.append(f"{numbers.size(sizes.database_bytes if sizes is not None else None)} on {variant}")
    return ", ".join(said)


# --- the parts below --------------------------------------------------------------------------


def _checklist(label: str, checklist: Sequence[Line]) -> Iterator[Block]:
    by_hand = [line for line in checklist if line.state == "hand"]
    rows = []
    for line in checklist:
        if line.state == "hand":
            continue
        where = list(line.objects[:MOST_OBJECTS])
        if line.count > len(where):
            where.append(f"and {line.count - len(where)} more")
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
    if by_hand:
        text = "\n\n".join(f"{line.title}\n    {line.act}\n    {line.source}" for line in by_hand)
        yield Listing(f"{len(by_hand)} changes that neither dump nor log can show", text)


def _differing_blocks(decision: Decision, measured: Measured) -> Iterator[Block]:
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
                        words(text_of(one.statement)),
                        words(numbers.count(one.calls)),
                        words(numbers.count(one.base)),
                        words(numbers.count(one.other)),
                    ]
                )
                for one in differing
            ],
            how="The same number in every round on the one, and another in every round on the other. Values "
            "are not compared, only how many rows come.",
            keys=[("variant", variant)],
            stacked=True,
        )


def _plan_blocks(decision: Decision, measured: Measured) -> Iterator[Block]:
    base = decision.base
    here = {plan.name: plan for plan in plans_of(measured.step.by_variant[base])}
    shown = 0
    for variant, own in measured.judged.items():
        if not own.planned:
            yield Prose(f"No plan could be asked for on {variant}.", "even")
            continue
        if not own.plans:
            yield Prose(f"All {own.planned} statements that have a plan have the same one on {variant}.")
            continue
        yield Prose(
            "A plan is the way in which the server looks for the rows of a statement. On "
            f"{variant}, {_of(len(own.plans), own.planned)} executed in another way: other "
            f"indexes, joins or orders. Both ways stand side by side, {base} on the left; lines that differ "
            "have a mark. Seq Scan reads the whole table, an Index Scan only what an index points to. "
            "Another plan is not a worse one: the table above says how long it takes."
        )
        there = {plan.name: plan for plan in plans_of(measured.step.by_variant[variant])}
        by_name = {one.name: one for one in own.statements}
        changed = sorted(own.plans, key=lambda name: _rank(by_name.get(name)))
        for name in changed:
            if shown == MOST_PLANS:
                yield Prose("More changed plans are in the whole report.", "even")
                return
            shown += 1
            one = by_name.get(name)
            said = f"{SAID[one.verdict.word]}: " if one is not None else ""
            both = {base: here[name], variant: there[name]}
            yield both_plans(f"{said}{shortened(text_of(name))}", both, base, variant, open=shown <= 3)


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole} statements {'is' if part == 1 else 'are'}"


def _rank(one: StatementVerdict | None) -> tuple[int, float]:
    return (9, 0.0) if one is None else (ORDER.index(one.verdict.word), -one.share)


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
        for own in measured.step.by_variant.values()
        for m in own.repeats
        if m.record.alone is not None
    ]
    if not records:
        return "No statement was executed alone: one that is slower may be so because of others beside it."
    names = {one.name for record in records for one in record.statements}
    executed = {one.name for record in records for one in record.statements if one.slices}
    limit = max(record.budget_seconds for record in records)
    return (
        f"{text} {len(executed)} of {numbers.counted(len(names), 'statement')} were executed so, in "
        f"{numbers.duration(max(record.seconds for record in records))} (at most "
        f"{max(record.most_statements for record in records)} statements and {numbers.duration(limit)})."
    )


def shortened(text: str) -> str:
    """The beginning of a text that is long."""
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


__all__ = [
    "MOST_NAMED",
    "facts",
    "goes_on",
    "lede",
    "settle_lines",
    "shortened",
    "title",
    "together",
    "version_of",
    "write_pages",
]
