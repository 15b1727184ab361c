"""The page of an upgrade that was tried: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pgstrata import numbers
from pgstrata.judge.marks import Mark
from pgstrata.judge.statements import StatementVerdict
from pgstrata.page.blocks import (
    Block,
    Facts,
    Finding,
    Findings,
    Listing,
    Prose,
    Section,
    Term,
)
from pgstrata.page.charts import color
from pgstrata.page.results import anchor
from pgstrata.report.export_html import Switch
from pgstrata.report.write import write_page, write_report_of
from pgstrata.stats.verdict import Word
from pgstrata.store.record import OTHER_LOAD
from pgstrata.traffic.replay.blocks import MARKS, SAID, left_out_rounds, shortened
from pgstrata.traffic.replay.judged import Judged
from pgstrata.traffic.upgrade.checklist.model import STATES, Line, State
from pgstrata.traffic.upgrade.decision import Decision, Measured, fails, other_rows
from pgstrata.traffic.upgrade.differing import DifferingRows
from pgstrata.traffic.upgrade.sections import MARKS_OF_STATES, sections
from pgstrata.traffic.upgrade.settle import at_most, undecided
from pgstrata.traffic.upgrade.tried import page_folder

MOST_NAMED = 5
"""Statements of each kind that the first screenful and the terminal name."""

QUIET = "Stop other programs before, or take every round: --other-load 100%."


def write_pages(decision: Decision, again: str) -> tuple[Path, Path | None]:
    """Writes the page, and the whole report of the runs beside it where there are runs.

    again: the command that goes on with more rounds. Raises StoreError.
    """
    question, digest = decision.tried.question, decision.tried.digest
    measured = decision.measured
    report = None
    if measured is not None:
        report = write_report_of(measured.results, question.folder / f"report-{digest}").html
    out = page_folder(question, digest)
    results = measured.results if measured is not None else None
    write_page(
        title(decision),
        lede(decision),
        [Section("answer", "The answer", [*_answer(decision, again)]), *sections(decision)],
        out,
        run_count=len(results.runs) if results is not None else 0,
        variants=[Switch(v, color(results.color(v)), v == results.base) for v in results.variants]
        if results is not None
        else [],
    )
    return out / "index.html", report


def title(decision: Decision) -> str:
    """Returns the title: from which version to which."""
    of = version_of(decision, decision.base)
    return f"PostgreSQL {of} to " + " and ".join(version_of(decision, label) for label in decision.targets)


def version_of(decision: Decision, label: str) -> str:
    """Returns the version of a label, as the server writes it."""
    servers = decision.tried.servers
    by_label = dict(zip(decision.targets, (server for _, server in servers.targets), strict=True))
    return by_label.get(label, servers.base).version


def lede(decision: Decision) -> str:
    """Returns a few sentences on what was done."""
    tried, header = decision.tried, decision.tried.header
    measured = decision.measured
    dumps = " and ".join(dump.name for dump in tried.question.dumps)
    sessions = numbers.counted(header.sessions, "connection")
    asked = f"{numbers.counted(header.statements, 'statement')} of {sessions}"
    if header.synthetic:
        source = f"{asked}, drawn from what the server has counted of them"
    else:
        logs = ", ".join(log.name for log in tried.question.logs)
        part = f"a window of {logs}" if tried.captured != tried.whole and measured else f"what {logs} holds"
        source = f"{part}, {asked} in {numbers.duration((header.end - header.begin) / 1e6)}"
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


# --- the answer -------------------------------------------------------------------------------

Item = tuple[Mark, str, Sequence[tuple[str, str, str]]]


def _answer(decision: Decision, again: str) -> Iterator[Block]:
    measured, tried = decision.measured, decision.tried
    findings = []
    for number, label in enumerate(decision.targets):
        color_number = measured.results.color(label) if label in decision.judged and measured else number
        findings.append(
            Finding(label, color_number, decision.answers[label].sentence, [*_items(decision, label)])
        )
    yield Findings("", findings)
    if to_settle := [*settle_lines(decision)]:
        yield Prose("What is not known, and what would settle it: " + " ".join(to_settle))
        if again:
            yield Listing("The command that goes on with what is there", by_line(again), open=True)
    for label, error in tried.failed.items():
        yield Prose(f"{label} could not be measured: {error}", "bad")
    if tried.unchecked:
        yield Prose(f"There is no checklist: {tried.unchecked}", "bad")
    for label, judged in decision.judged.items():
        if judged.left_out:
            yield Prose(f"{label}: {left_out_rounds(judged)}.", "even")
    yield Facts([*facts(decision)])
    for note in tried.notes:
        yield Prose(note, "even")


def _items(decision: Decision, label: str) -> Iterator[Item]:
    """Yields the items a reader has to know, in this order: changed answers, failures, other rows, work
    before the upgrade, slower statements, work after it, unknowns; then the rest."""
    judged = decision.judged.get(label)
    if judged is not None and (changed := judged.answers.changed):
        rows = judged.answers.written
        named = [
            (shortened(statement.text), rows.get(statement, ""), "answers")
            for statement in changed[:MOST_NAMED]
        ]
        title = f"answers otherwise on the same data: {len(changed)}"
        yield "bad", title, _and_more(named, len(changed), "answers")
    checklist = decision.checklists.get(label, ())
    where = anchor("checklist", label)
    failing, refused = fails(judged, checklist)
    named = [(shortened(text), "", "errors") for text in failing[:MOST_NAMED]]
    named += [(shortened(line.title), f"{line.count}", where) for line in refused]
    if named:
        yield "bad", fails_said(failing, refused), named
    differing = other_rows(decision.measured, label) if decision.measured is not None else ()
    if differing:
        named = [
            (shortened(differing_rows.statement.text), _rows(differing_rows), "answers")
            for differing_rows in differing[:MOST_NAMED]
        ]
        yield (
            "missed",
            f"another number of rows: {len(differing)}",
            _and_more(named, len(differing), "answers"),
        )
    yield from _to_do(checklist, "before", where)
    if judged is not None:
        yield from _timed(judged, label, "slower")
    yield from _to_do(checklist, "after", where)
    if judged is not None:
        yield from _timed(judged, label, "unclear", "faster", "same")
    looked = [line for line in checklist if line.state in ("look", "unknown")]
    if looked:
        named = [(shortened(line.title), "", where) for line in looked[:MOST_NAMED]]
        yield "even", f"to look at: {len(looked)}", _and_more(named, len(looked), where)


def fails_said(failing: Sequence[str], refused: Sequence[Line]) -> str:
    """Returns how many statements, definitions and functions fail."""
    return f"{STATES['fails']}: {len(failing) + sum(line.count for line in refused)}"


def _to_do(checklist: Sequence[Line], state: State, where: str) -> Iterator[Item]:
    todo = [line for line in checklist if line.state == state]
    if todo:
        named = [(shortened(line.title), "", where) for line in todo[:MOST_NAMED]]
        mark = MARKS_OF_STATES[state]
        yield mark, f"{STATES[state]}: {len(todo)}", _and_more(named, len(todo), where)


def _timed(judged: Judged, label: str, *chosen: Word) -> Iterator[Item]:
    where = anchor("statements", label)
    for word in chosen:
        statements = judged.of(word)
        if not statements:
            continue
        named = [
            (
                shortened(statement_verdict.statement.text),
                _change(statement_verdict) if word != "unclear" else "",
                where,
            )
            for statement_verdict in statements[:MOST_NAMED]
        ]
        share = numbers.share_of_time(judged.share(word), 2)
        yield (
            MARKS[word],
            f"{SAID[word]}: {len(statements)}, {share} % of the time",
            _and_more(named, len(statements), where),
        )


def _change(statement_verdict: StatementVerdict) -> str:
    remedy = statement_verdict.cause.remedy if statement_verdict.cause is not None else None
    return numbers.longer(statement_verdict.longer) + (", a remedy is proven" if remedy is not None else "")


def _and_more(named: list[tuple[str, str, str]], count: int, where: str) -> list[tuple[str, str, str]]:
    more = count - MOST_NAMED
    return [*named, (f"and {more} more", "", where)] if more > 0 else named


def _rows(differing_rows: DifferingRows) -> str:
    return f"{numbers.count(differing_rows.base)} → {numbers.count(differing_rows.other)} rows"


def settle_lines(decision: Decision) -> Iterator[str]:
    """Yields a sentence for each new version on how to settle the unknowns."""
    for label, settled in decision.settlings.items():
        on = f"{label}: " if len(decision.targets) > 1 else ""
        yield f"{on}{settled.sentence}{at_most(undecided(decision.judged[label]))}."
        if decision.judged[label].disturbance:
            yield QUIET
    if decision.settlings and decision.measured is not None and decision.measured.other_load > OTHER_LOAD:
        load = f"{100 * decision.measured.other_load:.0f} %"
        yield f"Other programs used up to {load} of the CPUs: on a quiet machine fewer rounds do."


def by_line(command: str) -> str:
    """Returns a command with each option on a line of its own, as a shell takes it; unchanged if it has
    quotes."""
    return command if "'" in command else command.replace(" --", " \\\n    --")


def goes_on(decision: Decision) -> float | None:
    """Returns the minutes of further rounds that would settle what is open; None where none would."""
    minutes = [settling.minutes for settling in decision.settlings.values() if settling.rounds is not None]
    return max(minutes, default=None)


def together(measured: Measured, variant: str) -> str:
    """Returns in words how long all statements together take, with what is proven of that."""
    whole = measured.whole.get(variant)
    if whole is None or whole.verdict.ratio <= 0:
        return "cannot be compared"
    longer = numbers.longer(1 / whole.verdict.ratio)
    match whole.verdict.word:
        case "unclear":
            return f"{longer}, which is not proven"
        case "same":
            return "the same time"
        case _:
            return longer


def facts(decision: Decision) -> Iterator[Term]:
    """Yields the facts of the measuring itself, in short."""
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
    for variant, judged in measured.judged.items():
        on = f" on {variant}" if len(measured.judged) > 1 else ""
        yield Term(f"All statements together{on}", together(measured, variant))
        plans = (
            f"{len(judged.plans)} of {judged.planned} statements"
            if judged.planned
            else "no plan could be asked for"
        )
        yield Term(f"Changed plans{on}", plans)
        yield Term(f"Answers compared{on}", _answers_said(judged))
        yield Term(f"New errors{on}", _counted_errors(judged))
        if judged.apart_errors:
            count = sum(error.count for error in judged.apart_errors)
            text = f"{numbers.counted(count, 'time')}, of order or not in every round: told apart"
            yield Term(f"Other errors{on}", text)
    if measured.defaults is not None:
        yield Term("Settings with another default", str(len(measured.defaults.changed)))
    yield Term("Database on disk, all loaded", _sizes_said(measured))
    yield Term(
        "Not covered",
        f"{numbers.counted(len(measured.gaps), 'thing')}, listed below" if measured.gaps else "nothing known",
    )


def _answers_said(judged: Judged) -> str:
    compared = judged.answers
    if not compared.same and not compared.changed:
        return "none"
    apart = [
        f"{count} {what}"
        for count, what in (
            (len(compared.changed), "otherwise"),
            (len(compared.varying), "not compared, they differ by nature"),
            (compared.unanswered, "without an answer"),
        )
        if count
    ]
    return ", ".join([f"{compared.same} the same", *apart])


def _counted_errors(judged: Judged) -> str:
    if not judged.new_errors:
        return "none"
    count = sum(error.count for error in judged.new_errors)
    kinds = numbers.counted(len(judged.new_errors), "kind")
    return f"{kinds}, {numbers.counted(count, 'time')} in {numbers.counted(judged.rounds, 'round')}"


def _sizes_said(measured: Measured) -> str:
    texts = []
    for variant in measured.results.variants:
        sizes = measured.loaded(variant)
        texts.append(f"{numbers.size(sizes.database_bytes if sizes is not None else None)} on {variant}")
    return ", ".join(texts)


__all__ = [
    "MOST_NAMED",
    "by_line",
    "facts",
    "fails_said",
    "goes_on",
    "lede",
    "settle_lines",
    "title",
    "together",
    "version_of",
    "write_pages",
]
