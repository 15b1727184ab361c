"""An upgrade that was tried, in short: for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from pgstrata import numbers
from pgstrata.judge.alone import figures
from pgstrata.judge.statements import StatementVerdict
from pgstrata.stats.verdict import Word
from pgstrata.store.record import Sizes
from pgstrata.traffic.replay.blocks import ORDER, SAID, doubt, left_out_rounds
from pgstrata.traffic.replay.judged import Judged
from pgstrata.traffic.upgrade.checklist.model import STATES, Line
from pgstrata.traffic.upgrade.decision import Decision, Measured
from pgstrata.traffic.upgrade.page import MOST_NAMED, facts, lede, settle_lines, title, version_of
from pgstrata.traffic.upgrade.sections import shortened

Json = dict[str, Any]

MOST_OBJECTS = 3
"""Of a line of the checklist that the terminal shows."""


def text(decision: Decision, again: str) -> str:
    """For a terminal. again: the command that goes on with more rounds, empty where none would help."""
    lines = [title(decision), ""]
    for label in decision.targets:
        lines += [f"{label}: {decision.answers[label].said}", *_of_version(decision, label)]
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
    """What has another answer, fails, comes to other rows, is to be done before, is slower, is to be done
    after, is not known; then the rest."""
    own = decision.judged.get(label)
    checklist = decision.checklists.get(label, ())
    if own is not None:
        changed = own.answers.changed
        for statement in changed[:MOST_NAMED]:
            rows = own.answers.written.get(statement, "")
            said = f" ({rows})" if rows else ""
            yield f"  answers otherwise on the same data: {shortened(statement.text)}{said}"
        if len(changed) > MOST_NAMED:
            yield f"    and {len(changed) - MOST_NAMED} more on the page"
        for new in own.new_errors[:MOST_NAMED]:
            text = shortened(new.statement.text)
            yield f"  fails, {numbers.counted(new.count, 'time')}: {new.message} ({text})"
        if len(own.new_errors) > MOST_NAMED:
            yield f"    and {len(own.new_errors) - MOST_NAMED} more"
    yield from _listed(checklist, "fails")
    differing = decision.measured.differing.get(label, ()) if decision.measured is not None else ()
    for one in differing[:MOST_NAMED]:
        yield f"  answers otherwise, {one.base} → {one.other} rows: {shortened(one.statement.text)}"
    yield from _listed(checklist, "before")
    if own is not None:
        yield from _timed(decision, own, "slower")
    yield from _listed(checklist, "after")
    if own is not None:
        yield from _timed(decision, own, "unclear", "faster", "same")
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
    for line in lines:
        yield f"    {line.title}"
        yield from (f"      {shortened(one)}" for one in line.objects[:MOST_OBJECTS])
        if line.count > MOST_OBJECTS:
            yield f"      and {line.count - MOST_OBJECTS} more"
        yield f"      → {line.act}"


def _timed(decision: Decision, own: Judged, *chosen: Word) -> Iterator[str]:
    if own.left_out and "unclear" in chosen:
        yield f"  {left_out_rounds(own)}"
    for word in chosen:
        statements = own.of(word)
        if not statements:
            continue
        share = numbers.significant(100 * own.share(word), 2)
        yield f"  {SAID[word]}: {len(statements)}, {share} % of the time on {decision.base}"
        # What is the same, or not known, is a list for the page; but for what differs beside others only.
        named = [one for one in statements if word in ("slower", "faster") or one.alone is not None]
        yield from (f"    {line}" for one in named[:MOST_NAMED] for line in _lines(one, own))
        if len(named) > MOST_NAMED:
            yield f"    and {len(named) - MOST_NAMED} more"


def _gaps(measured: Measured) -> Iterator[str]:
    for gap in measured.gaps:
        details = [numbers.counted(gap.count, "statement")] if gap.count is not None else []
        details += (
            [f"{numbers.significant(100 * gap.share, 2)} % of the time"] if gap.share is not None else []
        )
        yield f"  {gap.what}" + (f" ({', '.join(details)})" if details else "")


def _lines(one: StatementVerdict, own: Judged) -> Iterator[str]:
    each = f"{numbers.milliseconds(one.base.mean)} → {numbers.milliseconds(one.other.mean)} ms"
    plan = ", another plan" if one.statement.name in own.plans else ""
    if not one.verdict.decided:
        yield f"{one.verdict.reason}: {shortened(one.statement.text)}"
        return
    alone = one.alone.verdict if one.alone is not None else None
    beside = f"; alone {figures(alone)}" if alone is not None else ""
    yield f"{numbers.longer(one.longer)} ({each}{plan}{beside}): {shortened(one.statement.text)}"
    if one.cause is not None:
        yield f"  why: {one.cause.sentence}"
        if one.cause.advice:
            yield f"  what helps: {one.cause.advice}"


# --- JSON -------------------------------------------------------------------------------------


def record(decision: Decision, page: Path, report: Path | None, again: str) -> Json:
    """As JSON can hold it: the answer first."""
    measured = decision.measured
    defaults = measured.defaults if measured is not None else None
    return {
        "answer": {label: one.word for label, one in decision.answers.items()},
        "from": {"label": decision.base, "version": version_of(decision, decision.base)},
        "to": [_version(decision, label) for label in decision.targets if _is_known(decision, label)],
        "settle": {
            label: {"rounds": one.rounds, "minutes": one.minutes, "said": one.said}
            for label, one in decision.settlings.items()
        },
        "again": again or None,
        "failed": dict(decision.tried.failed),
        "left_out": {text: list(names) for text, names in decision.tried.servers.lacking.items()},
        "unchecked": decision.tried.unchecked or None,
        "other_load": measured.other_load if measured is not None else None,
        "lag_seconds": measured.lag if measured is not None else None,
        "settings": [{"name": one.name, "defaults": dict(one.values)} for one in defaults.changed]
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


def _is_known(decision: Decision, label: str) -> bool:
    return label in decision.judged or label in decision.checklists


def _version(decision: Decision, label: str) -> Json:
    answer, measured = decision.answers[label], decision.measured
    found: Json = {
        "label": label,
        "version": version_of(decision, label),
        "answer": answer.word,
        "reasons": list(answer.reasons),
        "said": answer.said,
        "checklist": [msgspec.to_builtins(line) for line in decision.checklists.get(label, ())],
    }
    own = decision.judged.get(label)
    if own is None or measured is None:
        return found
    return {
        **found,
        "whole": measured.whole[label].record() if label in measured.whole else None,
        "answers": {
            "changed": [one.name for one in own.answers.changed],
            "written": {one.name: rows for one, rows in own.answers.written.items()},
            "same": own.answers.same,
            "varying": own.answers.varying,
            "unanswered": own.answers.unanswered,
        },
        "rounds": own.rounds,
        "rounds_left_out": own.left_out,
        "disturbance": own.disturbance,
        "statements": [_statement(one, own) for word in ORDER for one in own.of(word)],
        "new_errors": [error.record() for error in own.new_errors],
        "gone_errors": [error.record() for error in own.gone_errors],
        "apart_errors": [error.record() for error in own.apart_errors],
        "differing_rows": [one.record() for one in measured.differing.get(label, ())],
    }


def _statement(one: StatementVerdict, own: Judged) -> Json:
    return {
        "statement": one.statement.text,
        **one.verdict.record(),
        "longer": one.longer,
        "base_share": one.base_share,
        "share": one.other_share,
        "base_seconds": one.base.mean,
        "seconds": one.other.mean,
        "calls": one.other.calls,
        "rounds": one.rounds,
        "plan_changed": one.statement.name in own.plans,
        "alone": None
        if one.alone is None
        else {
            "verdict": one.alone.verdict.record() if one.alone.verdict is not None else None,
            "reason": one.alone.reason,
        },
        "cause": one.cause.record() if one.cause is not None else None,
        "doubt": doubt(one) if one.verdict.word == "unclear" else "",
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


__all__ = ["record", "text"]
