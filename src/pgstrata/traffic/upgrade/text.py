"""An upgrade that was tried, in short: for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

import msgspec

from pgstrata import numbers
from pgstrata.judge.alone import figures
from pgstrata.judge.compare import StepVerdictRecord
from pgstrata.judge.query_causes import CauseRecord
from pgstrata.judge.query_parts import PartsRecord
from pgstrata.judge.statements import StatementVerdict
from pgstrata.report.sections.query_times import difference_text
from pgstrata.stats.verdict import VerdictRecord, Word
from pgstrata.store.record import Sizes
from pgstrata.traffic.replay.blocks import ORDER, SAID, doubt, left_out_rounds, shortened
from pgstrata.traffic.replay.gaps import Gap
from pgstrata.traffic.replay.judged import Judged
from pgstrata.traffic.upgrade.checklist.model import STATES, Line
from pgstrata.traffic.upgrade.decision import Decision, Measured, fails, other_rows
from pgstrata.traffic.upgrade.page import MOST_NAMED, facts, fails_said, lede, settle_lines, title, version_of

Json = dict[str, Any]

MOST_OBJECTS = 3
"""Of a line of the checklist that the terminal shows."""


def text(decision: Decision, again: str) -> str:
    """Returns the decision as text for a terminal. again: the command that goes on with more rounds, empty
    where none would help."""
    lines = [title(decision), ""]
    for label in decision.targets:
        lines += [f"{label}: {decision.answers[label].sentence}", *_of_version(decision, label)]
    if to_settle := [*settle_lines(decision)]:
        lines += [
            "",
            "to settle what is not known: " + " ".join(to_settle),
            *([f"  {again}"] if again else []),
        ]
    for label, error in decision.tried.failed.items():
        lines += ["", f"{label} could not be measured: {error}"]
    lines += ["", lede(decision), *(f"{term.name}: {term.value}" for term in facts(decision))]
    if decision.measured is not None and decision.measured.gaps:
        lines += ["", "not covered:", *_gaps(decision.measured)]
    lines += [f"note: {note}" for note in decision.tried.notes]
    return "\n".join(lines) + "\n"


def _of_version(decision: Decision, label: str) -> Iterator[str]:
    """Yields the lines of a version in this order: changed answers, failures, other rows, work before the
    upgrade, slower statements, work after it, unknowns; then the rest."""
    judged = decision.judged.get(label)
    checklist = decision.checklists.get(label, ())
    if judged is not None:
        changed = judged.answers.changed
        for statement in changed[:MOST_NAMED]:
            rows = judged.answers.written.get(statement, "")
            sentence = f" ({rows})" if rows else ""
            yield f"  answers otherwise on the same data: {shortened(statement.text)}{sentence}"
        if len(changed) > MOST_NAMED:
            yield f"    and {len(changed) - MOST_NAMED} more on the page"
    failing, refused = fails(judged, checklist)
    if failing or refused:
        yield f"  {fails_said(failing, refused)}"
    if judged is not None:
        for new in judged.new_errors[:MOST_NAMED]:
            text = shortened(new.statement.text)
            yield f"    {numbers.counted(new.count, 'time')}: {new.message} ({text})"
        if len(judged.new_errors) > MOST_NAMED:
            yield f"    and {len(judged.new_errors) - MOST_NAMED} more"
    yield from _details(refused)
    differing = other_rows(decision.measured, label) if decision.measured is not None else ()
    for entry in differing[:MOST_NAMED]:
        yield f"  answers otherwise, {entry.base} → {entry.other} rows: {shortened(entry.statement.text)}"
    yield from _listed(checklist, "before")
    if judged is not None:
        yield from _timed(decision, judged, "slower")
    yield from _listed(checklist, "after")
    if judged is not None:
        yield from _timed(decision, judged, "unclear", "faster", "same")
    looked = [line for line in checklist if line.state in ("look", "unknown")]
    if looked:
        yield f"  to look at: {len(looked)}"
        for line in looked[:MOST_NAMED]:
            yield f"    {line.title}" + (f" ({line.count})" if line.count else "")
        if len(looked) > MOST_NAMED:
            yield f"    and {len(looked) - MOST_NAMED} more on the page"


def _listed(checklist: Any, state: Any) -> Iterator[str]:
    lines: list[Line] = [line for line in checklist if line.state == state]
    if lines:
        yield f"  {STATES[state]}: {len(lines)}"
    yield from _details(lines)


def _details(lines: Sequence[Line]) -> Iterator[str]:
    for line in lines:
        yield f"    {line.title}"
        yield from (f"      {shortened(object_name)}" for object_name in line.objects[:MOST_OBJECTS])
        if line.count > MOST_OBJECTS:
            yield f"      and {line.count - MOST_OBJECTS} more"
        yield f"      → {line.act}"


def _timed(decision: Decision, judged: Judged, *chosen: Word) -> Iterator[str]:
    if judged.left_out and "unclear" in chosen:
        yield f"  {left_out_rounds(judged)}"
    for word in chosen:
        statements = judged.of(word)
        if not statements:
            continue
        share = numbers.share_of_time(judged.share(word), 2)
        yield f"  {SAID[word]}: {len(statements)}, {share} % of the time on {decision.base}"
        # What is the same, or not known, is a list for the page; but for what differs beside others only.
        named = [
            statement
            for statement in statements
            if word in ("slower", "faster") or statement.alone is not None
        ]
        yield from (f"    {line}" for statement in named[:MOST_NAMED] for line in _lines(statement, judged))
        if len(named) > MOST_NAMED:
            yield f"    and {len(named) - MOST_NAMED} more"


def _gaps(measured: Measured) -> Iterator[str]:
    for gap in measured.gaps:
        details = [numbers.counted(gap.count, gap.unit)] if gap.count is not None else []
        details += [f"{numbers.share_of_time(gap.share, 2)} % of the time"] if gap.share is not None else []
        yield f"  {gap.what}" + (f" ({', '.join(details)})" if details else "")


def _lines(statement: StatementVerdict, judged: Judged) -> Iterator[str]:
    each = f"{numbers.milliseconds(statement.base.mean)} → {numbers.milliseconds(statement.other.mean)} ms"
    plan = ", another plan" if statement.statement.name in judged.plans else ""
    if not statement.verdict.decided:
        yield f"{statement.verdict.reason}: {shortened(statement.statement.text)}"
        return
    alone = statement.alone.verdict if statement.alone is not None else None
    beside = f"; alone {figures(alone)}" if alone is not None else ""
    yield f"{numbers.longer(statement.longer)} ({each}{plan}{beside}): {shortened(statement.statement.text)}"
    if statement.cause is not None:
        yield f"  why: {statement.cause.sentence}"
        if statement.parts is not None:
            yield f"  where the time went: {difference_text(statement.parts)}"
        if statement.cause.advice:
            yield f"  what helps: {statement.cause.advice}"


# --- JSON -------------------------------------------------------------------------------------


class LabelRecord(TypedDict):
    """A server as JSON."""

    label: str
    version: str


class AloneRecord(TypedDict):
    """A statement executed by itself, as JSON."""

    verdict: VerdictRecord | None
    reason: str


class StatementRecord(VerdictRecord):
    """The verdict on a statement as JSON."""

    statement: str
    longer: float | None
    base_share: float | None
    share: float | None
    base_seconds: float | None
    seconds: float | None
    calls: float
    rounds: int
    plan_changed: bool
    alone: AloneRecord | None
    cause: CauseRecord | None
    parts: PartsRecord | None
    doubt: str


class AnswersRecord(TypedDict):
    """Answers of statements, compared, as JSON."""

    changed: list[str]
    written: dict[str, Any]
    same: int
    varying: int
    unanswered: int


class VersionRecord(LabelRecord):
    """A new version as JSON; without the keys behind `checklist` where nothing was replayed."""

    answer: str
    reasons: list[str]
    said: str
    checklist: list[Line]
    whole: NotRequired[StepVerdictRecord | None]
    answers: NotRequired[AnswersRecord]
    rounds: NotRequired[int]
    rounds_left_out: NotRequired[Any]
    disturbance: NotRequired[str]
    statements: NotRequired[list[StatementRecord]]
    new_errors: NotRequired[list[dict[str, Any]]]
    gone_errors: NotRequired[list[dict[str, Any]]]
    apart_errors: NotRequired[list[dict[str, Any]]]
    differing_rows: NotRequired[list[dict[str, Any]]]


class SettleRecord(TypedDict):
    """How much more it takes to know, as JSON."""

    rounds: int | None
    minutes: float | None
    said: str


class ChangedDefault(TypedDict):
    """A setting whose default differs, as JSON."""

    name: str
    defaults: dict[str, str | None]


class DatabaseBytes(TypedDict):
    """Sizes of a database as JSON."""

    database: int
    tables: int
    indexes: int


class SizesRecord(TypedDict):
    """Sizes after the load and at the end, as JSON."""

    loaded: DatabaseBytes | None
    end: DatabaseBytes | None


FromRecord = TypedDict("FromRecord", {"from": LabelRecord})
"""The server an upgrade starts from, as JSON."""


class DecisionRecord(FromRecord):
    """A decision as JSON."""

    answer: dict[str, str]
    to: list[VersionRecord]
    settle: dict[str, SettleRecord]
    again: str | None
    failed: dict[str, str]
    left_out: dict[str, list[str]]
    unchecked: str | None
    other_load: float | None
    lag_seconds: float | None
    settings: list[ChangedDefault]
    settings_of_one: dict[str, list[str]]
    sizes: dict[str, SizesRecord]
    not_covered: list[Gap]
    notes: list[str]
    page: str
    report: str | None


def decision_json(decision: Decision, page: Path, report: Path | None, again: str) -> DecisionRecord:
    """Returns a decision as JSON can hold it: the answer first."""
    measured = decision.measured
    defaults = measured.defaults if measured is not None else None
    record: Json = {
        "answer": {label: answer.word for label, answer in decision.answers.items()},
        "from": {"label": decision.base, "version": version_of(decision, decision.base)},
        "to": [_version(decision, label) for label in decision.targets if _is_known(decision, label)],
        "settle": {
            label: {"rounds": settling.rounds, "minutes": settling.minutes, "said": settling.sentence}
            for label, settling in decision.settlings.items()
        },
        "again": again or None,
        "failed": dict(decision.tried.failed),
        "left_out": {text: list(names) for text, names in decision.tried.servers.lacking.items()},
        "unchecked": decision.tried.unchecked or None,
        "other_load": measured.other_load if measured is not None else None,
        "lag_seconds": measured.lag if measured is not None else None,
        "settings": [{"name": setting.name, "defaults": dict(setting.values)} for setting in defaults.changed]
        if defaults is not None
        else [],
        "settings_of_one": {v: list(names) for v, names in defaults.only.items()}
        if defaults is not None
        else {},
        "sizes": {v: _sizes(measured, v) for v in measured.results.variants} if measured is not None else {},
        "not_covered": [vars(gap) for gap in measured.gaps] if measured is not None else [],
        "notes": list(decision.tried.notes),
        "page": str(page),
        "report": str(report) if report is not None else None,
    }
    return cast(DecisionRecord, record)


def _is_known(decision: Decision, label: str) -> bool:
    return label in decision.judged or label in decision.checklists


def _version(decision: Decision, label: str) -> Json:
    answer, measured = decision.answers[label], decision.measured
    version_facts: Json = {
        "label": label,
        "version": version_of(decision, label),
        "answer": answer.word,
        "reasons": list(answer.reasons),
        "said": answer.sentence,
        "checklist": [msgspec.to_builtins(line) for line in decision.checklists.get(label, ())],
    }
    judged = decision.judged.get(label)
    if judged is None or measured is None:
        return version_facts
    return {
        **version_facts,
        "whole": measured.whole[label].record() if label in measured.whole else None,
        "answers": {
            "changed": [statement.name for statement in judged.answers.changed],
            "written": {statement.name: rows for statement, rows in judged.answers.written.items()},
            "same": judged.answers.same,
            "varying": len(judged.answers.varying),
            "unanswered": judged.answers.unanswered,
        },
        "rounds": judged.rounds,
        "rounds_left_out": judged.left_out,
        "disturbance": judged.disturbance,
        "statements": [
            _statement(statement_verdict, judged) for word in ORDER for statement_verdict in judged.of(word)
        ],
        "new_errors": [error.record() for error in judged.new_errors],
        "gone_errors": [error.record() for error in judged.gone_errors],
        "apart_errors": [error.record() for error in judged.apart_errors],
        "differing_rows": [differing_rows.record() for differing_rows in measured.differing.get(label, ())],
    }


def _statement(statement_verdict: StatementVerdict, judged: Judged) -> Json:
    return {
        "statement": statement_verdict.statement.text,
        **statement_verdict.verdict.record(),
        "longer": statement_verdict.longer,
        "base_share": statement_verdict.base_share,
        "share": statement_verdict.other_share,
        "base_seconds": statement_verdict.base.mean,
        "seconds": statement_verdict.other.mean,
        "calls": statement_verdict.other.calls,
        "rounds": statement_verdict.rounds,
        "plan_changed": statement_verdict.statement.name in judged.plans,
        "alone": None
        if statement_verdict.alone is None
        else {
            "verdict": statement_verdict.alone.verdict.record()
            if statement_verdict.alone.verdict is not None
            else None,
            "reason": statement_verdict.alone.reason,
        },
        "cause": statement_verdict.cause.record() if statement_verdict.cause is not None else None,
        "parts": msgspec.to_builtins(statement_verdict.parts.record())
        if statement_verdict.parts is not None
        else None,
        "doubt": doubt(statement_verdict) if statement_verdict.verdict.word == "unclear" else "",
    }


def _sizes(measured: Measured, variant: str) -> Json:
    record = measured.record(variant)
    return {
        "loaded": _bytes(measured.loaded(variant)),
        "end": _bytes(record.sizes if record is not None else None),
    }


def _bytes(sizes: Sizes | None) -> Json | None:
    if sizes is None:
        return None
    return {
        "database": sizes.database_bytes,
        "tables": sum(t.table_bytes for t in sizes.tables.values()),
        "indexes": sum(t.index_bytes for t in sizes.tables.values()),
    }


__all__ = ["decision_json", "text"]
